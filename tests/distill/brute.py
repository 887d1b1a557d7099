"""Every single part of a case, left out alone: what a minimal case cannot do without.

Written against the form of case files and nothing of the reduction, so that it can check one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replay.case import Case
from replay.caserun import CaseResult, CaseRunner
from tracekit import jsontree
from tracekit.canonical import JsonValue

_BREAKS = (r"\n+", r"(?<=[.!?])\s+")


def smaller(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield the case without each of its parts, and what that part is."""
    for at, fixture in enumerate(case.observations):
        yield f"observation {fixture.id}", _with(case, observations=_less(case.observations, at))
        for what, value in _smaller(fixture.returns):
            changed = fixture.model_copy(update={"returns": value})
            kept = (*case.observations[:at], changed, *case.observations[at + 1 :])
            yield f"{what} of {fixture.id}", _with(case, observations=kept)
    for at, decision in enumerate(case.script):
        yield f"decision {at}", _with(case, script=_less(case.script, at))
        for place, call in enumerate(decision.calls):
            less = decision.model_copy(update={"calls": _less(decision.calls, place)})
            yield call.tool, _with(case, script=(*case.script[:at], less, *case.script[at + 1 :]))
    for field in ("turns", "history", "tools"):
        for at, _ in enumerate(getattr(case, field)):
            yield f"{field} {at}", _with(case, **{field: _less(getattr(case, field), at)})
    for what, value in _smaller(case.input):
        if value not in ("", None):
            yield f"{what} of the input", _with(case, input=value)


def _with(case: Case, **fields: Any) -> Case:
    known = {fixture.id for fixture in fields.get("observations", case.observations)}
    consumed = tuple(name for name in case.expected.consumed if name in known)
    expected = case.expected.model_copy(update={"consumed": consumed})
    return case.model_copy(update={**fields, "expected": expected})


def _less(items: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return (*items[:at], *items[at + 1 :])


def _smaller(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Without a member or element, a line or a sentence."""
    for pointer, node in list(jsontree.walk(value)):
        if isinstance(node, str):
            for pattern in _BREAKS:
                pieces = re.split(f"({pattern})", node)
                for at in range(0, len(pieces) if len(pieces) > 1 else 0, 2):
                    if not pieces[at].strip():
                        continue
                    gone = "".join(pieces[:at] + pieces[at + 2 :]).strip()
                    yield f"{pieces[at]!r} at {pointer}", jsontree.replace(value, pointer, gone)
    yield from _without_members(value, "")


def _without_members(value: JsonValue, path: str) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        for name, child in value.items():
            rest: dict[str, JsonValue] = {n: c for n, c in value.items() if n != name}
            yield f"{path}/{name}", rest
            for what, less in _without_members(child, f"{path}/{name}"):
                yield what, {**value, name: less}
    elif isinstance(value, list):
        for at, child in enumerate(value):
            yield f"{path}/{at}", [*value[:at], *value[at + 1 :]]
            for what, less in _without_members(child, f"{path}/{at}"):
                yield what, [*value[:at], less, *value[at + 1 :]]


def needless(case: Case, fails: CaseRunner, passes: CaseRunner) -> list[str]:
    """The parts without which the one planner still fails alike, and the other still passes."""
    first = fails.run(case)
    wanted = _offending(case, first)
    assert wanted is not None, first.verdict
    found = []
    for what, less in smaller(case):
        seen, right = fails.run(less), passes.run(less)
        alike = _offending(case, seen) == wanted and right.passed
        if alike and all(_is_evidence(one, first) for one in (seen, right)):
            found.append(what)
    return found


def _offending(case: Case, seen: CaseResult) -> tuple[str, JsonValue] | None:
    """The call at fault: the same failure is the same call with the same values."""
    found = next((f for f in seen.findings if f.signature == case.reason), None)
    if found is None or seen.trajectory is None:
        return None
    calls = [call for call in seen.trajectory.calls if call.tool == found.tool]
    exact = next((call for call in calls if call.event_id == found.event_id), *calls[:1])
    return exact.tool, exact.arguments


def _is_evidence(seen: CaseResult, whole: CaseResult) -> bool:
    """Whether the planner was shown something, and had an answer wherever it had one before."""
    known = {step.name for step in whole.unmatched}
    return bool(seen.consumed) and all(step.name in known for step in seen.unmatched)
