"""A store of any size, laid out straight as tables, so that the store is measured and no recorder.

Its files are those that the product makes: written by its own writer in many batches a day, of
rows as a recorder's come in (50 to a run: the run, ten model calls, tool calls), and compacted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.store.made import DAY, NOON
from tracekit.store import open_store
from tracekit.store.appending import write_batch
from tracekit.store.folder import open_folder
from tracekit.store.folding import SAME, SUM
from tracekit.store.schema import EVENTS, RUNS

EVENTS_A_RUN, DAYS = 50, 30
TOOLS = [f"tool.{number}" for number in range(20)]


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


def batch(
    chance: np.random.Generator, day: int, runs: int, *, part: int = 0, parts: int = 1
) -> tuple[pa.Table, pa.Table]:
    """Lay out the rows and the catalogue of one part of a day."""
    count = runs * EVENTS_A_RUN
    midnight = NOON - NOON % DAY - (DAYS - day) * DAY
    begun = midnight + part * (DAY // parts) + np.arange(runs) * (DAY // (runs * parts))
    run_ids = [f"01M8{start // 1_000_000:012X}{tail}" for start, tail in
               zip(begun.tolist(), _hex(chance, runs, 5), strict=True)]  # fmt: skip
    seq = np.tile(np.arange(EVENTS_A_RUN), runs)
    starts = np.repeat(begun, EVENTS_A_RUN) + seq * 1_000_000
    took = chance.integers(10_000, 900_000, count)
    kinds = np.where(seq == 0, "run", np.where(seq % 5 == 1, "llm_call", "tool_call"))
    nothing = np.full(count, None)
    calls = kinds == "tool_call"
    tools = np.array(TOOLS)[chance.integers(0, len(TOOLS), count)]
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
        "writes": 0, "refusals": 0, "tools": [TOOLS] * runs, "tags": [[]] * runs,
        "source_format": "tracekit",
    }  # fmt: skip
    return _lay_out(EVENTS, events, count), _lay_out(RUNS, catalogue, runs)


def fill(path: Path, runs: int, *, parts: int = 1) -> int:
    """Make a store of so many runs, in so many batches a day; return the number of its events."""
    open_store(path, create=True)
    folder = open_folder(path, create=False)
    chance = np.random.default_rng(1)
    size = runs // (DAYS * parts)
    for day in range(DAYS):
        for part in range(parts):
            rows, catalogue = batch(chance, day, size, part=part, parts=parts)
            write_batch(folder, {f"events/day={day_named(day)}": rows}, catalogue)
    return size * parts * DAYS * EVENTS_A_RUN


def day_named(day: int) -> str:
    """Name a day as the store's folders do."""
    noon = np.datetime64(NOON, "ns") - np.timedelta64(DAYS - day, "D")
    return str(noon.astype("M8[D]"))
