"""Adding a batch: what is new of it goes to files that all appear with one rename."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.errors import StoreError
from tracekit.events import Blob, Event, RunRow
from tracekit.order import in_order
from tracekit.rows import run_row, told_order, without_known_ends
from tracekit.store.blobs import kept_digests
from tracekit.store.folder import Folder, describe, fresh_batch_name, locked, publish
from tracekit.store.paired import NOTHING, Paired, Share
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


def append_locked(folder: Folder, reader: Reader, batch: Written, paired: Paired = NOTHING) -> int:
    """Do what ``append`` does, where the write lock is held already.

    Args:
        folder: The store.
        reader: Reads it.
        batch: What is to be kept.
        paired: More rows of the same batch.

    Raises:
        OSError: it could not be written; nothing of it is kept.
    """
    snapshot = reader.snapshot()
    run_ids = {event.run_id for event in batch.events}.union(paired.runs[0])
    kept = _kept(reader, snapshot, run_ids)
    fresh, rows, paired = _fresh(batch.events, paired, kept)
    offered = {blob.digest: blob for blob in batch.blobs}
    for digest in kept_digests(reader, snapshot, offered) if snapshot.batches else ():
        del offered[digest]
    if not fresh and not len(paired) and not offered:
        return 0
    describe(folder)
    write_batch(folder, by_day(fresh, rows, offered.values(), paired), runs_table(rows))
    return len(fresh) + len(paired)


def _fresh(
    events: Sequence[Event], paired: Paired, kept: Mapping[str, dict[str, Event]]
) -> tuple[list[Event], list[RunRow], Paired]:
    """Find the rows that are not kept yet, and sum up their runs.

    Of a run that is not plain every row is looked at: one of which some rows are kept already, or
    that several processes wrote.
    """
    shares = paired.shares()
    beside: dict[str, list[Event]] = {run_id: [] for run_id in shares}
    others: list[Event] = []
    for event in events:
        beside.get(event.run_id, others).append(event)
    odd = kept.keys() & shares.keys()
    odd.update(one for one, share in shares.items() if _writers(share, beside[one]) > 1)
    rest, paired = paired.of_runs(odd)
    scattered = [*rest.events(), *(event for run_id in odd for event in beside[run_id])]
    fresh, rows = new_rows([*others, *sorted(scattered, key=told_order)], lambda _: kept)
    for run_id in shares.keys() - odd:
        heads = [*beside[run_id], *shares[run_id].heads]
        rows.append(run_row(in_order(heads), more=shares[run_id].totals))
        fresh += beside[run_id]
    fresh.sort(key=lambda event: (event.run_id, event.seq, event.writer))
    rows.sort(key=lambda row: row.run_id)
    return fresh, rows, paired


def _writers(share: Share, beside: Iterable[Event]) -> int:
    return len(share.writers.union(event.writer for event in beside))


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
    events: Sequence[Event],
    rows: Sequence[RunRow],
    blobs: Iterable[Blob],
    paired: Paired = NOTHING,
) -> dict[str, pa.Table]:
    """Lay out new rows and blobs as tables, by the folder they go to.

    A run's rows stand together, under the day on which it began; so do values with the first run
    that names them.
    """
    days = {row.run_id: day_of(row.ts_start_ns) for row in rows}
    tables = _blobs_by_day(blobs, days, events, paired)
    events_by_day: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        events_by_day[days[event.run_id]].append(event)
    for day in sorted(set(days.values())):
        of_day = NOTHING
        if len(paired):
            of_day, _ = paired.of_runs({run_id for run_id, its in days.items() if its == day})
        tables[f"events/day={day}"] = _together(events_by_day[day], of_day)
    return tables


def _blobs_by_day(
    blobs: Iterable[Blob], days: Mapping[str, str], events: Sequence[Event], paired: Paired
) -> dict[str, pa.Table]:
    other = min(days.values(), default=UNDATED)
    blobs_by_day: defaultdict[str, list[Blob]] = defaultdict(list)
    if len(set(days.values())) <= 1:
        blobs_by_day[other] = list(blobs)
    else:
        day_of_blob: dict[str | None, str] = {}
        every = [*events, *paired.events()]
        for event in sorted(every, key=lambda event: (event.run_id, event.seq, event.writer)):
            for digest in (event.argument_blob, event.observation_blob, event.contract):
                day_of_blob.setdefault(digest, days[event.run_id])
        for blob in blobs:
            blobs_by_day[day_of_blob.get(blob.digest, other)].append(blob)
    return {f"blobs/day={day}": blobs_table(group) for day, group in blobs_by_day.items() if group}


def _together(events: Sequence[Event], paired: Paired) -> pa.Table:
    """Make one table, by run and number; ``events`` are in that order already."""
    if not len(paired):
        return events_table(events)
    ids, codes = paired.runs
    every = sorted({*ids, *(event.run_id for event in events)})
    rank = {run_id: place for place, run_id in enumerate(every)}
    run = [np.array([rank[one] for one in ids], np.intp)[codes]]
    run.append(np.array([rank[event.run_id] for event in events], np.intp))
    seq = [paired.numbers["seq"], np.array([event.seq for event in events], np.int64)]
    order = np.lexsort((np.concatenate(seq), np.concatenate(run)))
    return paired.table(events, order)


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
