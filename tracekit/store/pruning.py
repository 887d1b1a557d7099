"""Removing runs for good: their rows, their catalogue lines, and the values nothing else needs.

All that goes goes with one commit. A folder gets one new batch with what stays of the batches that
held something of it, and that batch names those it replaces; a DuckDB file is written anew and put
in the old one's place, since a database keeps deleted bytes. A kill leaves the store as it was, or
as it should be.

What a living process records is never touched: its runs stay, and so does what they rest on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.chains import MEDIA_TYPE
from tracekit.errors import StoreError
from tracekit.leftovers import HeldFolder
from tracekit.store.compaction import clean, one_table
from tracekit.store.folder import Folder, fresh_batch_name, locked, publish
from tracekit.store.live import Live
from tracekit.store.parquet import ParquetStore
from tracekit.store.queries import quoted
from tracekit.store.reading import (
    CommittedBatch,
    Manifest,
    Reader,
    Snapshot,
    catalogue,
    rows_in,
    without_runs,
)
from tracekit.store.removal import (
    Criteria,
    Links,
    Pruned,
    digests_in,
    lines_set_aside,
    names_table,
)
from tracekit.store.schema import SPARED, blobs_of, write_table
from tracekit.store.settling import require_settled
from tracekit.store.types import Store

_NAMES_MEMORY = "300MB"
"""So much of the names of values is held in memory; the rest waits on disk."""
_NAMING = ("argument_blob", "observation_blob", "contract")


def prune(store: Store, criteria: Criteria, *, dry_run: bool = False) -> Pruned:
    """Remove the runs that ``criteria`` mean, or tell what would go.

    Raises:
        StoreBusy: another process holds the DuckDB file.
        StoreError: the store cannot be written; no run was removed in part.
    """
    if isinstance(store, ParquetStore):
        return _prune_folder(store, criteria, dry_run=dry_run)
    from tracekit.store.rebuilding import prune_file
    from tracekit.store.single import DuckdbStore

    assert isinstance(store, DuckdbStore)
    return prune_file(store, criteria, dry_run=dry_run)


def _prune_folder(store: ParquetStore, criteria: Criteria, *, dry_run: bool) -> Pruned:
    folder = store.folder
    settled = store.settle_into(wait=not dry_run)
    try:
        if dry_run:
            return _planned(store, criteria).as_pruned(folder)
        with locked(folder):
            done = _prune(store, criteria)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"{folder.path} could not be pruned: {reason}",
            hint="no run was removed in part; prune again when it can be written",
        ) from error
    if done.recording and not done.runs:
        require_settled(folder.path, settled)
    return done


def _prune(store: ParquetStore, criteria: Criteria) -> Pruned:
    folder = store.folder
    clean(folder)
    plan = _planned(store, criteria)
    if not plan.touched:
        return plan.as_pruned(folder)
    freed = _size(folder, plan.touched)
    _commit(folder, plan)
    clean(folder)
    made = Reader(folder).snapshot().batches
    freed -= _size(folder, [one for one in made if one.name not in plan.before])
    return plan.as_pruned(folder, freed=freed)


@dataclass
class _Plan:
    reader: Reader
    snapshot: Snapshot
    going: set[str]
    recording: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    needless: pa.ChunkedArray = field(default_factory=lambda: pa.chunked_array([], pa.string()))
    """Values that go, sorted."""
    events: int = 0
    weight: float = 0
    left: dict[str, int] = field(default_factory=dict)
    """File of a touched batch → rows that stay."""
    touched: list[CommittedBatch] = field(default_factory=list)

    @property
    def before(self) -> set[str]:
        return {batch.name for batch in self.snapshot.batches}

    def as_pruned(self, folder: Folder, *, freed: int | None = None) -> Pruned:
        return Pruned(
            runs=tuple(sorted(self.going)),
            events=self.events,
            values=len(self.needless),
            bytes_freed=int(self.weight) if freed is None else max(0, freed),
            recording=tuple(sorted(self.recording)),
            damaged=tuple(sorted(self.damaged)),
            set_aside=lines_set_aside(folder, self.going),
        )


def _planned(store: ParquetStore, criteria: Criteria) -> _Plan:
    """Find out what goes; batches with damage stay as they are, and so do the runs in them.

    Of a run that is being recorded the catalogue may know nothing, or not what it is meant by.
    """
    live, reader = store.live.read(), Reader(store.folder)
    snapshot = reader.snapshot()
    recorded = store.recorded_runs(live, snapshot)
    meant = criteria.meant((*recorded, *rows_in(catalogue(snapshot))))
    recording = meant & live.events.keys()
    damaged: set[str] = set()
    while True:
        bad = [batch for batch in snapshot.batches if _is_damaged(reader, batch)]
        damaged = meant.intersection(*[_runs_in(bad)]) - recording
        plan = _Plan(reader, snapshot, meant - recording - damaged, recording, damaged)
        sound = [batch for batch in snapshot.batches if batch not in bad]
        if plan.going:
            _weigh(plan, live, sound)
        if all(_readable(reader, batch) for batch in plan.touched):
            return plan


def _runs_in(batches: Iterable[CommittedBatch]) -> set[str]:
    return {run_id for batch in batches for run_id in batch.catalogue["run_id"].to_pylist()}


def _is_damaged(reader: Reader, batch: CommittedBatch) -> bool:
    files = {*batch.manifest.files, f"runs/{batch.name}.parquet"}
    return any(path in files for path, _ in reader.found)


def _readable(reader: Reader, batch: CommittedBatch) -> bool:
    for path, rows in batch.manifest.files.items():
        for _ in reader.tables(path, rows=rows):
            pass
    return not _is_damaged(reader, batch)


def _weigh(plan: _Plan, live: Live, sound: list[CommittedBatch]) -> None:
    """Find the values that go with the runs, and the batches that hold something of either."""
    reader = plan.reader
    with _scratch() as base:
        gone_rows, links = _named(plan, base), Links.beside(live)
        for batch in plan.snapshot.batches:
            for path in batch.files("blobs"):
                for table in reader.tables(path, rows=-1, within=("media_type", [MEDIA_TYPE])):
                    links.add(blobs_of(table.filter(pc.equal(table["media_type"], MEDIA_TYPE))))
        plan.needless = links.needless(base)
    plan.events = sum(gone_rows.values())
    for batch in sound:
        for path in batch.files("blobs"):
            for table in reader.tables(path, rows=-1, columns=["digest"]):
                gone_rows[path] += pc.sum(_needless_in(plan, table)).as_py() or 0
        mine = batch.manifest.files
        if any(gone_rows[path] for path in mine) or plan.going & _runs_in([batch]):
            plan.touched.append(batch)
            plan.left |= {path: rows - gone_rows[path] for path, rows in mine.items()}
            plan.weight += sum(
                _size_of(reader.folder.path / path) * gone_rows[path] / max(1, rows)
                for path, rows in mine.items()
            )


@contextmanager
def _scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a database for more names than are to be held in memory."""
    with HeldFolder("prune") as folder, duckdb.connect() as base:
        base.execute(f"SET temp_directory = {quoted(str(folder))}")
        base.execute(f"SET memory_limit = '{_NAMES_MEMORY}'")
        base.execute(f"SET disabled_optimizers = {quoted(SPARED)}")
        yield base


def _named(plan: _Plan, base: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Fill ``named``: the values that runs name. Give the rows of each file that go."""
    gone_rows = {path: 0 for batch in plan.snapshot.batches for path in batch.manifest.files}
    base.execute("CREATE TABLE names (name VARCHAR, stays BOOLEAN)")
    going = pa.array(sorted(plan.going), pa.string())
    columns = ["run_id", "attributes", *_NAMING]
    for batch in plan.snapshot.batches:
        for path in batch.files("events"):
            for table in plan.reader.tables(path, rows=-1, columns=columns):
                gone = pc.is_in(table["run_id"], going)
                gone_rows[path] += pc.sum(gone).as_py() or 0
                for stays, rows in ((False, gone), (True, pc.invert(gone))):
                    for names in _names(table.filter(rows)):
                        base.register("part", pa.table({"name": names}))
                        insert = "INSERT INTO names SELECT DISTINCT name, ?::BOOLEAN FROM part"
                        base.execute(f"{insert} WHERE name IS NOT NULL", [stays])
    base.execute(
        "CREATE TABLE named AS SELECT name, bool_or(stays) AS stays FROM names GROUP BY name"
    )
    return gone_rows


def _names(table: pa.Table) -> Iterator[pa.ChunkedArray]:
    """Yield the columns of names, those in attributes included."""
    if not table.num_rows:
        return
    for column in _NAMING:
        if column in table.column_names:
            yield table[column]
    attributes = pc.unique(table["attributes"].cast(pa.string())).to_pylist()
    if found := digests_in(attributes):
        yield names_table(found)["name"]


def _needless_in(plan: _Plan, table: pa.Table) -> pa.ChunkedArray:
    """Tell which values of a file, which stand there sorted, go."""
    digests, all_names = table["digest"], plan.needless
    if not table.num_rows:
        return pc.is_in(digests, pa.array([], pa.string()))
    begin = bisect_left(all_names, pc.min(digests).as_py(), key=_text)
    end = bisect_right(all_names, pc.max(digests).as_py(), key=_text)
    return pc.is_in(digests, pa.array(all_names.slice(begin, end - begin).to_pylist(), pa.string()))


def _text(value: pa.StringScalar) -> str:
    return str(value.as_py())


def _commit(folder: Folder, plan: _Plan) -> None:
    """Write what stays of the touched batches as one batch that replaces them."""
    name = fresh_batch_name(folder)
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for path, rows in plan.left.items():
        if rows:
            sources[path.rpartition("/")[0]].append(path)
    written: dict[str, int] = {}

    def write(place: str, temporary: Path) -> None:
        table = one_table(place, [_staying(plan, path) for path in sources[place]])
        written[f"{place}/{name}.parquet"] = table.num_rows
        write_table(table, temporary)

    def commit(temporary: Path) -> None:
        replaced = tuple(batch.name for batch in plan.touched)
        manifest = Manifest(written, replaced)
        lines = without_runs(catalogue(Snapshot(tuple(plan.touched))), sorted(plan.going))
        write_table(lines, temporary, metadata=manifest.as_metadata())

    places = [
        (folder.path / place / f"{name}.parquet", partial(write, place))
        for place in sorted(sources)
    ]
    publish([*places, (folder.runs / f"{name}.parquet", commit)])


def _staying(plan: _Plan, path: str) -> pa.Table:
    """Read what stays of one file.

    Raises:
        OSError: it could be read a moment ago, and cannot now.
    """
    going = pa.array(sorted(plan.going), pa.string())
    tables = [
        table.filter(
            pc.invert(
                pc.is_in(table["run_id"], going)
                if path.startswith("events/")
                else _needless_in(plan, table)
            )
        )
        for table in plan.reader.tables(path, rows=-1, as_kept=True)
    ]
    table = pa.concat_tables(tables, promote_options="default")
    if table.num_rows != plan.left[path]:
        raise OSError(None, f"{path} cannot be read to its end")
    return table


def _size(folder: Folder, batches: Iterable[CommittedBatch]) -> int:
    return sum(
        _size_of(folder.path / path)
        for batch in batches
        for path in (*batch.manifest.files, f"runs/{batch.name}.parquet")
    )


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
