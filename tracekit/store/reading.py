"""Reading committed batches, damage included: the rest is read, the loss is counted and named.

A *snapshot* is what was committed at one moment. Its files never change, so what was read of them
may be kept; a file that vanishes was retired by a compaction, and a new snapshot has its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracekit.canonical import json_text, parse_json
from tracekit.numerals import counted
from tracekit.rows import run_row
from tracekit.store.folder import Folder
from tracekit.store.folding import unfolded, with_twins
from tracekit.store.schema import events_of, runs_of, runs_table
from tracekit.store.types import Problem, RunQuery

MANIFEST = "tracekit.manifest"
UNREADABLE = (pa.ArrowException, OSError, ValueError)


class Retired(Exception):
    """A file of the snapshot is gone, because its batch was retired meanwhile."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a batch consists of."""

    files: Mapping[str, int]
    """Path relative to the store → number of rows."""
    replaces: tuple[str, ...] = ()
    """Batches whose rows this one holds; they count no more."""

    def as_metadata(self) -> dict[str, str]:
        """Give the manifest as the metadata of the batch's catalogue file."""
        return {MANIFEST: json_text({"files": dict(self.files), "replaces": list(self.replaces)})}


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One batch, and its part of the catalogue."""

    name: str
    manifest: Manifest
    catalogue: pa.Table

    def files(self, kind: str) -> list[str]:
        """Name its files of one kind, ``events`` or ``blobs``, relative to the store."""
        return [path for path in self.manifest.files if path.startswith(f"{kind}/")]


@dataclass(frozen=True)
class Snapshot:
    """What was committed at one moment, oldest batch first."""

    batches: tuple[CommittedBatch, ...]
    retired: tuple[str, ...] = ()
    """Batches that were replaced and whose files are still there."""

    def files(self, kind: str) -> list[str]:
        """Name all files of one kind, relative to the store."""
        return [path for batch in self.batches for path in batch.files(kind)]

    def batches_of(self, *run_ids: str) -> list[CommittedBatch]:
        """Find the batches that hold rows of any of some runs."""
        if not self.batches:
            return []
        ids, ends = self._run_ids
        rows = np.flatnonzero(pc.is_in(ids, pa.array(run_ids, pa.string())))
        return [self.batches[place] for place in np.unique(np.searchsorted(ends, rows, "right"))]

    @cached_property
    def _run_ids(self) -> tuple[pa.Array, np.ndarray]:
        """The runs of all batches in one array, and where in it each batch ends.

        Asked batch by batch, thousands of small ones cost more than what they hold.
        """
        columns = [batch.catalogue["run_id"] for batch in self.batches]
        chunks = [chunk for column in columns for chunk in column.chunks]
        ids = pa.chunked_array(chunks, pa.string()).combine_chunks()
        return ids, np.cumsum([len(column) for column in columns])


@dataclass
class Reader:
    """Reads the files of one folder and remembers what it could not read."""

    folder: Folder
    found: dict[tuple[str, int], tuple[str, int | str]] = field(default_factory=dict)
    """Damage: file and row group (-1: the whole file) → what it is, and rows lost by it."""
    _batches: dict[str, CommittedBatch] = field(default_factory=dict)
    _footers: dict[str, pq.FileMetaData] = field(default_factory=dict)
    _snapshot: tuple[tuple[str, ...], Snapshot] | None = None

    def snapshot(self) -> Snapshot:
        """Find out what is committed now."""
        while True:
            names = self._names()
            if self._snapshot is not None and self._snapshot[0] == names:
                return self._snapshot[1]
            try:
                batches = [self._batch(name) for name in names]
            except Retired:
                continue
            replaced = {name for batch in batches for name in batch.manifest.replaces}
            snapshot = Snapshot(
                tuple(batch for batch in batches if batch.name not in replaced),
                tuple(name for name in names if name in replaced),
            )
            self._snapshot = (names, snapshot)
            self._batches = {name: self._batches[name] for name in names}
            kept = set(snapshot.files("events")) | set(snapshot.files("blobs"))
            self._footers = {path: one for path, one in self._footers.items() if path in kept}
            return snapshot

    def _names(self) -> tuple[str, ...]:
        try:
            with os.scandir(self.folder.runs) as entries:
                names = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return ()
        ends = ".parquet"
        return tuple(
            sorted(name[: -len(ends)] for name in names if name[0] != "." and name.endswith(ends))
        )

    def _batch(self, name: str) -> CommittedBatch:
        if name not in self._batches:
            path = self.folder.runs / f"{name}.parquet"
            try:
                if path.is_dir():
                    raise KeyError(MANIFEST)
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    table = file.read(use_threads=False)
                metadata = table.schema.metadata or {}
                fields: Any = parse_json(metadata[MANIFEST.encode()])
                manifest = Manifest(dict(fields["files"]), tuple(fields["replaces"]))
                # The manifest is this batch's alone: a table made of several must not inherit it.
                plain = table.replace_schema_metadata(None)
                self._batches[name] = CommittedBatch(name, manifest, plain)
            except FileNotFoundError as error:
                if name not in self._names():
                    raise Retired from error
                self._batches[name] = self._rebuilt(name, error)
            except (*UNREADABLE, KeyError) as error:
                self._batches[name] = self._rebuilt(name, error)
        return self._batches[name]

    def _rebuilt(self, name: str, error: Exception) -> CommittedBatch:
        """Make the catalogue of a batch from its events, where its own file is damaged."""
        root = self.folder.path
        found = [
            *root.glob(f"events/*/{name}.parquet"),
            *root.glob(f"blobs/*/{name}.parquet"),
        ]
        files = {self.folder.relative(path): -1 for path in sorted(found)}
        by_run: dict[str, list[Any]] = {}
        for path in files:
            if path.startswith("events/"):
                for table in self.tables(path, rows=-1):
                    for event in events_of(table):
                        by_run.setdefault(event.run_id, []).append(event)
        table = runs_table([run_row(rows) for rows in by_run.values()])
        lost = f"nothing that was found; its catalogue of {counted(len(by_run), 'run')} was rebuilt"
        self.note(f"runs/{name}.parquet", error, lost)
        return CommittedBatch(name, Manifest(files), table)

    def tables(
        self,
        path: str,
        *,
        rows: int,
        columns: Sequence[str] | None = None,
        within: tuple[str, Sequence[str]] | None = None,
        as_kept: bool = False,
    ) -> Iterator[pa.Table]:
        """Yield the row groups of a file, without those that are damaged.

        Args:
            path: Relative to the store.
            rows: How many rows it should have, to count a loss; -1 where that is not known.
            columns: What to read; everything by default.
            within: A sorted column and values: row groups that can hold none are passed over.
            as_kept: Leave folded what is folded in the file.

        Raises:
            Retired: the file is gone, and what is committed has changed.
        """
        full, known = self.folder.path / path, self._footers.get(path)
        if known is not None and not _groups(known, within):
            return
        try:
            with pq.ParquetFile(full, metadata=known, page_checksum_verification=True) as file:
                self._footers[path] = file.metadata
                for number in _groups(file.metadata, within):
                    try:
                        table = file.read_row_group(number, columns=with_twins(columns))
                        yield table if as_kept else unfolded(table, columns)
                    except UNREADABLE as error:
                        lost = file.metadata.row_group(number).num_rows
                        self.note(path, error, lost, group=number)
        except FileNotFoundError as error:
            if self._snapshot is not None and self._snapshot[0] != self._names():
                raise Retired from error
            self.note(path, error, rows if rows >= 0 else "all its rows")
        except UNREADABLE as error:
            self.note(path, error, rows if rows >= 0 else "all its rows")

    def sound(self, path: str, *, rows: int) -> bool:
        """Tell whether a file has no damage that is known, or that its footer shows."""
        if any(place == path for place, _ in self.found):
            return False
        if path not in self._footers:
            # No columns: the footer is read, and nothing else.
            list(self.tables(path, rows=rows, columns=[]))
        return all(place != path for place, _ in self.found)

    def alike(self, paths: Sequence[str], schema: pa.Schema) -> bool:
        """Tell whether files, known to be sound, have the same columns and all of ``schema``."""
        first, *others = (self._footers[path].schema for path in paths)
        names = {first.column(place).path.partition(".")[0] for place in range(len(first))}
        return names.issuperset(schema.names) and all(first.equals(other) for other in others)

    def events(self, batches: Iterable[CommittedBatch], run_ids: Sequence[str]) -> pa.Table | None:
        """Read the rows of some runs from ``batches``; None where there are none."""
        wanted = pa.array(sorted(run_ids), pa.string())
        within = ("run_id", sorted(run_ids))
        parts = [
            part
            for batch in batches
            for path in batch.files("events")
            for table in self.tables(
                path, rows=batch.manifest.files[path], within=within, as_kept=True
            )
            if (part := table.filter(pc.is_in(table["run_id"], wanted))).num_rows
        ]
        return unfolded(pa.concat_tables(parts, promote_options="default")) if parts else None

    def note(self, path: str, error: Exception, lost: int | str, *, group: int = -1) -> None:
        """Remember that something could not be read, once."""
        missing = isinstance(error, FileNotFoundError)
        what = "it is missing" if missing else f"it cannot be read ({_reason(error)})"
        self.found[path, group] = (what, lost)

    @property
    def problems(self) -> list[Problem]:
        """List the damage met so far, a file a line."""
        lines: dict[str, tuple[str, int | str]] = {}
        for (path, _), (what, lost) in sorted(self.found.items()):
            first, before = lines.get(path, (what, 0))
            both = isinstance(before, int) and isinstance(lost, int)
            lines[path] = (first, before + lost if both else lost)  # type: ignore[operator]  # both are int
        return [
            Problem(path, what, f"{lost} rows" if isinstance(lost, int) else lost)
            for path, (what, lost) in lines.items()
        ]


def catalogue(snapshot: Snapshot) -> pa.Table:
    """Join the catalogue of all batches: one row a run, newest first.

    A run that came in several batches has a row in each, and each sums up all that came before: the
    one that counts most events is the newest.
    """
    tables = [batch.catalogue for batch in snapshot.batches]
    if not tables:
        return runs_table([])
    table = pa.concat_tables(tables, promote_options="default")
    if pc.count_distinct(table["run_id"]).as_py() < table.num_rows:
        best: dict[str, tuple[int, int]] = {}
        for place, (run_id, count) in enumerate(
            zip(table["run_id"].to_pylist(), table["events"].to_pylist(), strict=True)
        ):
            best[run_id] = max(best.get(run_id, (0, -1)), (count, place))
        table = table.take(pa.array([place for _, place in best.values()], pa.int64()))
    order = pc.sort_indices(
        table,
        sort_keys=[("ts_start_ns", "descending"), ("run_id", "descending")],
    )
    return table.take(order)


def without_runs(table: pa.Table, run_ids: Sequence[str]) -> pa.Table:
    """Leave the rows of some runs out."""
    if not run_ids:
        return table
    return table.filter(pc.invert(pc.is_in(table["run_id"], pa.array(run_ids, pa.string()))))


def narrowed(table: pa.Table, query: RunQuery) -> pa.Table:
    """Leave out catalogue rows that ``query`` cannot mean, without making rows of them."""
    wanted = {
        "status": query.status,
        "agent": query.agent,
        "task_id": query.task,
        "source_format": query.source,
        "replay_of": query.replay_of,
    }
    masks = [
        pc.equal(table[name], value)
        for name, value in wanted.items()
        if value is not None and name in table.column_names
    ]
    if query.since is not None:
        begun = max((int(query.since.timestamp()) - 1) * 10**9, -(1 << 63))
        masks.append(pc.greater_equal(table["ts_start_ns"], begun))
    if query.failed:
        bad = pc.greater(pc.add(table["errors"], table["refusals"]), 0)
        masks.append(pc.or_kleene(bad, pc.equal(table["status"], "error")))
    if not masks:
        return table
    chosen = reduce(pc.and_kleene, masks)
    few = 2 * (pc.sum(chosen).as_py() or 0) < table.num_rows  # of many, the first are soon met
    return table.filter(chosen) if few else table


def rows_in(table: pa.Table) -> Iterator[Any]:
    """Yield the catalogue rows of ``table``, made only as far as they are asked for."""
    start, chunk = 0, 50
    while start < table.num_rows:
        yield from runs_of(table.slice(start, chunk))
        start, chunk = start + chunk, min(2 * chunk, 1000)


def _groups(footer: pq.FileMetaData, within: tuple[str, Sequence[str]] | None) -> list[int]:
    """Number the row groups that may hold what is looked for; all of them by default."""
    numbers = range(footer.num_row_groups)
    return [n for n in numbers if within is None or _may_hold(footer.row_group(n), *within)]


def _may_hold(group: pq.RowGroupMetaData, name: str, values: Sequence[str]) -> bool:
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == name:
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                return True
            low, high = statistics.min, statistics.max
            return any(low <= value <= high for value in values)
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return "it does not say which files belong to it"
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
