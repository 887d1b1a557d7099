"""Goes through what a case expects, one oracle after the other. Pure.

An oracle that forbids speaks of what the planner did and holds for any run, also one that was cut
off. An oracle that requires speaks of what is missing, and says nothing of a run that never came to
its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replay.case import ArgumentRule, Budgets, CallPattern, Expected
from replay.case.expected import patterns
from replay.case.schema import faults, holds, same
from replay.case.searching import Undecided, is_found
from replay.oracles.keys import describe_use
from replay.oracles.outcome import OracleFinding, Outcome, Proposal
from replay.oracles.sequences import sequence_findings
from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.decisions import plain_name
from tracekit.errors import InvalidJson, PointerNotFound
from tracekit.jsontree import get, walk
from tracekit.numerals import counted
from tracekit.quantities import as_written, is_amount
from tracekit.redact import find_placeholders
from tracekit.trajectory import Call, Trajectory

_SHORT = 80


def evaluate(expected: Expected, budgets: Budgets, outcome: Outcome) -> tuple[OracleFinding, ...]:
    """List what speaks against the planner: what it did, in order, then what is missing."""
    done = [
        *_forbidden(expected, outcome),
        *_limits(expected, outcome),
        *_order(expected, outcome),
        *_arguments(expected, outcome),
        *sequence_findings(expected, outcome),
        *_budgets(budgets, outcome),
        *_refused(outcome),
    ]
    last = max((call.decision for call in outcome.calls), default=0) + 1
    done.sort(key=lambda found: found.decision or last)
    return (*done, *_ending(outcome), *(_missing(expected, outcome) if outcome.complete else ()))


def _missing(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    yield from _required(expected, outcome)
    yield from _evidence(expected, outcome)
    yield from _answer(expected, outcome)
    yield from _invariants(outcome)


# --- calls ----------------------------------------------------------------------------------------


def _forbidden(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    proposals = outcome.proposals
    keys = outcome.keys
    uses = keys.uses((one.tool, one.arguments) for one in proposals)
    for pattern in patterns(expected.forbidden_tools):
        for proposal, use in zip(proposals, uses, strict=True):
            if pattern.key not in (None, use) or not _fits(proposal, pattern):
                continue
            made = "called" if proposal.call is not None else "asked for"
            said = keys.describe(pattern.key, proposal.tool, proposal.arguments)
            yield OracleFinding(
                "forbidden_tools",
                f"decision {proposal.decision} {made} {_shown(pattern, proposal)}{said}, "
                "which is forbidden",
                tool=pattern.tool,
                error=pattern.key and f"{pattern.key} key",
                decision=proposal.decision,
                event_id=proposal.call.event_id if proposal.call else None,
            )


def _fits(proposal: Proposal, pattern: CallPattern) -> bool:
    if proposal.call is not None:
        named = proposal.tool == pattern.tool
    else:  # in a reply a name is in the alphabet of model providers
        named = proposal.tool == plain_name(pattern.tool)
    return named and (pattern.arguments is None or holds(proposal.arguments, pattern.arguments))


def _shown(pattern: CallPattern, proposal: Proposal) -> str:
    return f"{pattern.tool} {_short(proposal.arguments)}" if proposal.arguments else pattern.tool


def _required(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    keys = outcome.keys
    uses = keys.uses_of(outcome.calls)
    for pattern in patterns(expected.required_tools):
        called = zip(outcome.calls, uses, strict=True)
        near = [(call, use) for call, use in called if call.tool == pattern.tool]
        right = [call for call, use in near if pattern.key in (None, use)]
        if any(pattern.arguments is None or holds(c.arguments, pattern.arguments) for c in right):
            continue
        if pattern.key is not None and near and not keys.count(pattern.tool):
            continue  # nobody can tell, which is no fault of the planner
        wanted = pattern.tool
        if pattern.arguments is not None:
            wanted += f" with {_short(pattern.arguments)}"
        wanted += describe_use(pattern.key)
        seen = f"; it was called with {_short(near[-1][0].arguments)}" if near else ""
        yield OracleFinding(
            "required_tools",
            f"{wanted} was never called{seen}",
            tool=pattern.tool,
            error="other arguments" if near else "never called",
        )


def _limits(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    uses = outcome.keys.uses_of(outcome.calls)
    for tool, most in expected.call_limits.items():
        # Another attempt under the same key is the same one to the world.
        called = zip(outcome.calls, uses, strict=True)
        calls = [call for call, use in called if call.tool == tool and use != "again"]
        if len(calls) > most:
            over = calls[most]
            yield OracleFinding(
                "call_limits",
                f"{tool} was called {_times(len(calls))}, at most {most} allowed",
                tool=tool,
                decision=over.decision,
                event_id=over.event_id,
            )


def _order(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    for first, second in expected.order:
        before = next((call for call in outcome.calls if call.tool == first), None)
        after = next((call for call in outcome.calls if call.tool == second), None)
        if before is None or after is None or before.decision < after.decision:
            continue
        how = "beside" if before.decision == after.decision else "before"
        yield OracleFinding(
            "order",
            f"decision {after.decision} called {second} {how} {first}, which has to come first",
            tool=second,
            error=f"{how} {first}",
            decision=after.decision,
            event_id=after.event_id,
        )


def _arguments(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    for rule in expected.arguments:
        calls = [call for call in outcome.calls if call.tool == rule.tool]
        if rule.call is not None:
            calls = calls[rule.call - 1 : rule.call]
        for call in calls:
            yield from _argument(rule, call)
        if not calls and outcome.complete:
            which = f"a {rule.call}. time" if rule.call else "at all"
            yield OracleFinding(
                "arguments",
                f"{rule.tool} was not called {which}, so its arguments are not right",
                tool=rule.tool,
                pointer=rule.pointer or None,
                error="never called",
            )


def _argument(rule: ArgumentRule, call: Call) -> Iterator[OracleFinding]:
    def found(pointer: str, error: str, text: str) -> OracleFinding:
        return OracleFinding(
            "arguments",
            f"decision {call.decision} called {call.tool} where {text}",
            tool=call.tool,
            pointer=pointer or None,
            error=error,
            decision=call.decision,
            event_id=call.event_id,
        )

    try:
        value = get(call.arguments, rule.pointer)
    except PointerNotFound:
        yield found(rule.pointer, "missing", f"{rule.pointer} is missing")
        return
    at = rule.pointer or "the arguments"
    if rule.compares and not same(value, rule.equals):
        verb = "is" if rule.pointer else "are"
        text = f"{at} {verb} {_short(value)}, not {_short(rule.equals)}"
        yield found(rule.pointer, "value", text)
    if rule.json_schema is not None:
        try:
            wrongs = faults(value, rule.json_schema)
        except Undecided as error:
            yield _undecided("arguments", error)
            return
        for place, wrong in wrongs[:1]:
            yield found(rule.pointer + place, "schema", f"{rule.pointer + place or at} {wrong}")


# --- budgets, endings -----------------------------------------------------------------------------


def _budgets(budgets: Budgets, outcome: Outcome) -> Iterator[OracleFinding]:
    used = usage(outcome)
    for name, unit in (
        ("steps", "decisions"),
        ("calls", "tool calls"),
        ("seconds", "seconds"),
        ("tokens", "tokens"),
        ("cost_usd", "USD"),
    ):
        most, spent = getattr(budgets, name), used[name]
        if most is not None and spent is not None and spent > most:
            over = _first_over(name, int(most), outcome)
            yield OracleFinding(
                "budgets",
                f"it used {spent:g} {unit}, at most {most:g} allowed",
                error=name,
                decision=over.decision if over else None,
                event_id=over.event_id if over else None,
            )


def _first_over(budget: str, most: int, outcome: Outcome) -> Call | None:
    """The first call that the budget had no room for, where it counts calls or decisions."""
    if budget == "calls":
        return outcome.calls[most]
    over = (call for call in outcome.calls if call.decision > most)
    return next(over, None) if budget == "steps" else None


def usage(outcome: Outcome) -> dict[str, float | None]:
    """Return what was used of each budget; None where the run does not say."""
    run = outcome.trajectory
    replies = [model.reply.value for model in run.model_calls] if run else []
    return {
        "steps": float(len(run.decisions)) if run else 0.0,
        "calls": float(len(outcome.calls)),
        "seconds": outcome.elapsed_s,
        "tokens": _total(replies, "total_tokens"),
        "cost_usd": cost_of(run),
    }


def cost_of(run: Trajectory | None) -> float | None:
    """What the replies of a run's model say that they cost, in USD; None where one does not say."""
    return _total([model.reply.value for model in run.model_calls] if run else [], "cost")


def _total(replies: list[JsonValue], name: str) -> float | None:
    found = []
    for reply in replies:
        used: Any = reply.get("usage") if isinstance(reply, dict) else None
        value = as_written(used.get(name)) if isinstance(used, dict) else None
        if value is not None and is_amount(value):
            found.append(value)
    return sum(found) if found and len(found) == len(replies) else None


def _refused(outcome: Outcome) -> Iterator[OracleFinding]:
    for kind, words in outcome.refused:
        yield OracleFinding("wall", f"{kind} was refused: {words}", error=kind)


def _ending(outcome: Outcome) -> Iterator[OracleFinding]:
    if outcome.looped:
        count = len(outcome.trajectory.decisions) if outcome.trajectory else 0
        yield OracleFinding("loop", f"it had not come to an end after {counted(count, 'decision')}")
    elif outcome.raised is not None:
        raised = outcome.raised
        said = f"{raised.type}: {raised.message}" if raised.message else raised.type
        place = raised.place
        yield OracleFinding("error", f"it ended with {said}", error=raised.type, place=place)


# --- the answer -----------------------------------------------------------------------------------


def _evidence(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    answer = _answer_text(outcome)
    shown = [json_text(call.observation.value) for call in outcome.calls]
    for name in expected.evidence:
        whole = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        fetched = any(whole.search(text) for text in shown)
        if answer is not None and whole.search(answer):
            if not fetched:
                text = f"the answer cites {name}, which no observation showed"
                yield OracleFinding("evidence", text, pointer=name, error="never shown")
            continue
        why = "it was shown" if fetched else "it was never fetched"
        yield OracleFinding(
            "evidence",
            f"the answer does not cite {name}; {why}",
            pointer=name,
            error="not cited" if fetched else "never fetched",
        )


def _answer(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    rule = expected.answer
    if rule is None:
        return
    answer = _answer_text(outcome)
    if answer is None:
        if rule.required or rule.contains or rule.matches or rule.json_schema is not None:
            yield OracleFinding("answer", "there is no answer", error="missing")
        return
    folded = answer.casefold()
    for text in rule.contains:
        if text.casefold() not in folded:
            said = f"the answer does not contain {text!r}: {_cut(answer)}"
            yield OracleFinding("answer", said, pointer=text, error="contains")
    for text in rule.excludes:
        if text.casefold() in folded:
            yield OracleFinding(
                "answer", f"the answer contains {text!r}", pointer=text, error="excludes"
            )
    for pattern in rule.matches:
        try:
            matches = is_found(pattern, answer)
        except Undecided as error:
            yield _undecided("answer", error)
            continue
        if not matches:
            said = f"the answer does not match {pattern!r}: {_cut(answer)}"
            yield OracleFinding("answer", said, pointer=pattern, error="matches")
    if rule.json_schema is not None:
        yield from _answer_schema(rule.json_schema, outcome)


def _answer_schema(schema: dict[str, JsonValue], outcome: Outcome) -> Iterator[OracleFinding]:
    value = outcome.trajectory.answer.value if outcome.trajectory else None
    if isinstance(value, str) and schema.get("type") != "string":
        try:
            value = parse_json(value)
        except InvalidJson:
            said = f"the answer is no JSON: {_cut(str(value))}"
            yield OracleFinding("answer", said, error="no JSON")
            return
    try:
        wrongs = faults(value, schema)
    except Undecided as error:
        yield _undecided("answer", error)
        return
    for place, wrong in wrongs[:1]:
        where = f" at {place}" if place else ""
        yield OracleFinding(
            "answer", f"the answer{where} {wrong}", pointer=place or None, error="schema"
        )


def _answer_text(outcome: Outcome) -> str | None:
    """All texts of the answer; None where there is none."""
    answer = outcome.trajectory.answer if outcome.trajectory else None
    if answer is None or answer.is_error or answer.value in (None, ""):
        return None
    if isinstance(answer.value, str):
        return answer.value
    leaves = (leaf for _, leaf in walk(answer.value))
    return "\n".join(leaf if isinstance(leaf, str) else json_text(leaf) for leaf in leaves)


def _invariants(outcome: Outcome) -> Iterator[OracleFinding]:
    for name, said in outcome.invariants.items():
        if said is not None:
            yield OracleFinding("invariants", f"{name}: {said}", pointer=name)


def _undecided(oracle: str, why: Undecided) -> OracleFinding:
    said = f"expected.{oracle} cannot be judged: {why}"
    return OracleFinding(oracle, said, error="undecided", undecided=True)


# --- words ----------------------------------------------------------------------------------------


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _short(value: JsonValue) -> str:
    return _cut(json_text(value))


def _cut(text: str) -> str:
    """Shorten a text to one line; half of a placeholder would look like a secret."""
    line = " ".join(text.split())
    if len(line) <= _SHORT:
        return line
    end = _SHORT - 1
    halved = (wall.start for wall in find_placeholders(line) if wall.start < end < wall.end)
    return line[: next(halved, end)] + "…"
