"""Calls of code that are one decision only by time keep their order where they do not overlap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.diff import diff
from replay.diff.content import content_digest, identical
from replay.diff.overlap import Spans, was_over
from replay.diff.steps import declared, steps_of
from tests.diff.building import read, run, write
from tracekit.trajectory import Call, Trajectory


def at(call: Call, start: int, end: int) -> Call:
    return replace(call, ts_start_ns=start, ts_end_ns=end)


def beside_an_open_read(first: Call, second: Call) -> Trajectory:
    """Two calls, one after the other, while a third is open."""
    return run((at(read("rows", {}, [1]), 0, 90), at(first, 10, 20), at(second, 30, 40)))


CHECK, PAY = read("verify", {"order": 1}, "ok"), write("refund", {"order": 1}, "done")


@pytest.mark.parametrize(
    ("one", "two"),
    [(CHECK, PAY), (write("close", {"order": 1}, "done"), PAY)],
    ids=["a check and a write", "two writes"],
)
def test_what_changes_places_beside_an_open_call_differs(one: Call, two: Call) -> None:
    found = diff(beside_an_open_read(one, two), beside_an_open_read(two, one))
    assert found.divergences
    assert diff(beside_an_open_read(one, two), beside_an_open_read(one, two)).divergences == ()


@pytest.mark.parametrize(
    "first", [CHECK, write("close", {"order": 1}, "done")], ids=["read", "write"]
)
@pytest.mark.parametrize("open_beside", [True, False], ids=["beside an open read", "alone"])
def test_together_or_one_after_the_other_differs_whatever_else_is_open(
    first: Call, open_beside: bool
) -> None:
    others = (at(read("rows", {}, [1]), 0, 90),) if open_beside else ()
    together = run((*others, at(first, 10, 30), at(PAY, 20, 40)))
    calls = at(first, 10, 20), at(PAY, 30, 40)
    in_turn = run((*others, *calls)) if open_beside else run(*calls)
    for left, right, names in (
        (together, in_turn, ("left", "right")),
        (in_turn, together, ("right", "left")),
    ):
        found = diff(left, right, left_name="left", right_name="right")
        assert found.distance == 0.5
        (only,) = found.divergences
        assert only.kind == "reordered"
        assert f"{names[0]} issued {first.tool} and refund together" in only.explanation
        assert f"{names[1]} one after the other" in only.explanation


SPANS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 5)).map(lambda span: (span[0], sum(span))),
    min_size=2,
    max_size=4,
)
EFFECTS = st.lists(st.sampled_from(["read", "write", "pure"]), min_size=4, max_size=4)


def _tools(run: Trajectory) -> list[str]:
    return [call.tool for call in run.calls]


@given(SPANS, SPANS, EFFECTS)
@example([(1, 2), (3, 4)], [(1, 3), (2, 4)], ["write", "write", "read", "read"])
@example([(1, 2), (3, 4)], [(5, 6), (7, 9)], ["write", "write", "read", "read"])
@example([(0, 1), (2, 3)], [(2, 3), (0, 1)], ["write", "write", "pure", "pure"])
def test_what_is_identical_at_a_glance_has_the_same_order(
    one: list[tuple[int, int]], two: list[tuple[int, int]], effects: list[str]
) -> None:
    left, right = (
        run(
            tuple(  # in the order in which they began, as a store gives them
                at(replace(read(f"t{i}", {"n": i}, i), effect=effect), *span)
                for span, i, effect in sorted(
                    zip([*spans, (0, 90)], range(4), effects, strict=False)
                )
            )
        )
        for spans in (one, two)
    )
    same = diff(left, right).same
    if identical(left, right):
        assert same
        assert content_digest(left) == content_digest(right)
    elif "read" not in effects and _tools(left) == _tools(right):
        assert not same  # only writes and what is pure: nothing else is told apart
    if not same:
        assert content_digest(left) != content_digest(right)


def test_in_turn_and_together_beside_an_open_read_are_two_trajectories() -> None:
    open_read, first = at(read("rows", {}, [1]), 0, 90), write("close", {"order": 1}, "done")
    in_turn = run((open_read, at(first, 10, 20), at(PAY, 30, 40)))
    later = run((open_read, at(first, 50, 51), at(PAY, 60, 65)))
    together = run((open_read, at(first, 10, 35), at(PAY, 30, 40)))
    assert identical(in_turn, later)
    assert content_digest(in_turn) == content_digest(later)
    assert not identical(in_turn, together)
    assert content_digest(in_turn) != content_digest(together)


def test_a_replay_that_answers_at_once_is_not_said_to_act_in_turn() -> None:
    open_read = at(read("rows", {}, [1]), 0, 90)
    together = run((open_read, at(CHECK, 10, 30), at(PAY, 20, 40)))
    in_turn = run((open_read, at(CHECK, 10, 20), at(PAY, 30, 40)))
    assert diff(together, replace(in_turn, replay_of="r")).divergences == ()


def test_calls_that_overlap_have_no_order() -> None:
    left = run((at(CHECK, 0, 50), at(PAY, 10, 60)))
    right = run((at(PAY, 0, 60), at(CHECK, 10, 50)))
    assert diff(left, right).divergences == ()


def test_whether_an_open_call_lets_others_join_its_decision_is_no_difference() -> None:
    apart = run(at(CHECK, 0, 10), at(PAY, 20, 30))
    beside = run((at(CHECK, 0, 10), at(PAY, 20, 30)))
    assert diff(apart, beside).divergences == ()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=9))
def test_what_is_left_out_of_the_order_follows_from_the_rest(spans: list[tuple[int, int]]) -> None:
    calls = [at(write("w", {"n": n}, n), a, a + d) for n, (a, d) in enumerate(spans)]
    one = run(tuple(calls))
    steps = steps_of(one, declared(one, one))
    before = {step.index: set(Spans(steps).just_before(step)) for step in steps}
    after = {step.index: set(Spans(steps).just_after(step)) for step in steps}
    reached: dict[int, set[int]] = {}
    for step in sorted(steps, key=lambda step: (step.call and step.call.ts_start_ns) or 0):
        reached[step.index] = set().union(
            *({i} | reached[i] for i in before[step.index]), before[step.index]
        )
    for step in steps:
        over = {other.index for other in steps if was_over(other, step)}
        assert reached[step.index] == over
        assert after[step.index] <= {i.index for i in steps if was_over(step, i)}
        assert bool(after[step.index]) == any(was_over(step, other) for other in steps)


READS = [read(f"look-{n}", {"place": n}, "seen", touches=("disk",)) for n in range(5)]
MAIL = write("mail", {"to": 9}, "sent", touches=("mail",))


@st.composite
def in_the_background(draw: st.DrawFn, calls: tuple[Call, ...]) -> Trajectory:
    """The calls in any order and decisions, each open for as long as it happens to be."""
    decisions: list[list[Call]] = [[]]
    for call in draw(st.permutations(calls)):
        start, taken = draw(st.integers(0, 12)), draw(st.integers(0, 6))
        decisions[-1].append(at(call, start, start + taken))
        if draw(st.booleans()):
            decisions.append([])
    return run(*filter(None, decisions))


@given(st.data())
@pytest.mark.parametrize("beside", [(), (MAIL,)], ids=["alone", "beside a write of another thing"])
def test_reads_may_overlap_or_not_as_it_happens(
    beside: tuple[Call, ...], data: st.DataObject
) -> None:
    some = in_the_background((*READS, *beside))
    found = diff(data.draw(some), data.draw(some))
    assert (found.divergences, found.distance, found.same) == ((), 0, True)
