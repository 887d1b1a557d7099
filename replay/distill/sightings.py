"""What can be seen to be wrong with a run, without being told: the failures that can be meant.

Each has a name, so that whoever distills can say which one. A run that went right, of a fixed
planner or a recorded one, shows more: the writes that only one of the two made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.case import Budgets, CallPattern, Expected
from replay.case.schema import same
from replay.caserun import CaseResult
from replay.oracles import OracleFinding
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
    yield from _added(failing, made, right, writes)
    for call, pattern in _alone(right, made, writes):
        what = f"only {right_name} calls {written(call)}"
        expected = Expected(required_tools=(pattern,))
        name = f"require:{call.tool}"
        yield Choice(name, what, expected, "required_tools", call.tool, lacking=call)


def _added(
    failing: CaseResult, made: Sequence[Call], right: Sequence[Call], writes: frozenset[str]
) -> Iterator[Choice]:
    for call, pattern in _alone(made, right, writes):
        what = f"only {failing.planner} proposes {written(call)}, in decision {call.decision}"
        expected = Expected(forbidden_tools=(pattern,))
        yield Choice(f"forbid:{call.tool}", what, expected, "forbidden_tools", call.tool)


def _alone(
    some: Sequence[Call], others: Sequence[Call], writes: frozenset[str]
) -> Iterator[tuple[Call, str | CallPattern]]:
    """Yield of each writing tool the first call that only ``some`` hold, and its pattern."""
    done: set[str] = set()
    for call in some:
        if call.tool not in writes or call.tool in done or _makes(others, call):
            continue
        done.add(call.tool)
        alike = [other for other in others if other.tool == call.tool]
        if alike:
            yield call, CallPattern(tool=call.tool, arguments=_distinct(call, alike))
        else:
            yield call, call.tool


def _makes(calls: Sequence[Call], wanted: Call) -> bool:
    return any(
        call.tool == wanted.tool and same(call.arguments, wanted.arguments) for call in calls
    )


def _distinct(call: Call, others: Sequence[Call]) -> dict[str, JsonValue]:
    """The arguments that no call of the other side shares; all, where each one is shared."""
    assert isinstance(call.arguments, Mapping)
    shared: Any = [other.arguments for other in others if isinstance(other.arguments, Mapping)]
    own = {
        name: value
        for name, value in call.arguments.items()
        if not any(name in other and same(other[name], value) for other in shared)
    }
    return own or dict(call.arguments)


def _repeated(failing: CaseResult) -> Iterator[Choice]:
    """Failed calls that were made again and again; one retry is no loop."""
    failed: dict[str, int] = {}
    for call in calls_of(failing):
        key = written(call)
        if key in failed:
            failed[key] += 1
            if failed[key] == _LOOP:
                what = f"made again after {_LOOP} errors: {key} in decision {call.decision}"
                expected = Expected(no_repeat=_LOOP - 1)
                yield Choice(f"repeat:{call.tool}", what, expected, "no_repeat", call.tool)
        if call.observation.is_error:
            failed.setdefault(key, 0)


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
