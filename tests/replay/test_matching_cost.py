"""A run of many writes with a read after each is answered at the cost of its length."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

from replay.matching import AskedCall, Player
from replay.tape import Tape
from tests.replay.tape_kit import call, record
from tracekit.events import Effect
from tracekit.trajectory import Call, Decision, Trajectory
from tracekit.writesets import with_write_sets


def _run(pairs: int) -> Trajectory:
    made: list[Call] = []
    for number in range(pairs):
        made += [call("put", "write", n=number), call("look", n=number % 7)]
    calls = [
        replace(one, event_id=f"e{at}", ts_start_ns=at * 10, ts_end_ns=at * 10 + 5, latency_ns=5)
        for at, one in enumerate(made)
    ]
    decisions = [
        Decision(at, calls=(replace(one, decision=at),))
        for at, one in enumerate(with_write_sets(calls), 1)
    ]
    return replace(record(), decisions=tuple(decisions))


def _work(pairs: int) -> int:
    run = _run(pairs)
    effects: dict[str, Effect] = {"put": "write", "look": "read"}
    done = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal done
        done += 1

    sys.setprofile(count)
    try:
        player = Player(Tape.of(run))
        for at, one in enumerate(run.calls):
            arguments = one.arguments
            assert isinstance(arguments, dict)
            asked = AskedCall(one.tool, arguments, effects[one.tool], None, (), f"s{at}")
            assert player.call(asked).recorded == one.event_id
    finally:
        sys.setprofile(None)
    assert player.shares() == {"exact": 2 * pairs}
    return done


def test_twice_as_many_writes_and_reads_are_twice_the_work() -> None:
    assert _work(600) < 2.3 * _work(300)
