"""Adding a batch: what is new of it goes to files that all appear with one rename."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa

from tracekit.errors import StoreError
from tracekit.events import Blob, Event, RunRow
from tracekit.order import in_order
from tracekit.rows import run_row, without_known_ends
from tracekit.store.blobs import kept_digests
from tracekit.store.folder import Folder, describe, fresh_batch_name, locked, publish
from tracekit.store.reading import Manifest, Reader, Snapshot
from tracekit.store.schema import blobs_table, events_of, events_table, runs_table, write_table
from tracekit.store.types import Written

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNDATED = "undated"


def append(folder: Folder, reader: Reader, batch: Written) -> int:
    """Keep what is new in ``batch``; return the number of new rows.

    Raises:
        StoreError: it could not be written; nothing of it is kept.
    """
    try:
        with locked(folder):
            return append_locked(folder, reader, batch)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"{folder.path} could not be written: {reason}", hint="nothing of this batch was kept"
        ) from error


def append_locked(folder: Folder, reader: Reader, batch: Written) -> int:
    """Do what ``append`` does, where the write lock is held already.

    Raises:
        OSError: it could not be written; nothing of it is kept.
    """
    snapshot = reader.snapshot()
    fresh, rows = new_rows(batch.events, lambda run_ids: _kept(reader, snapshot, run_ids))
    offered = {blob.digest: blob for blob in batch.blobs}
    for digest in kept_digests(reader, snapshot, offered):
        del offered[digest]
    if not fresh and not offered:
        return 0
    describe(folder)
    write_batch(folder, by_day(fresh, rows, offered.values()), runs_table(rows))
    return len(fresh)


def new_rows(
    events: Sequence[Event], kept_of: Callable[[Iterable[str]], Mapping[str, dict[str, Event]]]
) -> tuple[list[Event], list[RunRow]]:
    """Find the rows that are not kept yet, and sum up their runs with all that is kept of them.

    Args:
        events: What is offered.
        kept_of: Gives what is kept of some runs: by run, then by ``event_id``.
    """
    offered: defaultdict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        offered[event.run_id].setdefault(event.event_id, event)
    kept = kept_of(offered)
    fresh: list[Event] = []
    rows: list[RunRow] = []
    for run_id in sorted(offered):
        before = kept.get(run_id, {})
        new = without_known_ends(
            (event for key, event in offered[run_id].items() if key not in before), before.values()
        )
        if new:
            fresh += sorted(new, key=lambda event: (event.seq, event.writer))
            rows.append(run_row(in_order([*before.values(), *new])))
    return fresh, rows


def _kept(
    reader: Reader, snapshot: Snapshot, run_ids: Iterable[str]
) -> dict[str, dict[str, Event]]:
    wanted = sorted(run_ids)
    batches = snapshot.batches_of(*wanted)
    table = reader.events(batches, wanted) if batches else None
    return by_run(events_of(table) if table is not None else ())


def by_run(events: Iterable[Event]) -> dict[str, dict[str, Event]]:
    """Group rows by run, then by ``event_id``."""
    grouped: defaultdict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        grouped[event.run_id][event.event_id] = event
    return grouped


def by_day(
    events: Sequence[Event], rows: Sequence[RunRow], blobs: Iterable[Blob]
) -> dict[str, pa.Table]:
    """Lay out new rows and blobs as tables, by the folder they go to.

    A run's rows stand together, under the day on which it began; so do values with the first run
    that names them.
    """
    days = {row.run_id: day_of(row.ts_start_ns) for row in rows}
    events_by_day: defaultdict[str, list[Event]] = defaultdict(list)
    day_of_blob: dict[str | None, str] = {}
    for event in events:
        day = days[event.run_id]
        events_by_day[day].append(event)
        for digest in (event.argument_blob, event.observation_blob, event.contract):
            day_of_blob.setdefault(digest, day)
    other = min(events_by_day, default=UNDATED)
    blobs_by_day: defaultdict[str, list[Blob]] = defaultdict(list)
    for blob in blobs:
        blobs_by_day[day_of_blob.get(blob.digest, other)].append(blob)
    tables = {f"blobs/day={day}": blobs_table(group) for day, group in blobs_by_day.items()}
    tables |= {f"events/day={day}": events_table(group) for day, group in events_by_day.items()}
    return tables


def write_batch(
    folder: Folder,
    tables: dict[str, pa.Table],
    catalogue: pa.Table,
    *,
    replaces: Sequence[str] = (),
) -> str:
    """Write a batch; it is there when its catalogue file, the last one, is renamed.

    Raises:
        OSError: it could not be written; nothing of it is kept.
    """
    name = fresh_batch_name(folder)
    files = {f"{place}/{name}.parquet": table for place, table in tables.items()}
    manifest = Manifest({path: table.num_rows for path, table in files.items()}, tuple(replaces))
    writes: list[tuple[Path, Callable[[Path], None]]] = [
        (folder.path / path, partial(write_table, table)) for path, table in files.items()
    ]
    commit = partial(write_table, catalogue, metadata=manifest.as_metadata())
    publish([*writes, (folder.runs / f"{name}.parquet", commit)])
    return name


def day_of(time_ns: int | None) -> str:
    """Name the UTC day of a time."""
    if time_ns is None:
        return UNDATED
    try:
        return (_EPOCH + timedelta(microseconds=time_ns // 1000)).date().isoformat()
    except OverflowError:
        return UNDATED
