"""Reading and keeping a million events: one run, the last runs, SQL, compaction, space.

The rows are laid out straight as tables, 50 to a run, so that the store is measured and not the
recorder. The reference of a query is the same query written by hand in DuckDB over the same files.
``python -m benchmarks.store RUNS`` measures a store of another size.
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
import pyarrow as pa

from benchmarks.figures import Line, table
from tests.store.made import DAY, NOON
from tracekit.store import RunQuery, Store, open_store
from tracekit.store.appending import write_batch
from tracekit.store.folder import open_folder
from tracekit.store.folding import SAME, SUM
from tracekit.store.schema import EVENTS, RUNS

RUNS_KEPT, EVENTS_A_RUN, DAYS = 20_000, 50, 30
_TOOLS = [f"tool.{number}" for number in range(20)]
_ERRORS = """
    SELECT tool_name, {day} AS day, avg((error IS NOT NULL)::INT) AS rate, count(*) AS calls
    FROM {events} WHERE event_type = 'tool_call' GROUP BY ALL ORDER BY ALL
"""
_FOLLOWED = """
    SELECT count(DISTINCT a.run_id) FROM {events} a JOIN {events} b
    ON a.run_id = b.run_id AND b.seq > a.seq
    WHERE a.tool_name = 'tool.3' AND b.tool_name = 'tool.7'
"""
_BY_HAND = """
    (SELECT *, CASE WHEN status = 'error' OR observation_is_error
        THEN coalesce(error_message, error_type, 'error') END AS error
    FROM read_parquet([{files}]))
"""


def _hex(chance: np.random.Generator, count: int, size: int, *, before: str = "") -> list[str]:
    text = chance.bytes(count * size).hex()
    return [before + text[at : at + 2 * size] for at in range(0, len(text), 2 * size)]


def _lay_out(schema: pa.Schema, columns: dict[str, object], rows: int) -> pa.Table:
    """Make a table of a schema, columns that are not given left empty."""
    arrays = []
    for field in schema:
        storage = field.type.storage_type if hasattr(field.type, "storage_type") else field.type
        if field.name in columns:
            value = columns[field.name]
            plain = [value] * rows if isinstance(value, (str, int, bool)) else value
            array = pa.array(plain, storage)
        elif field.name in ("attributes", "versions"):
            array = pa.array(["{}"] * rows, storage)
        else:
            array = pa.nulls(rows, storage)
        if storage is not field.type:
            array = pa.ExtensionArray.from_storage(field.type, array)
        arrays.append(array)
    return pa.table(arrays, schema=schema)


def _batch(chance: np.random.Generator, day: int, runs: int) -> tuple[pa.Table, pa.Table]:
    """Lay out the rows and the catalogue of one day."""
    count = runs * EVENTS_A_RUN
    begun = NOON - NOON % DAY - (DAYS - day) * DAY + np.arange(runs) * (DAY // runs)
    run_ids = [f"01M8{start // 1_000_000:012X}{tail}" for start, tail in
               zip(begun.tolist(), _hex(chance, runs, 5), strict=True)]  # fmt: skip
    seq = np.tile(np.arange(EVENTS_A_RUN), runs)
    starts = np.repeat(begun, EVENTS_A_RUN) + seq * 1_000_000
    took = chance.integers(10_000, 900_000, count)
    kinds = np.where(seq == 0, "run", np.where(seq % 5 == 1, "llm_call", "tool_call"))
    nothing = np.full(count, None)
    calls = kinds == "tool_call"
    tools = np.array(_TOOLS)[chance.integers(0, len(_TOOLS), count)]
    failed = calls & (chance.random(count) < 0.05)
    digests = [_hex(chance, count, 32, before="sha256:") for _ in range(2)]
    trace_ids = _hex(chance, runs, 16)
    spans = np.array(_hex(chance, count, 8))
    roots = np.repeat(spans[::EVENTS_A_RUN], EVENTS_A_RUN)
    events = {
        "event_id": SAME, "run_id": np.repeat(run_ids, EVENTS_A_RUN),
        "trace_id": np.repeat(trace_ids, EVENTS_A_RUN), "span_id": spans,
        "parent_span_id": np.where(seq == 0, nothing, roots), "event_type": kinds,
        "writer": f"host-{1000 + day}-{day}", "seq": seq, "ts_start_ns": starts,
        "ts_end_ns": SUM, "latency_ns": took, "actor": np.where(calls, tools, "agent"),
        "actor_kind": np.where(calls, "tool", "agent"), "status": np.where(failed, "error", "ok"),
        "tool_name": np.where(calls, tools, nothing), "effect": np.where(calls, "read", nothing),
        "error_type": np.where(failed, "TimeoutError", nothing), "observation_is_error": failed,
        "argument_digest": digests[0], "argument_blob": SAME, "argument_state": "captured",
        "observation_digest": digests[1], "observation_blob": SAME,
        "observation_state": "captured", "evidence_ids": [[]] * count, "source_format": "tracekit",
        "source_version": "1", "schema_version": 1,
    }  # fmt: skip
    catalogue = {
        "run_id": run_ids, "trace_id": trace_ids, "agent": "agent", "ts_start_ns": begun,
        "ts_end_ns": begun + EVENTS_A_RUN * 1_000_000, "status": "ok", "events": EVENTS_A_RUN,
        "llm_calls": 10, "tool_calls": 39, "errors": 2, "usage_input": 0, "usage_output": 0,
        "writes": 0, "refusals": 0, "tools": [_TOOLS] * runs, "tags": [[]] * runs,
        "source_format": "tracekit",
    }  # fmt: skip
    return _lay_out(EVENTS, events, count), _lay_out(RUNS, catalogue, runs)


def fill(path: Path, runs: int) -> int:
    """Make a store of so many runs, in several batches a day; return the number of its events."""
    open_store(path, create=True)
    folder = open_folder(path, create=False)
    chance = np.random.default_rng(1)
    for day in range(DAYS):
        rows, catalogue = _batch(chance, day, runs // DAYS)
        name = (np.datetime64(NOON, "ns") - np.timedelta64(DAYS - day, "D")).astype("M8[D]")
        write_batch(folder, {f"events/day={name}": rows}, catalogue)
    return runs // DAYS * DAYS * EVENTS_A_RUN


def _took(task: Callable[[], object], *, repeats: int = 7) -> float:
    """Measure the median time of a call in ms, warm."""
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        task()
        times.append((time.perf_counter_ns() - start) / 1e6)
    return median(times)


def _against(store: Store, what: str, query: str) -> Line:
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
        ours.append(_took(lambda: store.sql(mine), repeats=1))
        reference.append(_took(ask_by_hand, repeats=1))
    ratio = median(ours) / median(reference)
    return Line(what, f"{median(ours):.0f} ms; by hand {median(reference):.0f} ms", ratio, 1.5)


def measure(runs: int = RUNS_KEPT) -> list[Line]:
    """Measure compaction, space and four questions; a ratio to a time is to the one aimed at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        events = fill(path, runs)
        start = time.perf_counter()
        open_store(path).compact()
        speed = events / (time.perf_counter() - start)
        size = sum(file.stat().st_size for file in (path / "events").rglob("*.parquet"))
        store = open_store(path)
        some = [row.run_id for row in store.runs()][runs // 3]
        one = _took(lambda: store.events(some))
        last = _took(lambda: store.runs(RunQuery(limit=50)))
        return [
            Line(
                f"compaction of {events:,} events in {DAYS} batches",
                f"{speed:,.0f} events/s", 100_000 / speed, 1.0,
            ),
            Line("an event without payloads", f"{size / events:.0f} B", size / events / 100, 1.0),
            Line("one run by id", f"{one:.1f} ms", one / 15, 1.0),
            Line("the last 50 runs", f"{last:.1f} ms", last / 20, 1.0),
            _against(store, "error rate by tool and day", _ERRORS),
            _against(store, "a tool later followed by another", _FOLLOWED),
        ]  # fmt: skip


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]))))
