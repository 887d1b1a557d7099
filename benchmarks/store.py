"""Reading and keeping a million events: one run, the last runs, SQL, compaction, space.

The reference of a query is the same query written by hand in DuckDB over the same files, that of a
time is the one aimed at. ``big_store`` asks the same of a store that is ten times as big, and
``python -m benchmarks.store RUNS`` measures one of any size.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import duckdb
import numpy as np

from benchmarks.figures import Line, table
from benchmarks.layout import DAYS, batch, day_named, fill
from tracekit.store import RunQuery, Store, open_store
from tracekit.store.appending import write_batch
from tracekit.store.folder import open_folder

RUNS_KEPT, SMALL_BATCHES = 20_000, 400
_ERRORS = """
    SELECT tool_name, {day} AS day, avg((error IS NOT NULL)::INT) AS rate, count(*) AS calls
    FROM {events} WHERE event_type = 'tool_call' GROUP BY ALL ORDER BY ALL
"""
_FOLLOWED = """
    SELECT count(DISTINCT a.run_id) FROM {events} a JOIN {events} b
    ON a.run_id = b.run_id AND b.seq > a.seq
    WHERE a.tool_name = 'tool.3' AND b.tool_name = 'tool.7'
"""
_SOME_RUN = """
    SELECT run_id FROM runs ORDER BY run_id LIMIT 1 OFFSET (SELECT count(*) // 3 FROM runs)
"""
_BY_HAND = """
    (SELECT *, CASE WHEN status = 'error' OR observation_is_error
        THEN coalesce(error_message, error_type, 'error') END AS error
    FROM read_parquet([{files}]))
"""


def took(task: Callable[[], object], *, repeats: int = 25) -> float:
    """Measure the median time of a call in ms, warm."""
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        task()
        times.append((time.perf_counter_ns() - start) / 1e6)
    return median(times)


def _compared(store: Store, what: str, query: str) -> Line:
    """Ask the store and DuckDB the same, in turn."""
    files = ", ".join(f"'{path}'" for path in sorted((store.path / "events").rglob("*.parquet")))
    by_hand = _BY_HAND.format(files=files)
    mine = query.format(events="events", day='"timestamp"::DATE')
    theirs = query.format(events=by_hand, day="make_timestamp_ns(ts_start_ns)::DATE")

    def ask_by_hand() -> list[tuple[object, ...]]:
        with duckdb.connect() as base:
            return base.execute(theirs).fetchall()

    if tuple(ask_by_hand()) != store.sql(mine).rows:
        raise AssertionError(f"{what}: two answers to one question")
    ours, reference = [], []
    for _ in range(5):
        ours.append(took(lambda: store.sql(mine), repeats=1))
        reference.append(took(ask_by_hand, repeats=1))
    ratio = median(ours) / median(reference)
    return Line(what, f"{median(ours):.0f} ms; by hand {median(reference):.0f} ms", ratio, 1.5)


def ask(store: Store) -> list[Line]:
    """Ask a store the four questions."""
    some = store.sql(_SOME_RUN).rows[0][0]
    prefix = some[:18]
    if store.resolve(prefix) != some:
        raise AssertionError("a prefix means another run")
    one = took(lambda: store.events(some))
    found = took(lambda: store.events(store.resolve(prefix)))
    last = took(lambda: store.runs(RunQuery(limit=50)))
    return [
        Line("one run by id", f"{one:.1f} ms", one / 15, 1.0),
        Line("one run by the beginning of its id", f"{found:.1f} ms", found / 15, 1.0),
        Line("the last 50 runs", f"{last:.1f} ms", last / 20, 1.0),
        _compared(store, "error rate by tool and day", _ERRORS),
        _compared(store, "a tool later followed by another", _FOLLOWED),
    ]


def _scattered() -> list[Line]:
    """Look one run up among small batches, as short processes leave them, then compacted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        open_store(path, create=True)
        target = open_folder(path, create=False)
        chance = np.random.default_rng(2)
        for number in range(SMALL_BATCHES):
            rows, catalogue = batch(chance, number % DAYS, 4)
            write_batch(target, {f"events/day={day_named(number % DAYS)}": rows}, catalogue)
        store = open_store(path)
        some = store.runs()[SMALL_BATCHES].run_id
        before = took(lambda: store.events(some))
        store.compact()
        after = took(lambda: store.events(some))
    return [
        Line(f"one run by id among {SMALL_BATCHES} small batches", f"{before:.1f} ms", before / 15),
        Line("  the same after compaction", f"{after:.1f} ms", after / 15, 1.0),
    ]


def measure(runs: int = RUNS_KEPT) -> list[Line]:
    """Measure compaction, space and the questions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        events = fill(path, runs)
        start = time.perf_counter()
        open_store(path).compact()
        speed = events / (time.perf_counter() - start)
        size = sum(file.stat().st_size for file in (path / "events").rglob("*.parquet"))
        return [
            Line(
                f"compaction of {events:,} events in {DAYS} batches",
                f"{speed:,.0f} events/s", 100_000 / speed, 1.0,
            ),
            Line("an event without payloads", f"{size / events:.0f} B", size / events / 100, 1.0),
            *ask(open_store(path)),
            *_scattered(),
        ]  # fmt: skip


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]))))
