"""The speed of one replay: a trivial tool called many times, answered, and recorded in a journal.

What is timed is the whole of ``Replayer.replay`` on a loaded run: its tape is made, the planner
runs, every call is asked, matched, answered and recorded, and the verdict is given. The trajectory
of the replay is built when somebody reads it, and has a line of its own. So has the start of a
replay, which is a replay of one call: what a run costs beside its calls (a fork of the imported
parent, say, in which the walls are tried again).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracekit
from benchmarks.figures import Line
from benchmarks.replay_agent import look_up, many_calls
from replay import ReplayOptions
from replay.replayer import Replayer
from tracekit.assembly import build
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.rows import rows_from_facts
from tracekit.sink import MemorySink
from tracekit.trajectory import Trajectory

_KEY = b"a key for measuring, not for secrets"
_SIZES = (1, 100, 1_000, 10_000)
_REPEATS = {1: 15, 100: 15, 1_000: 7, 10_000: 3}
_PIPE_US, _IN_PROCESS_US = 200.0, 50.0
"""5,000 and 20,000 observations a second."""


@dataclass(frozen=True)
class _Cost:
    """What one call cost, in µs."""

    wall: float
    parent: float
    child: float
    trajectory: float

    @property
    def cpu(self) -> float:
        """Of both sides."""
        return self.parent + self.child


def _recorded(calls: int) -> Trajectory:
    sink = MemorySink()
    with recording_to(Recorder(sink, Redactor(Rules(), KeyedTagger(_KEY)))):
        many_calls(calls)
    return build(rows_from_facts(sink.facts), sink.blobs.get)


def _here() -> Any:
    """The same agent as a closure, which runs in this process."""

    @tracekit.agent(name="many_calls")
    def many(calls: int) -> dict[str, int]:
        for number in range(calls):
            look_up(number)
        return {"cpu_us": 0}

    return many


def _replayed(replayer: Replayer, record: Trajectory, sink: Journal, calls: int) -> _Cost:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    result = replayer.replay(record, sink=sink)
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    if not result.passed or result.shares != {"exact": calls}:
        raise AssertionError(f"the replay did not go as recorded: {result.verdict}")
    reading = time.process_time_ns()
    assert result.trajectory is not None
    reading = time.process_time_ns() - reading
    answer: Any = result.trajectory.answer.value
    per = calls * 1_000
    return _Cost(wall / per, cpu / per, answer["cpu_us"] / calls, reading / per)


@contextmanager
def _places(folder: Path) -> Iterator[dict[str, tuple[Replayer, Journal]]]:
    with (
        Replayer("benchmarks.replay_agent:many_calls", ReplayOptions()) as child,
        Replayer(_here(), ReplayOptions()) as here,
    ):
        level = child._isolate.ready.level
        yield {
            f"replay, isolation {level}": (child, Journal(folder / "a")),
            "replay, in process": (here, Journal(folder / "b")),
        }


def measure() -> list[Line]:
    """Measure a replayed call of runs of 100, 1,000 and 10,000, and the start of a run."""
    records = {calls: _recorded(calls) for calls in _SIZES}
    found: dict[tuple[str, int], list[_Cost]] = {}
    with tempfile.TemporaryDirectory() as folder, _places(Path(folder)) as places:
        for repeat in range(max(_REPEATS.values()) + 1):  # the first is not counted
            for calls, record in records.items():
                if repeat > _REPEATS[calls]:
                    continue
                for name, (replayer, journal) in places.items():
                    cost = _replayed(replayer, record, journal, calls)
                    if repeat:
                        found.setdefault((name, calls), []).append(cost)
    return [line for name in places for line in _lines(name, found)]


def _lines(name: str, found: dict[tuple[str, int], list[_Cost]]) -> Iterator[Line]:
    aim = _IN_PROCESS_US if "process" in name.partition(",")[2] and "in" in name else _PIPE_US
    used, wall = _medians(name, found, "cpu"), _medians(name, found, "wall")
    yield Line(f"{name}: its start", f"{wall[1] / 1e3:.1f} ms by the clock")
    for calls in _SIZES[1:]:
        parent, child = (
            statistics.median(getattr(cost, side) for cost in found[name, calls])
            for side in ("parent", "child")
        )
        sides = f"parent {parent:.0f} us, planner {child:.0f} us" if child else f"{parent:.0f} us"
        yield Line(
            f"{name}, {calls:,} calls: CPU a call",
            f"{sides}; {1e6 / wall[calls]:,.0f}/s by the clock",
            used[calls] / aim if calls == 1_000 else None,
            1.0 if calls == 1_000 else None,
        )
        if calls == 1_000:
            trajectory = _medians(name, found, "trajectory")[calls]
            yield Line("  its trajectory, where it is read", f"{trajectory:.0f} us a call")
    # The start of a run has an aim of its own; see ``replay_many``.
    beyond = {calls: (used[calls] * calls - used[1]) / (calls - 1) for calls in _SIZES[1:]}
    for calls in (100, 10_000):
        yield Line(
            f"{name}: a call of {calls:,} against one of 1,000, starts aside",
            f"{beyond[calls]:.0f} us",
            beyond[calls] / beyond[1_000],
            1.3,
        )


def _medians(name: str, found: dict[tuple[str, int], list[_Cost]], side: str) -> dict[int, float]:
    return {
        calls: statistics.median(getattr(cost, side) for cost in found[name, calls])
        for calls in _SIZES
    }
