"""Joining small batches to big ones, and removing what writers that were killed left behind.

A joined batch names those it replaces, so that its commit and their retirement are one rename.
Their files are removed after that, catalogue file last; a reader that meets a gap looks again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracekit.errors import StoreError
from tracekit.store.appending import write_batch
from tracekit.store.folder import TEMPORARY, Folder, locked
from tracekit.store.reading import CommittedBatch, Reader, Snapshot, catalogue
from tracekit.store.types import Compacted

SMALL_ROWS = 200_000
"""A batch with fewer rows is joined with others."""
GROUP_ROWS = 1_000_000
GROUP_BYTES = 256 << 20
"""A joined batch is made in memory: no more than so many rows, and bytes on disk."""


def compact(folder: Folder) -> Compacted:
    """Join small batches and remove left-overs.

    Raises:
        StoreError: the store cannot be written; every row is still there.
    """
    try:
        with locked(folder):
            removed = _clean(folder, Reader(folder).snapshot())
            reader = Reader(folder)
            before = reader.snapshot()
            for group in _groups(folder, before):
                _join(folder, reader, group)
            after = Reader(folder).snapshot()
            removed += _clean(folder, after)
            return Compacted(len(before.batches), len(after.batches), removed)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"{folder.path} could not be compacted: {reason}", hint="no row was lost"
        ) from error


def _groups(folder: Folder, snapshot: Snapshot) -> list[list[CommittedBatch]]:
    groups: list[list[CommittedBatch]] = []
    group: list[CommittedBatch] = []
    rows = size = 0
    for batch in snapshot.batches:
        count = sum(batch.manifest.files[path] for path in batch.files("events"))
        weight = sum(
            path.stat().st_size
            for name in batch.manifest.files
            if (path := folder.path / name).exists()
        )
        if count >= SMALL_ROWS or weight >= GROUP_BYTES:
            continue
        if group and (rows + count > GROUP_ROWS or size + weight > GROUP_BYTES):
            groups.append(group)
            group, rows, size = [], 0, 0
        group.append(batch)
        rows += count
        size += weight
    return [group for group in (*groups, group) if len(group) > 1]


def _join(folder: Folder, reader: Reader, group: list[CommittedBatch]) -> None:
    """Write one batch in place of ``group``; a batch with damage is left as it is."""
    parts: dict[str, list[pa.Table]] = {}
    joined: list[CommittedBatch] = []
    for batch in group:
        tables = _whole(reader, batch)
        if tables is None:
            continue
        joined.append(batch)
        for place, table in tables:
            parts.setdefault(place, []).append(table)
    if len(joined) < 2:
        return
    tables_by_place = {place: _sorted(place, tables) for place, tables in sorted(parts.items())}
    write_batch(
        folder,
        tables_by_place,
        catalogue(Snapshot(tuple(joined))),
        replaces=[batch.name for batch in joined],
    )


def _whole(reader: Reader, batch: CommittedBatch) -> list[tuple[str, pa.Table]] | None:
    if any(place == f"runs/{batch.name}.parquet" for place, _ in reader.found):
        return None
    tables: list[tuple[str, pa.Table]] = []
    for path, rows in batch.manifest.files.items():
        read = list(reader.tables(path, rows=rows))
        if sum(table.num_rows for table in read) != rows:
            return None
        tables += [(path.rpartition("/")[0], table) for table in read]
    return tables


def _sorted(place: str, tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables, promote_options="default")
    if place.startswith("events/"):
        return table.take(
            pc.sort_indices(table, sort_keys=[("run_id", "ascending"), ("seq", "ascending")])
        )
    order = pc.sort_indices(table["digest"])
    table = table.take(order)
    digests = table["digest"].to_pylist()
    first = [place for place, one in enumerate(digests) if not place or one != digests[place - 1]]
    return table if len(first) == len(digests) else table.take(pa.array(first, pa.int64()))


def _clean(folder: Folder, snapshot: Snapshot) -> int:
    """Remove files that belong to no batch; call it under the write lock only."""
    kept = {batch.name for batch in snapshot.batches}
    gone: list[Path] = []
    for pattern in ("events/*/*", "blobs/*/*", "runs/*", "*"):
        for path in folder.path.glob(pattern):
            stray = path.suffix == ".parquet" and path.stem not in kept
            if path.is_file() and (path.name.endswith(TEMPORARY) or stray):
                gone.append(path)
    for path in gone:
        path.unlink(missing_ok=True)
    for pattern in ("events/day=*", "blobs/day=*"):
        for day in folder.path.glob(pattern):
            with suppress(OSError):  # it is not empty
                day.rmdir()
    return len(gone)
