"""Write sets: the same as their definition says, and no dearer than the run is long."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.contract import Contract
from tracekit.events import Effect
from tracekit.trajectory import Call, Observation
from tracekit.writesets import Line, WriteSet, with_write_sets

TOUCHES: tuple[tuple[str, ...] | None, ...] = (None, (), ("a",), ("b",), ("a", "b"))
CONTRACTS = (None, *(Contract(name="t", touches=touches) for touches in TOUCHES))


def _call(number: int, effect: Effect, start: int | None, end: int | None, **more: object) -> Call:
    made = Call(
        event_id=f"e{number}", span_id="", tool="t", arguments={}, effect=effect,
        observation=Observation(), ts_start_ns=start, ts_end_ns=end,
        latency_ns=None if end is None or start is None else max(0, end - start),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]  # columns of a call


def _as_defined(calls: Sequence[Call]) -> list[frozenset[str]]:
    """The successful writes that had ended before it began and share a resource, one by one."""
    place = {call.event_id: at for at, call in enumerate(calls)}

    def before(write: Call, call: Call) -> bool:
        if None not in (write.ts_end_ns, call.ts_start_ns, write.latency_ns):
            ended = write.ts_end_ns <= call.ts_start_ns  # type: ignore[operator]  # not None
            return ended and write.ts_start_ns != call.ts_start_ns
        return place[write.event_id] < place[call.event_id]

    def shared(write: Call, call: Call) -> bool:
        if write.contract is None or call.contract is None:
            return True
        return write.contract.shares_resource(call.contract)

    writes = [c for c in calls if c.writes and not c.observation.is_error and not c.refused]
    return [
        frozenset(w.event_id for w in writes if w is not c and before(w, c) and shared(w, c))
        for c in calls
    ]


_TIMES = st.one_of(st.none(), st.integers(0, 6))


@st.composite
def _runs(draw: st.DrawFn) -> list[Call]:
    made = []
    for number in range(draw(st.integers(0, 9))):
        call = _call(
            number,
            draw(st.sampled_from(["read", "write", "unknown", "pure"])),
            draw(_TIMES),
            draw(_TIMES),
            contract=draw(st.sampled_from(CONTRACTS)),
            observation=Observation(is_error=draw(st.integers(0, 4)) == 0),
            policy_decision=draw(st.sampled_from([None, None, None, "deny"])),
        )
        if draw(st.integers(0, 5)) == 0:
            call = replace(call, latency_ns=None)
        made.append(call)
    return made


@given(_runs())
def test_a_write_set_is_what_its_definition_says(calls: list[Call]) -> None:
    found = [call.write_set for call in with_write_sets(calls)]
    wanted = _as_defined(calls)

    assert [frozenset(one) for one in found] == wanted
    assert found == wanted
    assert list(map(hash, found)) == list(map(hash, wanted))
    assert [[one == other for other in found] for one in found] == [
        [one == other for other in wanted] for one in wanted
    ]
    assert frozenset(WriteSet.union(found)) == frozenset().union(*wanted)


def test_two_sets_of_the_same_writes_are_equal_in_whatever_order_these_were_made() -> None:
    one, other = Line(["a", "b", "c"]), Line(["c", "a", "b", "a", "d"])
    assert one.first(3) == other.first(3) == frozenset("abc")
    assert one.first(3) != other.first(4)
    assert one.first(2) != other.first(2)
    assert "d" not in other.first(3)
    assert other.first(4) - one.first(3) == {"d"}
    assert {one.first(3): "kept"}[other.first(3)] == "kept"
    assert copy.deepcopy(one.first(2)) == one.first(2) == frozenset("ab")


def test_sets_that_are_handed_on_share_their_line() -> None:
    line = Line(map(str, range(1_000)))
    whole = ForkingPickler.dumps([line.first(count) for count in range(1_000)])
    assert len(whole) < 100_000
    assert ForkingPickler.loads(whole)[3] == frozenset("012")


@pytest.mark.parametrize("effects", [("write", "read"), ("write", "write"), ("write", "pure")])
def test_a_run_twice_as_long_is_twice_the_work(effects: tuple[Effect, Effect]) -> None:
    def work(pairs: int) -> int:
        calls = [
            _call(number, effects[number % 2], number * 10, number * 10 + 5)
            for number in range(2 * pairs)
        ]
        done = 0

        def count(frame: FrameType, event: str, arg: object) -> None:
            nonlocal done
            done += 1

        sys.setprofile(count)
        try:
            sets = [call.write_set for call in with_write_sets(calls)]
            assert len(set(sets)) == pairs + 1 if "read" in effects else len(sets[-1]) > pairs - 1
            assert len(WriteSet.union(sets)) >= pairs - 1
        finally:
            sys.setprofile(None)
        return done

    assert work(800) < 2.2 * work(400)
