"""Whether a replay can tell anything: change one observation, and something must follow from it.

A planner that does the same whatever it is told passes any replay, and so does a replay in which
the observations never reach the planner. So one recorded observation is changed beyond recognition,
and the lane is replayed: whatever the planner does then, if it is not the same as before, it did
look. The changes keep shape and types first, so that what is parsed can still be parsed: texts
letter by letter, numbers by one; then numbers far away, so that one of two that are compared is now
the larger; and at last nothing at all where something was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from replay.lanes import Lane
from replay.pipe import CANNOT_BE_GIVEN
from replay.result import LockedDecision, SelfTest
from replay.session import Answered, SessionResult
from tracekit.assembly import trajectory_digest
from tracekit.canonical import JsonValue, digest
from tracekit.numerals import counted
from tracekit.trajectory import Call, Observation, Trajectory

ATTEMPTS = 3
"""Observations that are changed before a lane is called inert: one may well be ignored."""
Leaf = str | float | bool | None
_WORD = "changed by the self-test"
_UNREADABLE = "NotReplayable"


class Played(Protocol):
    """One lane as it went: all that can show a reaction."""

    @property
    def done(self) -> SessionResult:
        """What happened."""

    @property
    def locked(self) -> tuple[LockedDecision, ...]:
        """The decisions that were compared, where it was locked."""


Play = Callable[[Trajectory], Played]


def put_to_test(recorded: Trajectory, before: Played, play: Play, *, lane: Lane) -> SelfTest:
    """Change observations that ``before`` was given, one at a time, until something follows.

    Args:
        recorded: The run.
        before: The lane, replayed on the run as it is.
        play: Replays the lane on another record.
        lane: Which one it is.
    """
    tried: dict[str, None] = {}
    unreadable: dict[str, str] = {}
    count = 0
    for call, other in _changes(_candidates(recorded, before)):
        after = play(replace_observation(recorded, call.event_id, other))
        if (error := _unreadable(after)) is not None:
            unreadable.setdefault(_named(call), error)
            continue
        count += 1
        tried[_named(call)] = None
        if not _asked_alike(before, after, call):
            return SelfTest(lane, "not run", tuple(tried), "the planner varies by itself")
        if _trace(after, call) != _trace(before, call):
            return SelfTest(lane, "reacts", tuple(tried), f"what follows {_named(call)} changes")
    for name, error in unreadable.items():
        if name not in tried:
            tried[f"{name} (not put to the test: {error})"] = None
    if not tried:
        return SelfTest(lane, "not run", (), "no observation was served that could be changed")
    under = f"under {counted(count, 'mutation')}"
    detail = f"nothing changed with the observation of {'; '.join(tried)} {under}"
    return SelfTest(lane, "inert", tuple(tried), detail)


def _changes(calls: Iterable[Call]) -> Iterator[tuple[Call, Observation]]:
    """Give each call with its first change, then each with its second, and so on."""
    waiting = [(call, changed_observations(call)) for call in calls]
    while waiting:
        going = []
        for call, changes in waiting:
            if (other := next(changes, None)) is not None:
                yield call, other
                going.append((call, changes))
        waiting = going


def _named(call: Call) -> str:
    return f"{call.tool} (decision {call.decision})"


# --- which observation ----------------------------------------------------------------------------


def _candidates(recorded: Trajectory, before: Played) -> Iterator[Call]:
    """The first observations that were served, those that say most first."""
    calls = {call.event_id: call for call in (*recorded.calls, *recorded.covered)}
    served = dict.fromkeys(
        step.answer.recorded
        for step in before.done.answered
        if step.kind == "call" and step.answer.observation is not None
    )
    found = [calls[event] for event in served if event is not None and event in calls]
    found.sort(key=_says_little)
    yield from found[:ATTEMPTS]


def _says_little(call: Call) -> tuple[bool, bool, bool]:
    seen = call.observation
    return (seen.is_error, seen.value in (None, "", [], {}, True), call.writes)


# --- what it is changed to ------------------------------------------------------------------------


def changed_observations(call: Call) -> Iterator[Observation]:
    """Yield other observations: of the same shape and near first, then ever further away."""
    first = changed_observation(call)
    yield first
    seen = call.observation
    if seen.is_error:
        return
    had = {digest(seen.value), digest(first.value)}
    changes: tuple[Callable[[Leaf], Leaf], ...] = (_Far(1), _Far(0), _negative, _empty)
    for change in changes:
        other = _each_leaf(seen.value, "", seen.types, change)
        if digest(other) not in had:
            had.add(digest(other))
            yield replace(seen, value=other)
    typed = call.contract is not None and call.contract.result_schema is not None
    if not typed and not seen.types and seen.value is not None:
        yield replace(seen, value=None)


def changed_observation(call: Call) -> Observation:
    """Another observation of the same shape."""
    seen = call.observation
    if seen.is_error:
        said = _other_text(seen.error_message or "")
        return replace(seen, value=None, state="absent", types={}, error_message=said)
    return replace(seen, value=_other(seen.value, "", seen.types))


class _Far:
    """Numbers and truths far away: every second one up, the others down, in the order they come."""

    def __init__(self, up: int) -> None:
        self._up = up
        self._met = 0

    def __call__(self, value: Leaf) -> Leaf:
        """Change one leaf."""
        if not isinstance(value, int | float):
            return value
        self._met += 1
        up = self._met % 2 == self._up
        if isinstance(value, bool):
            return up
        far = max(abs(value) * 1000, 1_000_000) if up else 0
        return type(value)(far)


def _negative(value: Leaf) -> Leaf:
    """Turn the sign of a number; of none it is below."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return -value if value else type(value)(-1)


def _empty(value: Leaf) -> Leaf:
    """Leave nothing of a value but its type."""
    return None if value is None else type(value)()


def _each_leaf(
    value: JsonValue,
    place: str,
    types: Mapping[str, JsonValue],
    change: Callable[[Leaf], Leaf],
) -> JsonValue:
    """Change every leaf; what carries a type of its own is left as it is. A list is emptied too."""
    if isinstance(value, dict):
        return {
            name: _each_leaf(one, f"{place}/{name}", types, change) for name, one in value.items()
        }
    if isinstance(value, list):
        if change is _empty and place not in types:
            return []
        return [_each_leaf(one, f"{place}/{at}", types, change) for at, one in enumerate(value)]
    return value if place in types else change(value)


def _other(value: JsonValue, place: str, types: Mapping[str, JsonValue]) -> JsonValue:
    """Another value of the same shape; what carries a type of its own is left as it is."""
    if isinstance(value, dict):
        made = {name: _other(one, f"{place}/{name}", types) for name, one in value.items()}
        return made or {_WORD: _WORD}
    if isinstance(value, list):
        items = [_other(one, f"{place}/{index}", types) for index, one in enumerate(value)]
        return items if place in types else [*items, items[-1] if items else _WORD]
    return value if place in types else _other_leaf(value)


def _other_leaf(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value >= 0 else value - 1
    return _other_text(value) if isinstance(value, str) else _WORD


def _other_text(text: str) -> str:
    return "".join(map(_next, text)) or _WORD


def _next(letter: str) -> str:
    """The next letter or digit of the alphabet; anything else stays."""
    for first, last in (("a", "z"), ("A", "Z"), ("0", "9")):
        if first <= letter <= last:
            return first if letter == last else chr(ord(letter) + 1)
    return letter


def replace_observation(recorded: Trajectory, event_id: str, other: Observation) -> Trajectory:
    """Give the run with ``other`` as the observation of one call."""

    def changed(calls: Sequence[Call]) -> tuple[Call, ...]:
        return tuple(replace(c, observation=other) if c.event_id == event_id else c for c in calls)

    decisions = tuple(replace(d, calls=changed(d.calls)) for d in recorded.decisions)
    return replace(recorded, decisions=decisions, covered=changed(recorded.covered))


# --- what followed --------------------------------------------------------------------------------


def _unreadable(after: Played) -> str | None:
    """Why the changed observation could not be handed out, where it was no value of its type."""
    stopped = after.done.stopped
    if stopped is not None and CANNOT_BE_GIVEN in stopped:
        return stopped
    error = (after.done.exit.result or {}).get("error") or {}
    return str(error["message"]) if error.get("type") == _UNREADABLE else None


def _asked_alike(before: Played, after: Played, call: Call) -> bool:
    """Whether both lanes decided the same before they were given the changed observation."""
    return _decided_until(before.done, call) == _decided_until(after.done, call)


def _decided_until(done: SessionResult, call: Call) -> Counter[str]:
    """The calls of the decisions before the one in which ``call`` was served."""
    given = _given(done, call)
    made: Counter[str] = Counter()
    for decision in done.trajectory.decisions if done.trajectory else ():
        if any(one.span_id in given for one in decision.calls):
            break
        made.update(digest([one.tool, one.arguments]) for one in decision.calls)
    return made


def _given(done: SessionResult, call: Call) -> set[str]:
    """Spans of the calls that were answered with what ``call`` came back with."""
    return {s.span_id for s in done.answered if s.answer.recorded == call.event_id}


def _key(step: Answered) -> str:
    return digest([step.kind, step.name, step.arguments])


def _trace(played: Played, call: Call) -> tuple[object, ...]:
    """All that a lane did, with the changed observation put back."""
    done = played.done
    prompts = Counter(_key(step) for step in done.answered if step.kind == "prompt")
    error = (done.exit.result or {}).get("error") or {}
    return (
        None if done.trajectory is None else trajectory_digest(_restored(done, call)),
        prompts,
        done.stopped is None,
        (done.exit.kind, error.get("type"), error.get("message")),
        [digest(decision.proposed) for decision in played.locked],
    )


def _restored(done: SessionResult, call: Call) -> Trajectory:
    """What the lane did, as if it had been given the recorded observation."""
    assert done.trajectory is not None
    given = _given(done, call)
    made = done.trajectory
    for one in (*made.calls, *made.covered):
        if one.span_id in given:
            made = replace_observation(made, one.event_id, call.observation)
    return made
