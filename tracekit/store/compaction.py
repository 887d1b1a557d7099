"""Joining small batches to big ones, and removing what writers that were killed left behind.

A joined batch names those it replaces, so that its commit and their retirement are one rename.
Their files are removed after that, catalogue file last; a reader that meets a gap looks again. A
file of no batch is removed only if all it holds is kept: a killed writer leaves such files, but so
does whoever loses a catalogue file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracekit.errors import StoreError
from tracekit.store.appending import write_batch
from tracekit.store.blobs import kept_digests
from tracekit.store.folder import TEMPORARY, Folder, locked
from tracekit.store.folding import unfolded
from tracekit.store.reading import UNREADABLE, CommittedBatch, Reader, Snapshot, catalogue
from tracekit.store.types import Compacted

SMALL_ROWS = 200_000
"""A batch with fewer rows is joined with others."""
GROUP_ROWS = 500_000
GROUP_BYTES = 256 << 20
"""A joined batch is made in memory: no more than so many rows, and bytes on disk."""


def compact(folder: Folder) -> Compacted:
    """Join small batches and remove left-overs.

    Raises:
        StoreError: the store cannot be written; every row is still there.
    """
    try:
        with locked(folder):
            removed = clean(folder)
            reader = Reader(folder)
            before = reader.snapshot()
            for group in _groups(folder, before):
                _join(folder, reader, group)
            removed += clean(folder)
            after = Reader(folder).snapshot()
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
    tables_by_place = {place: one_table(place, tables) for place, tables in sorted(parts.items())}
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
        read = list(reader.tables(path, rows=rows, as_kept=True))
        if sum(table.num_rows for table in read) != rows:
            return None
        tables += [(path.rpartition("/")[0], table) for table in read]
    return tables


def one_table(place: str, tables: list[pa.Table]) -> pa.Table:
    """Join what is to stand in one file, in its order; a value that stands twice counts once."""
    table = pa.concat_tables(tables, promote_options="default")
    if place.startswith("events/"):
        return _in_order(table, "run_id", "seq")
    table = _in_order(table, "digest")
    digests = table["digest"].to_pylist()
    first = [place for place, one in enumerate(digests) if not place or one != digests[place - 1]]
    return table if len(first) == len(digests) else table.take(pa.array(first, pa.int64()))


def _in_order(table: pa.Table, *names: str) -> pa.Table:
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    if order.equals(pa.array(np.arange(table.num_rows, dtype=np.uint64))):
        return table
    return table.take(order)


def clean(folder: Folder) -> int:
    """Remove files that nobody needs; call it under the write lock only."""
    reader = Reader(folder)
    snapshot = reader.snapshot()
    gone = [path for path in _strays(folder, snapshot) if _needless(reader, snapshot, path)]
    for path in gone:
        path.unlink(missing_ok=True)
    for pattern in ("events/day=*", "blobs/day=*"):
        for day in folder.path.glob(pattern):
            with suppress(OSError):  # it is not empty
                day.rmdir()
    return len(gone)


def _strays(folder: Folder, snapshot: Snapshot) -> list[Path]:
    """List the files that belong to no batch."""
    kept = {batch.name for batch in snapshot.batches}
    return [
        path
        for pattern in ("events/*/*", "blobs/*/*", "runs/*", "*")
        for path in folder.path.glob(pattern)
        if path.is_file()
        and (path.name.endswith(TEMPORARY) or (path.suffix == ".parquet" and path.stem not in kept))
    ]


def _needless(reader: Reader, snapshot: Snapshot, path: Path) -> bool:
    """Tell whether a stray was never finished, was replaced, or holds only what is kept."""
    if path.name.endswith(TEMPORARY) or path.stem in snapshot.retired:
        return True
    try:
        table = unfolded(pq.read_table(path, partitioning=None))
        if "digest" in table.column_names:
            digests = set(table["digest"].to_pylist())
            return digests == kept_digests(reader, snapshot, digests)
        kept = reader.events(snapshot.batches, table["run_id"].to_pylist())
        ids = set(kept["event_id"].to_pylist()) if kept is not None else set()
        return ids.issuperset(table["event_id"].to_pylist())
    except (*UNREADABLE, KeyError):
        return False


def orphans(folder: Folder) -> list[tuple[str, str]]:
    """Name files with rows that are nowhere else and that no batch owns, and what each lacks."""
    if not (folder.path / "lock").exists():  # nobody writes, and who looks makes nothing
        return _orphans(folder)
    try:
        with locked(folder, wait=False) as held:  # a batch that is just written is no orphan
            return _orphans(folder) if held else []
    except OSError:  # nobody can write here
        return _orphans(folder)


def _orphans(folder: Folder) -> list[tuple[str, str]]:
    reader = Reader(folder)
    snapshot = reader.snapshot()
    return [
        (folder.relative(path), f"runs/{path.name}")
        for path in sorted(_strays(folder, snapshot))
        if not _needless(reader, snapshot, path)
    ]
