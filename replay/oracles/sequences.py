"""How a planner goes on: after an error, and when it could learn nothing new. Pure.

The one idea: what a call can tell is decided by what came before it. After an error the next
decision corrects the arguments, takes another tool or asks; another idempotency key corrects
nothing. A call that did not fail tells nothing new until something was written or the user spoke.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.case import AfterError, Expected
from replay.case.expected import Reaction
from replay.oracles.keys import Keys
from replay.oracles.outcome import OracleFinding, Outcome
from tracekit.canonical import json_text
from tracekit.trajectory import Call, Decision

_WORDS: dict[Reaction, str] = {
    "correct": "called {tool} with other arguments",
    "other_tool": "called another tool",
    "ask": "made no call",
    "repeat": "made the same call again",
}


def sequence_findings(expected: Expected, outcome: Outcome) -> Iterator[OracleFinding]:
    """Yield what speaks against the order in which the planner went on."""
    if expected.repeats is not None:
        yield from _repeats(expected.repeats, outcome)
    if expected.idle_repeats is not None:
        yield from _no_news(expected.idle_repeats, outcome)
    for rule in expected.after_error:
        yield from _reactions(rule, outcome)
        if rule.tries is not None:
            yield from _tries(rule, rule.tries, outcome.calls)


def _repeats(most: int, outcome: Outcome) -> Iterator[OracleFinding]:
    keys = outcome.keys
    failed: dict[str, int] = {}
    for call in outcome.calls:
        key = keys.same_call(call)
        if key in failed:
            failed[key] += 1
            if failed[key] == most + 1:
                often = f", for the {failed[key]}. time" if failed[key] > 1 else ""
                yield _found(
                    "no_repeat",
                    call,
                    f"made the same call of {call.tool} again after its error{often}",
                    error=call.observation.error_type,
                )
        if call.observation.is_error:
            failed.setdefault(key, 0)
        else:
            failed.pop(key, None)


def _no_news(most: int, outcome: Outcome) -> Iterator[OracleFinding]:
    """Look for calls that were made again although nothing had happened since."""
    run = outcome.trajectory
    told = [m.before_decision for m in run.messages if m.role == "user"] if run else []
    known: dict[str, int] = {}
    since = 0
    for call in outcome.calls:
        if any(since < turn <= call.decision for turn in told):
            known.clear()
        since = call.decision
        key = _key(call)
        if key in known:
            known[key] += 1
            if known[key] == most + 1:
                yield _found(
                    "no_news",
                    call,
                    f"made the same call of {call.tool} again, which could tell nothing new",
                )
        if call.writes and not call.observation.is_error and not call.refused:
            known.clear()
        if not call.observation.is_error:
            known.setdefault(key, 0)


def _reactions(rule: AfterError, outcome: Outcome) -> Iterator[OracleFinding]:
    decisions = outcome.trajectory.decisions if outcome.trajectory else ()
    following = dict(zip((d.index for d in decisions), decisions[1:], strict=False))
    for call in outcome.calls:
        if not _fails(rule, call):
            continue
        after = following.get(call.decision)
        if after is None:  # the run ended there: no planner's choice, or one that others judge
            continue
        did = _reaction(call, after, outcome.keys)
        if did not in rule.then:
            wanted = ", ".join(name.replace("_", " ") for name in rule.then)
            yield OracleFinding(
                "after_error",
                f"after the error of {call.tool} decision {after.index}"
                f" {_WORDS[did].format(tool=call.tool)}; allowed: {wanted}",
                tool=call.tool,
                error=did,
                decision=after.index,
                event_id=after.calls[0].event_id if after.calls else call.event_id,
            )


def _reaction(failed: Call, after: Decision, keys: Keys) -> Reaction:
    """Say what the decision does about the error; calls beside each other: the worst of them."""
    if not after.calls:
        return "ask"
    same = [call for call in after.calls if call.tool == failed.tool]
    if any(keys.same_call(call) == keys.same_call(failed) for call in same):
        return "repeat"
    return "correct" if same else "other_tool"


def _tries(rule: AfterError, most: int, calls: Sequence[Call]) -> Iterator[OracleFinding]:
    in_a_row: dict[str, int] = {}
    for call in calls:
        if not _fails(rule, call):
            if rule.tool in (None, call.tool):
                in_a_row.pop(call.tool, None)
            continue
        in_a_row[call.tool] = in_a_row.get(call.tool, 0) + 1
        if in_a_row[call.tool] == most + 1:
            yield _found(
                "after_error",
                call,
                f"had {call.tool} fail for the {most + 1}. time in a row, at most {most} allowed",
                error="tries",
            )


def _fails(rule: AfterError, call: Call) -> bool:
    if not call.observation.is_error or rule.tool not in (None, call.tool):
        return False
    return rule.error in (None, call.observation.error_type)


def _key(call: Call) -> str:
    return f"{call.tool} {json_text(call.arguments)}"


def _found(oracle: str, call: Call, did: str, *, error: str | None = None) -> OracleFinding:
    return OracleFinding(
        oracle,
        f"decision {call.decision} {did}",
        tool=call.tool,
        error=error,
        decision=call.decision,
        event_id=call.event_id,
    )
