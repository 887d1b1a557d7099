"""All of a run that a comparison looks at, as one JSON value: whether two are alike at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from replay.diff.alike import kept_alike, may_be_equal
from replay.diff.arguments import with_sent_in
from replay.diff.overlap import gathered_by_time, span_of
from tracekit.canonical import JsonValue, canonical_text, digest, numbers_as_compared
from tracekit.trajectory import Call, Observation, Trajectory

_KEPT = frozenset({"captured", "absent", "invalid_json"})


def identical(one: Trajectory, two: Trajectory) -> bool:
    """Whether nothing at all differs, so that there is nothing to align.

    Most pairs of a release are such, and this takes a tenth of the time. What is not kept whole, or
    only happened in another order, or beside each other and no longer in turn, is left to the
    comparison.
    """
    if not _KEPT.issuperset(_states(one)) or not _KEPT.issuperset(_states(two)):
        return False
    ours, theirs = _content(one), _content(two)
    if _in_turn(one) != _in_turn(two):
        return False
    if not may_be_equal(ours, theirs):
        return False
    return kept_alike(ours, theirs) or _written(ours) == _written(theirs)


def content_digest(run: Trajectory) -> str:
    """Digest what a comparison looks at, by which a run is known again under its id.

    More than ``trajectory_digest``: the input, the user's turns, effects and evidence count too,
    since a candidate is compared with them.
    """
    turns = _in_turn(run)  # of few runs there is anything to say
    told = [_states(run), numbers_as_compared(_content(run)), *([turns] if turns else [])]
    return digest(told)


def _written(content: JsonValue) -> str:
    return canonical_text(numbers_as_compared(content))


def _states(run: Trajectory) -> list[JsonValue]:
    states: list[JsonValue] = [run.input.state, run.answer.state]
    for call in with_sent_in(run).calls:
        states += [call.argument_state, call.observation.state]
    return states


def _content(run: Trajectory) -> list[JsonValue]:
    said: list[JsonValue] = [[one.role, one.content, one.before_decision] for one in run.messages]
    done: list[JsonValue] = [
        [decision.message, decision.final, [of_call(call) for call in decision.calls]]
        for decision in run.decisions
    ]
    return [_came_back(run.input), _came_back(run.answer), run.status, said, done]


def _in_turn(run: Trajectory) -> list[JsonValue]:
    """Tell which calls were over before others began, where time alone made them one decision.

    Begins and ends stand in turns: all that began until one ended, all that ended until one began.
    Two runs have the same turns where the same calls were over before the same others, whatever
    the clock said. Where nothing writes, it makes no difference.
    """
    by_time = gathered_by_time(run)
    found: list[JsonValue] = []
    for decision in run.decisions:
        if decision.index in by_time and any(call.writes for call in decision.calls):
            turns = _turns(decision.calls)
            if len(turns) > 2:
                found.append([decision.index, turns])
    return found


def _turns(calls: Sequence[Call]) -> list[JsonValue]:
    marks = []
    for at, call in enumerate(calls):
        if call.effect != "pure":
            begin, end = span_of(call)
            marks += [(begin, False, at), (end, True, at)]
    turns = groupby(sorted(marks), key=lambda mark: mark[1])
    return [[*sorted(at for _, _, at in turn)] for _, turn in turns]


def _came_back(seen: Observation) -> list[JsonValue]:
    return [seen.digest_form, dict(seen.types)]


def of_call(call: Call) -> JsonValue:
    """Give all of one call that a comparison looks at."""
    return [
        call.tool, call.arguments, dict(call.argument_types), call.effect,
        *_came_back(call.observation), call.observation.is_error,
        call.policy_decision, call.policy_id, [*call.evidence],
    ]  # fmt: skip
