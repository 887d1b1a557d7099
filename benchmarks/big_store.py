"""Reading from a store of 10 million events in 200,000 runs, by a process of its own.

What is asked is what ``store`` asks of a tenth of it. The reading process is not the one that makes
the store, so that its peak of memory is that of reading.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.figures import Line
from benchmarks.layout import fill
from benchmarks.store import ask
from tracekit.store import RunQuery, open_store

RUNS_KEPT, BATCHES_A_DAY = 200_000, 4
_MEMORY_MB = 1_000
"""What the reading process may take at its peak."""


def measure() -> list[Line]:
    """Make the store, compact it, and have another process read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        code = "import sys; from benchmarks import big_store; big_store.make(sys.argv[1])"
        made: list[dict[str, object]] = _child(code, path)
        code = "import sys; from benchmarks import big_store; big_store.read(sys.argv[1])"
        read = _child(code, path)
    return [Line(**line) for line in (*made, *read)]  # type: ignore[arg-type]  # what a child printed


def _child(code: str, path: Path) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, stdout=subprocess.PIPE, timeout=900
    )
    *others, last = done.stdout.splitlines()
    for line in others:
        print(line.decode(errors="replace"), file=sys.stderr)
    lines: list[dict[str, object]] = json.loads(last)
    return lines


def make(path: str) -> None:
    """Make the store and print what compacting it took."""
    events = fill(Path(path), RUNS_KEPT, parts=BATCHES_A_DAY)
    before = time.perf_counter()
    done = open_store(path).compact()
    speed = events / (time.perf_counter() - before)
    size = sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))
    what = f"{events:,} events in {RUNS_KEPT:,} runs, compacted"
    told = f"{done.batches_before} batches to {done.batches_after}, {speed:,.0f} events/s"
    lines = [
        Line(what, told, 100_000 / speed, 1.0),
        Line(
            "  on disk, catalogue included", f"{size / events:.0f} B an event", size / events / 100
        ),
    ]
    print(json.dumps([asdict(line) for line in lines]))


def read(path: str) -> None:
    """Ask the questions and print the answers, the peak of memory last."""
    start = time.perf_counter()
    store = open_store(path)
    store.runs(RunQuery(limit=50))
    opened = time.perf_counter() - start
    lines = ask(store)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    lines = [
        Line("  the last 50 runs, by a process that just opened it", f"{opened * 1e3:,.0f} ms"),
        *(Line(f"  {line.what}", line.value, line.ratio, line.target) for line in lines),
        Line("  peak memory of that process", f"{peak:,.0f} MB", peak / _MEMORY_MB, 1.0),
    ]
    print(json.dumps([asdict(line) for line in lines]))
