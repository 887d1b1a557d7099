"""Start-up of the confined child, one run forked from it, and 1,000 runs replayed at once.

Times are those of the processors, own and children's, where a figure is about work; what a person
waits for is told beside it.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import tracekit
from benchmarks.figures import Line
from benchmarks.looking_agent import CALLS, agent
from replay import ReplayOptions, replay_many
from replay.isolation import Isolate, Level, kernel_available
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import RunQuery, open_store
from tracekit.store.places import journal_folder

_KEY = b"a key for measuring, not for secrets"
_RUNS = 1_000
_FORKS = 50
_COLD_MS, _FORK_MS, _BULK_S, _BULK_MB = 400, 20, 60, 500
"""What is to be reached: more than a cold start, one run, all runs, memory of all processes."""
_TICK_S = 0.2
_NOTHING = {
    "input": {"value": None, "types": {}}, "clock_ns": 0, "seed": 1, "mints": [],
    "history": [], "tools": [],
}  # fmt: skip


def measure() -> list[Line]:
    """Measure starting, forking, and many runs."""
    level: Level = "kernel" if kernel_available()[0] else "process"
    return [*_starting(level), *_forking(level), *_many(level)]


def _starting(level: Level) -> list[Line]:
    command = [sys.executable, "-c", "import benchmarks.looking_agent"]
    cold, confined, waited = [], [], []
    for _ in range(7):
        before = _cpu_ms()
        subprocess.run(command, check=True, timeout=60)
        cold.append(_cpu_ms() - before)
        before, began = _cpu_ms(), time.perf_counter()
        with Isolate("benchmarks.looking_agent:nothing", level=level):
            waited.append((time.perf_counter() - began) * 1_000)
        confined.append(_cpu_ms() - before)
    more = statistics.median(confined) - statistics.median(cold)
    label = f"confined child ({level}): more than a cold start of the planner"
    told = f"{more:.0f} ms, waited {statistics.median(waited):.0f} ms for all of it"
    return [Line(label, told, more / _COLD_MS, 1.0)]


def _forking(level: Level) -> list[Line]:
    with Isolate("benchmarks.looking_agent:nothing", level=level) as isolate:
        for _ in range(2):  # the second builds what all later ones find
            isolate.run(_NOTHING, lambda _: {"stop": True})
        waited = []
        for _ in range(_FORKS):
            began = time.perf_counter()
            isolate.run(_NOTHING, lambda _: {"stop": True})
            waited.append((time.perf_counter() - began) * 1_000)
    quick, median, _ = statistics.quantiles(waited, n=4)  # other work of the machine is not ours
    told = f"{quick:.1f} ms, median {median:.1f} ms"
    return [Line(f"a run from the imported parent ({level})", told, quick / _FORK_MS, 1.0)]


def _many(level: Level) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "traces")
        _record(store)
        before, began = _cpu_ms(), time.perf_counter()
        with Memory() as memory:
            result = replay_many(
                RunQuery(),
                planner="benchmarks.looking_agent:agent",
                store=store,
                options=ReplayOptions(isolation=level),
                jobs=2,
            )
        waited, used = time.perf_counter() - began, (_cpu_ms() - before) / 1_000
    assert result.counts == {"pass": _RUNS}, result.counts
    label = f"{_RUNS:,} runs of {CALLS} calls replayed by 2 workers ({level})"
    yield Line(label, f"{waited:.0f} s, {used:.0f} s of processor", waited / _BULK_S, 1.0)
    yield Line("  memory of all processes", f"{memory.peak:.0f} MB", memory.peak / _BULK_MB, 1.0)


def _record(path: Path) -> None:
    store = open_store(path, create=True)
    journal = Journal(journal_folder(path))
    with recording_to(Recorder(journal, Redactor(Rules(), KeyedTagger(_KEY)))):
        for number in range(_RUNS):
            with tracekit.run():
                agent(f"question {number}")
    journal.close()
    store.settle()


def _cpu_ms() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds)) * 1_000


class Memory(threading.Thread):
    """Looks at the memory of this process and all beneath it; shared pages count once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self._over = threading.Event()

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Look, again and again."""
        while not self._over.wait(_TICK_S):
            self.peak = max(self.peak, sum(map(_pss_mb, _processes(os.getpid()))))


def _processes(pid: int) -> list[int]:
    found = [pid]
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found += _processes(int(child))
    return found


def _pss_mb(pid: int) -> float:
    with suppress(OSError):
        told = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        return int(told[1]) / 1_024 if told else 0.0
    return 0.0
