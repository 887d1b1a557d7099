"""What is not kept twice: columns that follow from others of their row, folded in the files.

Nearly all of a row is what chance put into it, so each value of that kind stands there once: a
blob's digest may be the value's, an end is the begin and the duration, and an id is the digest of
other columns. A mark stands for what follows, row by row; a value that does not follow stands as it
is. Files of an earlier version, which hold all values, read the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.canonical import digest_bytes

SAME = "="
"""Stands for a text that follows from the other columns of its row."""
SUM = -(2**63) + 1
"""Stands for an end that is the begin and the duration; no clock shows it."""
BLOB_OF = {"argument_blob": "argument_digest", "observation_blob": "observation_digest"}
_NAMES = ("source_format", "trace_id", "span_id", "event_type", "seq")
"""What an event's id is made of: see ``events.event_id``."""
_NEEDS: dict[str, tuple[str, ...]] = {
    **{name: (twin,) for name, twin in BLOB_OF.items()},
    "ts_end_ns": ("ts_start_ns", "latency_ns"),
    "event_id": _NAMES,
}
_HEX = slice(len("sha256:"), len("sha256:") + 32)
_BEFORE = 'tracekit/event/v1\n["'
UNFOLDED_SQL = f"""
    CASE argument_blob WHEN '{SAME}' THEN argument_digest ELSE argument_blob END AS argument_blob,
    CASE observation_blob WHEN '{SAME}' THEN observation_digest ELSE observation_blob END
        AS observation_blob,
    CASE ts_end_ns WHEN {SUM} THEN ts_start_ns + latency_ns ELSE ts_end_ns END AS ts_end_ns,
    CASE event_id WHEN '{SAME}' THEN left(sha256('tracekit/event/v1' || chr(10) || '["' ||
        concat_ws('","', source_format, trace_id, span_id, event_type) || '",' || seq || ']'), 32)
        ELSE event_id END AS event_id
"""
"""The same in SQL, for a ``SELECT * REPLACE`` over the files."""


def folded(table: pa.Table) -> pa.Table:
    """Put marks for what follows from other columns; what is folded already stays so."""
    for name, twin in BLOB_OF.items():
        if {name, twin} <= {*table.column_names}:
            table = _put(table, name, pc.equal(table[name], table[twin]), SAME)
    if {"ts_end_ns", *_NEEDS["ts_end_ns"]} <= {*table.column_names}:
        end = pc.add(table["ts_start_ns"], table["latency_ns"])
        table = _put(table, "ts_end_ns", pc.equal(table["ts_end_ns"], end), SUM)
    if {"event_id", *_NAMES} <= {*table.column_names}:
        ids = _event_ids(table, pc.not_equal(table["event_id"], SAME))
        table = _put(table, "event_id", pc.equal(table["event_id"], ids), SAME)
    return table


def unfolded(table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """Give what the marks stand for, and of all columns those that were asked for."""
    for name, twin in BLOB_OF.items():
        if name in table.column_names:
            table = _put(table, name, pc.equal(table[name], SAME), table[twin])
    if "ts_end_ns" in table.column_names and "latency_ns" in table.column_names:
        end = pc.add(table["ts_start_ns"], table["latency_ns"])
        table = _put(table, "ts_end_ns", pc.equal(table["ts_end_ns"], SUM), end)
    if "event_id" in table.column_names:
        follows = pc.equal(table["event_id"], SAME)
        table = _put(table, "event_id", follows, _event_ids(table, follows))
    if columns is None:
        return table
    there = {*table.column_names}
    return table.select([name for name in columns if name in there])


def with_twins(columns: Sequence[str] | None) -> list[str] | None:
    """Name what has to be read of a file to give ``columns``."""
    if columns is None:
        return None
    twins = (twin for name in columns for twin in _NEEDS.get(name, ()))
    return list(dict.fromkeys([*columns, *twins]))


def _put(
    table: pa.Table, name: str, where: pa.ChunkedArray, value: pa.ChunkedArray | str | int
) -> pa.Table:
    """Put ``value`` into a column, in the rows where ``where`` is true."""
    chosen = pc.fill_null(where, fill_value=False)
    if not pc.any(chosen).as_py():
        return table
    place = table.column_names.index(name)
    kind = table.schema.field(name)
    return table.set_column(place, kind, pc.if_else(chosen, value, table[name]).cast(kind.type))


def _event_ids(table: pa.Table, where: pa.ChunkedArray) -> pa.ChunkedArray:
    """Compute the ids of the events in some rows; null in all others, and where a part is null."""
    places = np.flatnonzero(pc.fill_null(where, fill_value=False))
    if not len(places):
        return pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
    ids = np.full(table.num_rows, None, object)
    part = table.select(_NAMES)
    *texts, number = (part if len(places) == len(ids) else part.take(places)).columns
    parts = pc.binary_join_element_wise(*texts, '","')
    ended = pc.binary_join_element_wise(_BEFORE, parts, '",', number.cast(pa.string()), "]", "")
    ids[places] = [
        None if line is None else digest_bytes(line.encode())[_HEX] for line in ended.to_pylist()
    ]
    return pa.chunked_array([pa.array(ids, pa.string())])
