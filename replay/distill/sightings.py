"""What can be seen to be wrong with a run, without being told: the failures that can be meant.

Each has a name, so that whoever distills can say which one. A run that went right, of a fixed
planner or a recorded one, shows more: the writes that only one of the two made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replay.case import Budgets, CallPattern, Expected
from replay.case.expected import KeyUse
from replay.case.schema import same
from replay.caserun import CaseResult
from replay.oracles import OracleFinding
from replay.oracles.keys import Keys
from tracekit.canonical import JsonValue, json_text
from tracekit.trajectory import Call

ENDINGS = ("error", "loop", "wall")
"""Oracles that always hold, whatever is expected."""
_LOOP = 2
"""How often a call is made again before it is taken for a loop."""


@dataclass(frozen=True)
class Choice:
    """One failure that can be meant."""

    name: str
    """As in ``--signature``."""
    what: str
    """What was seen, for a person."""
    expected: Expected
    oracle: str
    key: str | None = None
    """Tool, class or text that the finding must be about; None where any will do."""
    budgets: Budgets = field(default_factory=Budgets)
    lacking: Call | None = None
    """The call that was not made, as the run that went right made it."""

    def fits(self, found: OracleFinding) -> bool:
        """Whether it is this failure that was found."""
        about = (found.tool, found.error, found.pointer)
        return found.oracle == self.oracle and (self.key is None or self.key in about)


def seen(failing: CaseResult, writes: frozenset[str]) -> Iterator[Choice]:
    """Yield what is seen in one run: how it ended, loops, writes."""
    for found in failing.findings:
        if found.oracle in ENDINGS:
            name = found.oracle if not found.error else f"{found.oracle}:{found.error}"
            yield Choice(name, found.text, Expected(), found.oracle, found.error)
    yield from _repeated(failing)
    yield from _rekeyed(failing)
    yield from _idle(failing)
    unmatched = [step.name for step in failing.unmatched]
    calls = [call for call in calls_of(failing) if call.tool in writes]
    for tool in dict.fromkeys(call.tool for call in calls):
        first = next(call for call in calls if call.tool == tool)
        how = "refused, not in the run" if tool in unmatched else "made"
        many = len({written(call) for call in calls if call.tool == tool})
        more = f", and {many - 1} more of it" if many > 1 else ""
        what = f"{how}: {written(first)} in decision {first.decision}{more}"
        expected = Expected(forbidden_tools=(tool,))
        yield Choice(f"forbid:{tool}", what, expected, "forbidden_tools", tool)


def told_apart(
    failing: CaseResult, right: Sequence[Call], writes: frozenset[str], *, right_name: str
) -> Iterator[Choice]:
    """Yield the writes that only one of two runs makes, in the order of making.

    Args:
        failing: The run that went wrong.
        right: What was called where it went right.
        writes: Tools that may write.
        right_name: What to call it.
    """
    made = calls_of(failing)
    keys = Keys.of_calls((*made, *right))
    wrong, well = _writes(made, writes, keys), _writes(right, writes, keys)
    for one, pattern in _alone(wrong, well):
        what = (
            f"only {failing.planner} proposes {written(one.call)}{_keyed(one.call, one.use, keys)}"
            f", in decision {one.call.decision}"
        )
        yield _forbidden(pattern, what)
    yield from _more_often(wrong, well, right_name=right_name)
    for one, pattern in _alone(well, wrong):
        what = f"only {right_name} calls {written(one.call)}{_keyed(one.call, one.use, keys)}"
        expected = Expected(required_tools=(pattern,))
        tool = one.call.tool
        yield Choice(f"require:{tool}", what, expected, "required_tools", tool, lacking=one.call)


def _forbidden(pattern: str | CallPattern, what: str) -> Choice:
    tool = pattern if isinstance(pattern, str) else pattern.tool
    expected = Expected(forbidden_tools=(pattern,))
    return Choice(f"forbid:{tool}", what, expected, "forbidden_tools", tool)


@dataclass(frozen=True)
class _Write:
    """A call that may write, beside those before it."""

    call: Call
    said: JsonValue
    """Its arguments without its idempotency key."""
    use: KeyUse | None
    """What that key says."""

    def same(self, other: _Write) -> bool:
        """Whether the other is the same write."""
        return (
            self.call.tool == other.call.tool
            and self.use == other.use
            and same(self.said, other.said)
        )


def _writes(calls: Sequence[Call], writes: frozenset[str], keys: Keys) -> list[_Write]:
    return [
        _Write(call, keys.said(call.tool, call.arguments), use)
        for call, use in zip(calls, keys.uses_of(calls), strict=True)
        if call.tool in writes
    ]


def _alone(
    some: Sequence[_Write], others: Sequence[_Write]
) -> Iterator[tuple[_Write, str | CallPattern]]:
    """Yield of each writing tool the first call that only ``some`` hold, and its pattern."""
    done: set[str] = set()
    for one in some:
        tool = one.call.tool
        if tool in done or any(one.same(other) for other in others):
            continue
        done.add(tool)
        alike = [other for other in others if other.call.tool == tool]
        if not alike:
            yield one, tool
        elif one.use is not None and all(other.use != one.use for other in alike):
            yield one, CallPattern(tool=tool, key=one.use)
        else:
            yield one, CallPattern(tool=tool, arguments=_distinct(one, alike), key=one.use)


def _keyed(call: Call, use: KeyUse | None, keys: Keys) -> str:
    return keys.describe(use, call.tool, call.arguments)


def _distinct(one: _Write, others: Sequence[_Write]) -> dict[str, JsonValue]:
    """The arguments that no call of the other side shares; all, where each one is shared."""
    assert isinstance(one.said, Mapping)
    shared: Any = [other.said for other in others if isinstance(other.said, Mapping)]
    own = {
        name: value
        for name, value in one.said.items()
        if not any(name in other and same(other[name], value) for other in shared)
    }
    return own or dict(one.said)


def _more_often(
    some: Sequence[_Write], others: Sequence[_Write], *, right_name: str
) -> Iterator[Choice]:
    """Yield of each tool the write that was made more often than where it went right."""
    done: set[str] = set()
    for at, one in enumerate(some):
        tool = one.call.tool
        times = sum(one.same(before) for before in some[: at + 1])
        well = sum(one.same(other) for other in others)
        if tool in done or not 0 < well < times or one.use == "again":
            continue
        done.add(tool)
        most = sum(other.call.tool == tool and other.use != "again" for other in others)
        what = (
            f"made more often than by {right_name}: {written(one.call)}, in decision "
            f"{one.call.decision}"
        )
        expected = Expected(call_limits={tool: most})
        yield Choice(f"often:{tool}", what, expected, "call_limits", tool)


def _repeated(failing: CaseResult) -> Iterator[Choice]:
    """Failed calls that were made again and again; one retry is no loop."""
    failed: dict[str, int] = {}
    keys = Keys.of_calls(calls_of(failing))
    for call in calls_of(failing):
        key = keys.same_call(call)
        if key in failed:
            failed[key] += 1
            if failed[key] == _LOOP:
                what = (
                    f"made again after {_LOOP} errors: {written(call)} in decision {call.decision}"
                )
                expected = Expected(no_repeat=_LOOP - 1)
                yield Choice(f"repeat:{call.tool}", what, expected, "no_repeat", call.tool)
        if call.observation.is_error:
            failed.setdefault(key, 0)


def _rekeyed(failing: CaseResult) -> Iterator[Choice]:
    """Writes whose idempotency key cannot be meant: another after an error, or that of others."""
    calls = calls_of(failing)
    keys = Keys.of_calls(calls)
    failed: set[str] = set()
    told: set[str] = set()
    for call, use in zip(calls, keys.uses_of(calls), strict=True):
        this = keys.same_call(call)
        if call.tool not in told and (use == "taken" or (use == "another" and this in failed)):
            told.add(call.tool)
            what = f"made{_keyed(call, use, keys)}: {written(call)} in decision {call.decision}"
            pattern = CallPattern(tool=call.tool, key=use)
            yield replace(_forbidden(pattern, what), name=f"key:{call.tool}")
        if call.observation.is_error:
            failed.add(this)


def _idle(failing: CaseResult) -> Iterator[Choice]:
    """Calls that could tell nothing new, made again and again."""
    known: dict[str, int] = {}
    told: set[str] = set()
    for call in calls_of(failing):
        key = written(call)
        if call.writes:
            known.clear()
        elif not call.observation.is_error:
            known[key] = known.get(key, -1) + 1
            if known[key] == _LOOP and call.tool not in told:
                told.add(call.tool)
                what = f"made {_LOOP + 1} times with nothing new to learn: {key}"
                expected = Expected(no_news=_LOOP - 1)
                yield Choice(f"idle:{call.tool}", what, expected, "no_news", call.tool)


def calls_of(result: CaseResult) -> tuple[Call, ...]:
    """What was called."""
    return result.trajectory.calls if result.trajectory is not None else ()


def written(call: Call) -> str:
    """The call on one short line."""
    text = f"{call.tool} {json_text(call.arguments)}"
    return text if len(text) <= 100 else f"{text[:99]}…"
