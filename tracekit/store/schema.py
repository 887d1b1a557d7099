"""Rows and tables: the stored columns, and the way from an ``Event`` to Parquet and back.

The columns are the fields of the dataclasses, so that a field that is added is a column that is
added. JSON columns carry Parquet's JSON type, and times are integers of nanoseconds. What is
different in every row (ids, digests, times) makes up nearly all of a file: it is written in the
encodings that leave only what chance put into it, and nothing twice (``folding``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import itemgetter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.events import SCHEMA_VERSION, Blob, Event, RunRow
from tracekit.store.folding import folded

ROW_GROUP_ROWS = 8_000
"""Few enough that one run costs one small read, enough that a scan is not all footers."""
BLOB_GROUP_BYTES = 1 << 20
_VALUES_LEVEL = 3
"""Values are alike over long distances: a level more finds what the fastest one misses."""
_ENCODINGS = {
    **dict.fromkeys(("argument_digest", "observation_digest"), "DELTA_BYTE_ARRAY"),
    **dict.fromkeys(("event_id", "span_id"), "DELTA_LENGTH_BYTE_ARRAY"),
    **dict.fromkeys(("ts_start_ns", "ts_end_ns", "latency_ns"), "DELTA_BINARY_PACKED"),
}
_JSON = pa.json_() if hasattr(pa, "json_") else pa.string()
_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "tuple[str, ...]": pa.list_(pa.string()),
}
_BY_NAME: dict[str, pa.DataType] = {
    "schema_version": pa.int16(),
    "call_index": pa.int32(),
    "attempt": pa.int32(),
    **dict.fromkeys(("attributes", "usage_raw", "argument_types", "observation_types"), _JSON),
    **dict.fromkeys(("versions", "fidelity"), _JSON),
}


def _schema(row: type[Event] | type[RunRow]) -> pa.Schema:
    columns = []
    for field in fields(row):
        plain = str(field.type).removesuffix(" | None")
        columns.append((field.name, _BY_NAME.get(field.name) or _TYPES.get(plain, pa.string())))
    return pa.schema(columns, metadata={"tracekit.schema_version": str(SCHEMA_VERSION)})


SPARED = "join_filter_pushdown" if duckdb.__version__.startswith("1.") else ""
"""An optimizer of DuckDB that is not to be used: that of 1.5 fails on tables in memory."""
EVENTS = _schema(Event)
RUNS = _schema(RunRow)
BLOBS = pa.schema(
    [
        ("digest", pa.string()),
        ("media_type", pa.string()),
        ("size", pa.int64()),
        ("bytes", pa.binary()),
    ],
    metadata={"tracekit.schema_version": str(SCHEMA_VERSION)},
)
_EVENT_FIELDS = tuple(field.name for field in fields(Event))
_RUN_FIELDS = tuple(field.name for field in fields(RunRow))


def events_table(rows: Sequence[Event]) -> pa.Table:
    """Make the table of ``rows``, in their order."""
    return _table(rows, _EVENT_FIELDS, EVENTS)


def runs_table(rows: Sequence[RunRow]) -> pa.Table:
    """Make the catalogue table of ``rows``, in their order."""
    return _table(rows, _RUN_FIELDS, RUNS)


def blobs_table(blobs: Iterable[Blob]) -> pa.Table:
    """Make the table of ``blobs``, sorted by digest so that statistics find one."""
    ordered = sorted(blobs, key=itemgetter(0))
    digests, kinds, data = zip(*ordered, strict=True) if ordered else ((), (), ())
    columns = {"digest": digests, "media_type": kinds, "size": [*map(len, data)], "bytes": data}
    return pa.table(
        {name: pa.array(values, BLOBS.field(name).type) for name, values in columns.items()},
        schema=BLOBS,
    )


def _table(
    rows: Sequence[Event] | Sequence[RunRow], names: Sequence[str], schema: pa.Schema
) -> pa.Table:
    columns = []
    for name in names:
        values = [getattr(row, name) for row in rows]
        kind = schema.field(name).type
        if isinstance(kind, pa.BaseExtensionType):
            storage = pa.array(values, pa.string())
            columns.append(pa.ExtensionArray.from_storage(kind, storage))
        else:
            columns.append(pa.array(values, kind))
    return pa.table(columns, schema=schema)


def events_of(table: pa.Table) -> list[Event]:
    """Read rows back; columns that this version does not know are left out."""
    known = _known(table, _EVENT_FIELDS)
    columns = {name: known[name].to_pylist() for name in known.column_names}
    if "evidence_ids" in columns:
        columns["evidence_ids"] = [tuple(cited or ()) for cited in columns["evidence_ids"]]
    rows = zip(*columns.values(), strict=True)
    return [Event(**dict(zip(columns, row, strict=True))) for row in rows]


def runs_of(table: pa.Table) -> list[RunRow]:
    """Read catalogue rows back; columns that this version does not know are left out."""
    lists = ("tools", "tags")
    return [
        RunRow(**row | {name: tuple(row.get(name) or ()) for name in lists})
        for row in _known(table, _RUN_FIELDS).to_pylist()
    ]


def blobs_of(table: pa.Table) -> list[Blob]:
    """Read blobs back, as they are: whether the digest is right is asked by ``verify``."""
    return [
        Blob(digest=row["digest"], media_type=row["media_type"], data=row["bytes"])
        for row in table.to_pylist()
    ]


def _known(table: pa.Table, names: Sequence[str]) -> pa.Table:
    there = {*table.column_names}
    return table.select([name for name in names if name in there])


def write_table(table: pa.Table, path: Path, *, metadata: dict[str, str] | None = None) -> None:
    """Write one Parquet file the way every file of the store is written."""
    if metadata:
        more = {key.encode(): text.encode() for key, text in metadata.items()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **more})
    table = folded(table)
    own = _ENCODINGS if "event_id" in table.column_names else {}
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=_VALUES_LEVEL if "bytes" in table.column_names else None,
        version="2.6",
        row_group_size=_rows_in_group(table),
        write_page_checksum=True,
        column_encoding={name: kind for name, kind in own.items() if name in table.column_names},
        use_dictionary=[
            f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
            for field in table.schema
            if field.name not in own
        ],
    )


def _rows_in_group(table: pa.Table) -> int:
    if "bytes" not in table.column_names or not table.num_rows:
        return ROW_GROUP_ROWS
    average: int = max(1, table.nbytes // table.num_rows)
    return max(1, min(ROW_GROUP_ROWS, BLOB_GROUP_BYTES // average))
