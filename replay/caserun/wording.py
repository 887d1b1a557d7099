"""Puts a case, and what a run of it came to, in words. Pure.

What was expected stands beside what was seen: a rule in the line of the step that it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replay.case import AfterError, Case, Fixture, Reason, ScriptedDecision
from replay.case.expected import CallPattern, patterns
from replay.caserun.runner import CaseResult
from replay.oracles import OracleFinding, Outcome
from replay.oracles.keys import describe_use
from replay.oracles.outcome import Proposal
from tracekit.canonical import JsonValue, json_text
from tracekit.decisions import plain_name
from tracekit.visible import text_of

WIDTH = 100
_LEFT = 40


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a case expects, in words."""

    oracle: str
    tool: str | None
    text: str
    detail: str | None = None
    """What tells it from others of its oracle: a pointer, a text, a budget."""


def rules(case: Case) -> Iterator[Rule]:
    """Yield what a case expects, in the order of its fields."""
    expected = case.expected
    for pattern in patterns(expected.forbidden_tools):
        key = pattern.key and f"{pattern.key} key"
        yield Rule("forbidden_tools", pattern.tool, f"never {_pattern(pattern)}", key)
    for pattern in patterns(expected.required_tools):
        yield Rule("required_tools", pattern.tool, _pattern(pattern))
    for tool, most in expected.call_limits.items():
        yield Rule("call_limits", tool, f"{tool} at most {_times(most)}")
    for first, second in expected.order:
        yield Rule("order", second, f"{first} before {second}")
    for rule in expected.arguments:
        what = f"is {json_text(rule.equals)}" if rule.compares else "fits its schema"
        yield Rule("arguments", rule.tool, f"{rule.tool} {rule.pointer or 'arguments'} {what}")
    if expected.repeats is not None:
        most = expected.repeats
        text = f"repeated at most {_times(most)}" if most else "never repeated"
        yield Rule("no_repeat", None, f"a failed call is {text}")
    if expected.idle_repeats is not None:
        most = expected.idle_repeats
        text = f"made again at most {_times(most)}" if most else "never made again"
        yield Rule("no_news", None, f"a call that can tell nothing new is {text}")
    for rule_after in expected.after_error:
        yield from _after_error(rule_after)
    for name in expected.evidence:
        yield Rule("evidence", None, f"cites {name}", name)
    yield from _answer_rules(case)
    for target in expected.invariants:
        yield Rule("invariants", None, f"{target} holds", target)
    for budget, most in case.budgets.model_dump(exclude_none=True).items():
        yield Rule("budgets", None, f"at most {most:g} {budget.replace('_', ' ')}", budget)


def _after_error(rule: AfterError) -> Iterator[Rule]:
    failed = f"{rule.error or 'an error'} of {rule.tool or 'a tool'}"
    then = " or ".join(name.replace("_", " ") for name in rule.then)
    yield Rule("after_error", rule.tool, f"after {failed}: {then}")
    if rule.tries is not None:
        yield Rule(
            "after_error", rule.tool, f"{failed} at most {_times(rule.tries)} in a row", "tries"
        )


def _answer_rules(case: Case) -> Iterator[Rule]:
    answer = case.expected.answer
    if answer is None:
        return
    if answer.required:
        yield Rule("answer", None, "an answer", "missing")
    for text in answer.contains:
        yield Rule("answer", None, f"contains {text!r}", text)
    for text in answer.excludes:
        yield Rule("answer", None, f"does not contain {text!r}", text)
    for text in answer.matches:
        yield Rule("answer", None, f"matches {text!r}", text)
    if answer.json_schema is not None:
        yield Rule("answer", None, "fits its schema", "schema")


# --- a case ---------------------------------------------------------------------------------------


def describe_case(case: Case, *, path: str | None = None, full: bool = False) -> str:
    """Return a case as a person reads it."""
    limit = 10**9 if full else WIDTH
    lines = [case.name + (f": {case.reason}" if case.reason else "")]
    lines += [f"  {line}" for line in _origin(case)]
    lines += ["", "The planner is given"]
    asked = [f"{said.role}: {_short(said.content, limit)}" for said in case.history]
    lines += [f"  {line}" for line in asked or [_short(case.input, limit)]]
    if case.tools:
        tools = ", ".join(f"{tool.name} ({tool.effect})" for tool in case.tools)
        lines.append(_short(f"  tools: {tools}", limit))
    for number, decision in enumerate(case.script, 1):
        lines.append(_short(f"  decision {number} of the record: {_decided(decision)}", limit))
    for fixture in case.observations:
        lines.append(_short(f"  {_fixture(fixture)}", limit))
    lines += ["", "It must"]
    lines += [f"  {_must(rule)}" for rule in rules(case)]
    if consumed := case.expected.consumed:
        lines.append(f"  have been given {', '.join(consumed)}, or nothing is proved")
    if path is not None:
        planner = "" if case.planner else " --planner MOD:OBJ"
        lines += ["", f"Run it: tracekit case run {path}{planner}"]
    return text_of(lines)


def _decided(decision: ScriptedDecision) -> str:
    calls = [_call(call.tool, call.arguments) for call in decision.calls]
    said = [] if decision.message is None else [f"says {json_text(decision.message)}"]
    return "; ".join([*calls, *said]) or "nothing"


def _must(rule: Rule) -> str:
    if rule.oracle == "answer":
        return "answer" if rule.detail == "missing" else f"give an answer that {rule.text}"
    before = {
        "forbidden_tools": "never call",
        "required_tools": "call",
        "call_limits": "call",
        "order": "call",
        "evidence": "cite",
        "budgets": "use",
    }.get(rule.oracle, "see to it that")
    return f"{before} {rule.text.removeprefix('never ').removeprefix('cites ')}"


def _origin(case: Case) -> Iterator[str]:
    if case.source is not None:
        run = f"run {case.source.run}" if case.source.run else "a run"
        by = f" with {case.source.planner}" if case.source.planner else ""
        yield f"from {run}{by}"
    if case.rate is not None:
        yield f"fails in {case.rate}, so it is run {case.rate.repeat} times"
    said = [f"fix {case.fix}"] if case.fix else []
    if case.minimal is not None:
        said.append("minimal" if case.minimal else "not minimal")
    if case.layer:
        said.append(f"layer: {case.layer}")
    said.append("needs a live model" if case.needs_live_model else "needs no model")
    yield "; ".join(said)
    if case.planner:
        yield f"runs {case.planner}"


def _fixture(fixture: Fixture) -> str:
    times = {1: "", "every": "every "}.get(fixture.times, f"{fixture.times} times ")
    if fixture.error is not None:
        said = f" {fixture.error.message}" if fixture.error.message else ""
        back = f"fails with {fixture.error.type}{said}"
    else:
        back = json_text(fixture.returns)
    late = f" after {fixture.delay_ms:g} ms" if fixture.delay_ms else ""
    return f"{fixture.id}  {times}{_call(fixture.tool, fixture.arguments)} → {back}{late}"


# --- a result -------------------------------------------------------------------------------------


def describe_result(result: CaseResult, *, path: str | None = None) -> str:
    """Say what a run came to: the finding in a sentence, then expected against seen."""
    verdict = result.verdict
    first, *others = [*verdict.reasons, ""]
    lines = [f"{result.case.name}: {verdict.kind}" + (f": {first}" if first else "")]
    lines += [f"  {reason}" for reason in others if reason]
    lines.append(f"  planner {result.planner}")
    if verdict.kind == "not evaluated":
        lines.append("  A case proves nothing of a planner that does not get that far.")
    if verdict.kind == "inconclusive":
        lines.append("  Nothing is proved: the run could not be judged.")
    if verdict.kind != "pass":
        lines += ["", *_table(result)]
        if path is not None:
            lines += ["", f"Open it: tracekit case show {path}"]
    return text_of(lines)


def _table(result: CaseResult) -> list[str]:
    rows = [("expected", " ", "seen"), *_rows(result)]
    return [
        f"  {_cut(left, _LEFT):<{_LEFT}} {mark} {_cut(right, WIDTH - _LEFT)}".rstrip()
        for left, mark, right in rows
    ]


def _rows(result: CaseResult) -> Iterator[tuple[str, str, str]]:
    """Yield the steps in order, each beside the rules about it, then the rules about the end."""
    waiting = list(rules(result.case))
    last = 0
    for proposal in Outcome(result.trajectory).proposals:
        own = [rule for rule in waiting if rule.tool == proposal.tool]
        waiting = [rule for rule in waiting if rule not in own]
        number = "" if proposal.decision == last else str(proposal.decision)
        last = proposal.decision
        bad = any(_about(finding, proposal) for finding in result.findings) or any(
            _breaks(finding, rule)
            for rule in own
            for finding in result.findings
            if finding.decision is None
        )
        got = _got(result, proposal)
        seen = f"{number:>2} {_call(proposal.tool, proposal.arguments)}"
        seen = f"{_cut(seen, WIDTH - _LEFT - len(got) - 4)}  ← {got}"
        yield "; ".join(rule.text for rule in own), "✗" if bad else " ", seen
    yield from _end_rows(result, waiting)


def _end_rows(result: CaseResult, waiting: Sequence[Rule]) -> Iterator[tuple[str, str, str]]:
    answer = result.trajectory.answer if result.trajectory else None
    said = None if answer is None or answer.is_error else answer.value
    told = "" if said is None else f"answer: {_short(said, WIDTH)}"
    for rule in waiting:
        broken = [finding for finding in result.findings if _breaks(finding, rule)]
        seen = broken[0].text if broken else ("(not called)" if rule.tool else "")
        if rule.oracle in ("answer", "evidence") and told and not broken:
            seen, told = told, ""
        yield rule.text, "✗" if broken else " ", seen
    if told:
        yield "", " ", told
    for finding in result.findings:
        if finding.oracle in ("error", "loop", "wall"):
            yield "", "✗", finding.text


def _got(result: CaseResult, proposal: Proposal) -> str:
    """What a call was answered with: the observation of the case, and its error."""
    call = proposal.call
    if call is None:
        return "asked for, not called"
    names = {step.span_id: step.answer.recorded for step in result.answered}
    name = names.get(call.span_id)
    if name is None:
        return "not in the case"
    return f"{name} {call.observation.error_type}" if call.observation.is_error else name


def _about(finding: OracleFinding, proposal: Proposal) -> bool:
    if finding.event_id is not None:
        return proposal.call is not None and finding.event_id == proposal.call.event_id
    if finding.decision != proposal.decision or finding.tool is None:
        return False
    return plain_name(finding.tool) == plain_name(proposal.tool)


def _breaks(finding: OracleFinding, rule: Rule) -> bool:
    if finding.oracle != rule.oracle or finding.tool != rule.tool:
        return False
    return rule.detail is None or rule.detail in (finding.pointer, finding.error)


def _call(tool: str, arguments: JsonValue) -> str:
    return f"{tool} {json_text(arguments)}" if arguments else tool


def _pattern(pattern: CallPattern) -> str:
    return _call(pattern.tool, pattern.arguments) + describe_use(pattern.key)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _short(value: JsonValue, limit: int) -> str:
    return _cut(value if isinstance(value, str) else json_text(value), limit)


def _cut(text: str, limit: int) -> str:
    """Bring a text on one line of that length; what a terminal would obey is shown instead."""
    line = " ".join(text.split()) if "\n" in text else text
    if not line.isprintable():
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return line if len(line) <= limit else line[: max(limit - 1, 1)] + "…"


def reasons(findings: Sequence[OracleFinding]) -> tuple[Reason, ...]:
    """Return why a planner fails, each reason once."""
    return tuple(dict.fromkeys(finding.signature for finding in findings))
