"""The store that is one DuckDB file, for use by one process at a time.

It has the tables of the folder store: ``events``, ``blobs`` and ``runs``. Those who record write
journals into the folder beside it, so that they never wait for the file; whoever opens the store
next moves them in. A batch is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tracekit.errors import RunNotFound, StoreBusy, StoreError
from tracekit.events import Blob, Event, RunRow
from tracekit.order import in_order
from tracekit.rows import run_row
from tracekit.store import finding
from tracekit.store.appending import by_run, new_rows
from tracekit.store.assembling import trajectory_of
from tracekit.store.database import (
    SCHEMAS,
    Database,
    holds_tables,
    patiently,
    turn,
    unreadable,
)
from tracekit.store.live import Live, LiveReader, set_aside
from tracekit.store.paired import Paired
from tracekit.store.queries import Fresh, answer, quoted
from tracekit.store.reading import rows_in
from tracekit.store.schema import blobs_of, blobs_table, events_of, events_table, runs_table
from tracekit.store.types import (
    Batch,
    Compacted,
    Problem,
    RunQuery,
    Settled,
    SqlResult,
    VerifyReport,
    Written,
)
from tracekit.trajectory import Trajectory

EVERY_RUN = RunQuery()
_CHUNK = 10_000
_NEWEST = "SELECT * FROM runs ORDER BY ts_start_ns DESC NULLS LAST, run_id DESC"


class DuckdbStore:
    """One DuckDB file, and the journals beside it of those who record into it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.folder = database.beside
        self.live = LiveReader(self.folder)

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.database.path

    @property
    def redaction_key_id(self) -> str | None:
        """The name of the key that the placeholders in it were made with, where one is known."""
        return self.database.redaction_key_id

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Damage met so far while reading journals; a file that cannot be read is an error."""
        return (*self.live.read().problems, *set_aside(self.folder))

    def append(self, batch: Written) -> int:
        """Keep ``batch``; all of it or, if it raises, nothing. Return how many rows were new."""
        try:
            with self.database.opened(write=True) as base:
                return _append(base, batch, self.database.make_log)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreError(
                f"{self.path} could not be written: {reason}", hint="nothing of this batch was kept"
            ) from error

    def runs(self, query: RunQuery = EVERY_RUN) -> list[RunRow]:
        """List the runs that ``query`` means, newest first."""
        live = self.live.read()
        more = ""
        if query == RunQuery(limit=query.limit) and query.limit is not None:
            more = f" LIMIT {min(query.limit, 1 << 40) + len(live.events)}"
        stored = self._read(_NEWEST + more)
        fresh = self.recorded_runs(live)
        kept = (row for row in rows_in(stored) if row.run_id not in live.events)
        return finding.select(finding.merge_newest(fresh, kept), query)

    def recorded_runs(self, live: Live) -> list[RunRow]:
        """Sum up the runs that journals hold rows of, with all that is kept of them."""
        return [run_row(rows) for rows in self._rows(live, live.events).values()]

    def _rows(self, live: Live, run_ids: Iterable[str]) -> dict[str, list[Event]]:
        wanted = pa.table({"run_id": pa.array(sorted(run_ids), pa.string())})
        kept = by_run(
            events_of(self._read("SELECT * FROM events SEMI JOIN wanted USING (run_id)", wanted))
            if wanted.num_rows
            else ()
        )
        rows = {
            run_id: finding.merge_rows(
                list(kept.get(run_id, {}).values()), live.events.get(run_id, [])
            )
            for run_id in wanted["run_id"].to_pylist()
        }
        return {run_id: in_order(found) for run_id, found in rows.items() if found}

    def known_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Tell which of ``run_ids`` have a run here."""
        wanted = set(run_ids)
        live = self.live.read()
        table = pa.table({"run_id": pa.array(sorted(wanted), pa.string())})
        stored = self._read("SELECT run_id FROM runs SEMI JOIN wanted USING (run_id)", table)
        return {*stored["run_id"].to_pylist(), *(wanted & set(live.events))}

    def resolve(self, prefix: str) -> str:
        """Give the run id that ``prefix`` means."""
        prefix = prefix.encode(errors="replace").decode()  # bytes that no id can hold
        fitting = {run_id for run_id in self.live.read().events if run_id.startswith(prefix)}
        wanted = pa.table({"prefix": [prefix]})
        stored = self._read(
            "SELECT run_id FROM runs, wanted WHERE starts_with(run_id, prefix)", wanted
        )
        fitting.update(stored["run_id"].to_pylist())
        if prefix in fitting:
            return prefix
        return finding.the_one(prefix, fitting, self._ids, store=str(self.path))

    def _ids(self) -> set[str]:
        live = self.live.read()
        return {*self._read("SELECT run_id FROM runs")["run_id"].to_pylist(), *live.events}

    def events(self, run_id: str) -> list[Event]:
        """Give the rows of one run, in order."""
        rows = self._rows(self.live.read(), [run_id]).get(run_id)
        if not rows:
            known = finding.closest(run_id, self._ids())
            raise RunNotFound(run_id, store=str(self.path), candidates=known)
        return rows

    def rows_of(self, run_ids: Iterable[str]) -> dict[str, list[Event]]:
        """Give the rows of many runs at once, each in order; runs that are not here are missing."""
        return self._rows(self.live.read(), run_ids)

    def blob(self, digest: str) -> Blob | None:
        """Find a blob; None where it is not kept."""
        return self.blobs([digest]).get(digest)

    def blobs(self, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find many blobs at once; those not kept are missing in the answer."""
        asked = set(digests)
        live = self.live.read().blobs
        found = {digest: live[digest] for digest in asked if digest in live}
        if missing := sorted(asked - found.keys()):
            wanted = pa.table({"digest": pa.array(missing, pa.string())})
            stored = self._read("SELECT * FROM blobs SEMI JOIN wanted USING (digest)", wanted)
            found |= {blob.digest: blob for blob in blobs_of(stored)}
        return found

    def trajectory(self, run_id: str) -> Trajectory:
        """Build the trajectory of one run."""
        return trajectory_of(self.events(run_id), self.blobs)

    def sql(self, text: str) -> SqlResult:
        """Answer one SELECT over the views ``runs``, ``events`` and ``payloads``."""
        live = self.live.read()
        rows = self._rows(live, live.events)
        fresh = Fresh(
            runs_table([run_row(found) for found in rows.values()]),
            [row for found in rows.values() for row in found],
            live.blobs,
        )
        with turn(self.path):
            return answer(text, _DatabaseViews(self.database, fresh))

    def verify(self) -> VerifyReport:
        """Recompute every digest and check that all of the file can be read."""
        from tracekit.store.verification import examine, with_problems

        live = self.live.read()
        problems = list(self.problems)
        try:
            with self.database.opened() as base:
                pairs = base.execute("SELECT run_id, events FROM runs").fetchall()
                report = examine(_each_blob(base), _each_event(base), pairs, live, self.blob)
        except StoreBusy:
            raise
        except StoreError as error:
            problems.append(Problem(self.path.name, error.message, "what could not be read"))
            report = examine((), (), (), live, live.blobs.get)
        return with_problems(report, problems)

    def settle(self) -> Settled:
        """Move the journals of processes that are gone into the file."""
        return self.settle_into(wait=False)

    def settle_into(self, *, wait: bool) -> Settled:
        """Do what ``settle`` does; ``wait`` for whoever is writing."""
        from tracekit.store.settling import settle

        try:
            return settle(self.folder, self._append_all, kept=self._kept_or_parents, wait=wait)
        except StoreError as error:
            if wait and isinstance(error, StoreBusy):
                raise
            return Settled(skipped=error.message)

    def _append_all(self, batch: Batch, paired: Paired) -> int:
        return self.append(Batch((*batch.events, *paired.events()), batch.blobs))

    def _kept_or_parents(self, run_ids: Iterable[str]) -> set[str]:
        wanted = pa.table({"run_id": pa.array(sorted(run_ids), pa.string())})
        found = self._read(
            "SELECT run_id FROM runs SEMI JOIN wanted USING (run_id) UNION SELECT parent_run_id"
            " FROM runs WHERE parent_run_id IN (SELECT run_id FROM wanted)",
            wanted,
        )
        return set(found["run_id"].to_pylist())

    def compact(self) -> Compacted:
        """Settle, and give the space of what was replaced back to the file."""
        from tracekit.store.settling import require_settled

        require_settled(self.path, self.settle_into(wait=True))
        with self.database.opened(write=True) as base:
            base.execute("CHECKPOINT")
        return Compacted(1, 1, 0)

    def _read(self, query: str, wanted: pa.Table | None = None) -> pa.Table:
        with self.database.opened() as base:
            if wanted is not None:
                base.register("wanted", wanted)
            return base.sql(query).to_arrow_table()


@dataclass(frozen=True, slots=True)
class _DatabaseViews:
    """Views over the tables of the file; it is attached to the database that answers."""

    database: Database
    fresh: Fresh

    @property
    def directory(self) -> None:
        """No file but the one that is attached is read."""
        return

    def make(self, base: duckdb.DuckDBPyConnection) -> None:
        """Make the views."""
        path = self.database.path
        if path.exists():
            attach = f"ATTACH {quoted(str(path))} AS kept (READ_ONLY)"
            patiently(path, lambda: base.execute(attach))
        kept = holds_tables(base, of="kept")
        beside = {
            "runs": (self.fresh.runs, "run_id"),
            "events": (events_table(self.fresh.events), "event_id"),
            "blobs": (blobs_table(self.fresh.blobs.values()), "digest"),
        }
        for name, (table, key) in beside.items():
            base.register(f"all_{name}_beside", table)
            parts = [f"SELECT * FROM all_{name}_beside"]
            if kept and table.num_rows:
                rest = f"WHERE {key} NOT IN (SELECT {key} FROM all_{name}_beside)"
                parts.append(f"SELECT * FROM kept.{name} {rest}")
            elif kept:
                parts.append(f"SELECT * FROM kept.{name}")
            base.execute(f"CREATE VIEW all_{name} AS {' UNION ALL BY NAME '.join(parts)}")

    def blobs(self, base: duckdb.DuckDBPyConnection, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find blobs while a query runs; the file is attached there already."""
        wanted = set(digests)
        found = {name: self.fresh.blobs[name] for name in wanted & self.fresh.blobs.keys()}
        if missing := sorted(wanted - found.keys()):
            with base.cursor() as aside:
                if not holds_tables(aside, of="kept"):
                    return found
                query = "SELECT digest, media_type, bytes FROM kept.blobs WHERE digest IN ?"
                for name, kind, data in aside.execute(query, [missing]).fetchall():
                    found[name] = Blob(digest=name, media_type=kind, data=data)
        return found

    def look_again(self, error: duckdb.Error) -> bool:
        """Say no, or raise: the file is one, and what is damaged cannot be left out."""
        if isinstance(error, (duckdb.IOException, duckdb.FatalException, duckdb.InternalException)):
            raise unreadable(self.database.path, error)
        return False


def _append(base: duckdb.DuckDBPyConnection, batch: Written, make_log: Callable[[], None]) -> int:
    def kept(run_ids: Iterable[str]) -> dict[str, dict[str, Event]]:
        base.register("wanted", _ids(run_ids))
        found = base.sql("SELECT * FROM events SEMI JOIN wanted USING (run_id)")
        return by_run(events_of(found.to_arrow_table()))

    base.execute("BEGIN")
    fresh, rows = new_rows(batch.events, kept)
    base.register("offered", blobs_table({blob.digest: blob for blob in batch.blobs}.values()))
    base.execute("CREATE TEMP TABLE more AS SELECT * FROM offered ANTI JOIN blobs USING (digest)")
    if not fresh and not base.execute("SELECT 1 FROM more LIMIT 1").fetchall():
        base.execute("ROLLBACK")
        return 0
    make_log()
    _widen(base)
    tables = {"events": events_table(fresh), "runs": runs_table(rows)}
    base.execute("INSERT INTO blobs BY NAME SELECT * FROM more")
    base.execute("DROP TABLE more")
    base.register("wanted", _ids(row.run_id for row in rows))
    base.execute("DELETE FROM runs WHERE run_id IN (SELECT run_id FROM wanted)")
    for name, table in tables.items():
        base.register("offered", table)
        base.execute(f"INSERT INTO {name} BY NAME SELECT * FROM offered")
    base.execute("COMMIT")
    return len(fresh)


def _widen(base: duckdb.DuckDBPyConnection) -> None:
    """Add the columns that an older version did not know."""
    for name, schema in SCHEMAS.items():
        has = {row[0] for row in base.execute(f"DESCRIBE {name}").fetchall()}
        base.register("columns", schema.empty_table())
        for row in base.execute("DESCRIBE SELECT * FROM columns").fetchall():
            if row[0] not in has:
                base.execute(f"ALTER TABLE {name} ADD COLUMN {row[0]} {row[1]}")
        base.unregister("columns")


def _ids(run_ids: Iterable[str]) -> pa.Table:
    return pa.table({"run_id": pa.array(sorted(run_ids), pa.string())})


def _each_blob(base: duckdb.DuckDBPyConnection) -> Iterator[Blob]:
    for batch in _chunks(base.cursor(), "SELECT * FROM blobs", 500):
        yield from blobs_of(batch)


def _each_event(base: duckdb.DuckDBPyConnection) -> Iterator[Event]:
    for batch in _chunks(base.cursor(), "SELECT * FROM events", _CHUNK):
        yield from events_of(batch)


def _chunks(base: duckdb.DuckDBPyConnection, query: str, rows: int) -> Iterator[pa.Table]:
    with base:
        for batch in base.sql(query).to_arrow_reader(rows):
            yield pa.Table.from_batches([batch])
