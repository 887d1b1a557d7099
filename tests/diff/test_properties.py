"""What must hold for any two runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.diff import diff
from replay.diff.align import align
from replay.diff.costs import APART, change, weight
from replay.diff.steps import Step, declared, steps_of
from tests.diff.building import call, read, run, with_decisions
from tracekit.canonical import json_text
from tracekit.trajectory import Call, Trajectory

VALUES = st.sampled_from(["u-11", "u-22", "u-33", 5, 77.5, None])
EFFECTS = {"look": "read", "find": "read", "pay": "write", "sum": "pure", "odd": "unknown"}
CALLS = st.builds(
    lambda tool, arguments, back, **more: call(tool, arguments, back, effect=EFFECTS[tool], **more),
    st.sampled_from(sorted(EFFECTS)),
    st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2),
    VALUES,
    error=st.booleans(),
    policy=st.sampled_from([None, None, "allow", "deny"]),
)
READS = st.builds(read, st.sampled_from(["look", "find"]), st.fixed_dictionaries({"n": VALUES}))
DECISIONS = st.one_of(CALLS, st.lists(CALLS, min_size=1, max_size=3), st.sampled_from(["hi", "ho"]))
RUNS = st.lists(DECISIONS, max_size=7).map(lambda decisions: run(*decisions))


@given(RUNS)
def test_a_run_is_the_same_as_itself(one: Trajectory) -> None:
    found = diff(one, one)
    assert (found.same, found.distance, found.divergences, found.first) == (True, 0, (), None)
    assert {pair.mark for pair in found.aligned} <= {"same"}
    assert found.matched_prefix == len(one.decisions)


@given(RUNS, RUNS)
def test_the_other_way_round_is_the_mirror_image(one: Trajectory, two: Trajectory) -> None:
    there, back = diff(one, two), diff(two, one)
    assert there.distance == back.distance
    mirrored = {"added": "missing", "missing": "added"}

    def told(found: object, *, turn: bool) -> list[tuple[object, ...]]:
        return sorted(
            (
                mirrored.get(d.kind, d.kind) if turn else d.kind,
                d.tool,
                d.right_decision if turn else d.left_decision or 0,
                d.left_decision if turn else d.right_decision or 0,
            )
            for d in found.divergences  # type: ignore[attr-defined]  # a Comparison
            if d.left_decision and d.right_decision
        )

    assert told(there, turn=False) == told(back, turn=True)
    assert there.counts["added"] == back.counts["missing"]


@given(RUNS, RUNS)
def test_distance_0_and_no_divergence_are_one(one: Trajectory, two: Trajectory) -> None:
    found = diff(one, two)
    assert (found.distance == 0) == (found.divergences == ()) == (found.first is None)
    assert found.distance >= 0


@given(RUNS, RUNS)
def test_every_step_stands_in_one_line(one: Trajectory, two: Trajectory) -> None:
    found = diff(one, two)
    for side, source in (("left", one), ("right", two)):
        shown = [getattr(pair, side) for pair in found.aligned if getattr(pair, side) is not None]
        assert sum(action.effect is not None for action in shown) == len(source.calls)
    assert json_text(found.as_dict())
    assert found.as_text()


@given(RUNS, RUNS, st.randoms(use_true_random=False))
def test_the_order_within_a_decision_never_counts(
    one: Trajectory, two: Trajectory, chance: object
) -> None:
    shuffled = []
    for decision in one.decisions:
        calls = list(decision.calls)
        chance.shuffle(calls)  # type: ignore[attr-defined]  # hypothesis hides the type
        shuffled.append(replace(decision, calls=tuple(calls)))
    other = with_decisions(one, shuffled)
    assert diff(one, other).same
    assert diff(one, two).distance == diff(other, two).distance


@given(
    st.lists(READS, max_size=6).flatmap(lambda r: st.tuples(st.just(r), st.permutations(r))), RUNS
)
def test_independent_reads_permute_freely(
    rows: tuple[list[Call], list[Call]], other: Trajectory
) -> None:
    one, two = run(*rows[0]), run(*rows[1])
    assert diff(one, two).distance == 0
    assert diff(one, other).distance == diff(two, other).distance


@given(st.lists(CALLS.filter(lambda c: c.writes), min_size=2, max_size=6), st.data())
def test_swapped_writes_differ(writes: list[Call], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(writes) - 2))
    swapped = [*writes[:at], writes[at + 1], writes[at], *writes[at + 2 :]]
    same = diff(run(writes[at]), run(writes[at + 1])).distance == 0
    assert (diff(run(*writes), run(*swapped)).distance == 0) == same


ROWS = st.lists(CALLS, max_size=5).map(lambda calls: run(*calls))


def _steps(*runs: Trajectory) -> list[tuple[Step, ...]]:
    rules = declared(run(*(c for one in runs for c in one.calls)), runs[0])
    return [steps_of(one, rules) for one in runs]


@given(ROWS, ROWS)
@settings(max_examples=200)
def test_an_alignment_is_as_cheap_as_the_cheapest_of_all(one: Trajectory, two: Trajectory) -> None:
    left, right = _steps(one, two)

    @cache
    def cheapest(i: int, j: int) -> int:
        if i == len(left):
            return sum(weight(step) for step in right[j:])
        if j == len(right):
            return sum(weight(step) for step in left[i:])
        return min(
            weight(left[i]) + cheapest(i + 1, j),
            weight(right[j]) + cheapest(i, j + 1),
            change(left[i], right[j], {}) + cheapest(i + 1, j + 1),
        )

    found = align(left, right, {})
    assert found.cost == cheapest(0, 0)
    paid = 0
    for i, j in found.pairs:
        if i is None or j is None:
            paid += weight(right[j]) if i is None and j is not None else weight(left[i or 0])
        else:
            paid += change(left[i], right[j], {})
    assert paid == found.cost


@given(ROWS, ROWS, ROWS)
def test_a_detour_is_never_shorter(one: Trajectory, two: Trajectory, via: Trajectory) -> None:
    left, right, between = _steps(one, two, via)
    direct = align(left, right, {}).cost
    # every cost is rounded to a whole number; three of them per pair of steps may be off by one
    slack = 3 * (len(left) + len(right) + len(between))
    assert direct <= align(left, between, {}).cost + align(between, right, {}).cost + slack


@given(CALLS, CALLS)
def test_a_change_is_cheaper_than_two_steps_without_counterpart(one: Call, two: Call) -> None:
    (left,), (right,) = _steps(run(one), run(two))
    cost = change(left, right, {})
    assert cost == change(right, left, {})
    assert cost == APART if one.tool != two.tool else cost < weight(left) + weight(right)


@pytest.mark.parametrize("length", [1, 3])
def test_parts_put_one_after_the_other_differ_by_no_more_than_their_sum(length: int) -> None:
    one = [read("a", {"x": n}, n) for n in range(length)]
    two = [read("a", {"x": n + 1}, n) for n in range(length)]
    whole = diff(run(*one, *two), run(*two, *one)).distance
    assert whole <= 2 * diff(run(*one), run(*two)).distance
