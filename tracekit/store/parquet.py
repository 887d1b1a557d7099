"""The store that is a folder of Parquet files and journals.

Each method is a few lines over the modules beside it: ``reading`` and ``live`` know what is there,
``appending`` and ``settling`` add to it, ``compaction`` joins files, ``queries`` asks SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tracekit.errors import RunNotFound, StoreError
from tracekit.events import Blob, Event, RunRow
from tracekit.order import in_order
from tracekit.rows import run_row
from tracekit.store import finding
from tracekit.store.appending import append, append_locked, by_run
from tracekit.store.assembling import trajectory_of
from tracekit.store.blobs import find_blobs
from tracekit.store.folder import Folder
from tracekit.store.live import Live, LiveReader, rows_beside, set_aside
from tracekit.store.reading import (
    Reader,
    Retired,
    Snapshot,
    catalogue,
    narrowed,
    rows_in,
    without_runs,
)
from tracekit.store.schema import events_of, runs_table
from tracekit.store.types import (
    Compacted,
    Problem,
    RunQuery,
    Settled,
    SqlResult,
    VerifyReport,
    Written,
)
from tracekit.trajectory import Trajectory

_T = TypeVar("_T")
EVERY_RUN = RunQuery()


class ParquetStore:
    """A folder of Parquet files, and the journals of those who record into it."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.reader = Reader(folder)
        self.live = LiveReader(folder)
        self._catalogue: tuple[Snapshot, pa.Table] | None = None
        self._near: list[str] = []

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder.path

    @property
    def redaction_key_id(self) -> str | None:
        """The name of the key that the placeholders in it were made with, where one is known."""
        return self.folder.redaction_key_id

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Damage met so far while reading; the rest was read."""
        return (*self.reader.problems, *self.live.read().problems, *set_aside(self.folder))

    def append(self, batch: Written) -> int:
        """Keep ``batch``; all of it or, if it raises, nothing. Return how many rows were new."""
        return append(self.folder, self.reader, batch)

    def runs(self, query: RunQuery = EVERY_RUN) -> list[RunRow]:
        """List the runs that ``query`` means, newest first."""
        return self._reading(lambda live, snapshot: self._runs(live, snapshot, query))

    def _runs(self, live: Live, snapshot: Snapshot, query: RunQuery) -> list[RunRow]:
        fresh = self.recorded_runs(live, snapshot)
        stored = without_runs(self._table(snapshot), list(live.events))
        kept = rows_in(narrowed(stored, query))
        return finding.select(finding.merge_newest(fresh, kept), query)

    def recorded_runs(self, live: Live, snapshot: Snapshot) -> list[RunRow]:
        """Sum up the runs that journals hold rows of, with all that is kept of them."""
        return [run_row(rows) for rows in self._rows_of(live, snapshot, live.events).values()]

    def known_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Tell which of ``run_ids`` have a run here."""
        wanted = set(run_ids)
        live = self.live.read()
        ids = self._table(self.reader.snapshot())["run_id"]
        mine = pc.is_in(ids, pa.array(sorted(wanted), pa.string()))
        return set(ids.filter(mine).to_pylist()) | (wanted & set(live.events))

    def resolve(self, prefix: str) -> str:
        """Give the run id that ``prefix`` means."""
        prefix = prefix.encode(errors="replace").decode()  # bytes that no id can hold
        live = self.live.read()
        ids = self._table(self.reader.snapshot())["run_id"]
        starts = ids.filter(pc.starts_with(ids, prefix)).to_pylist()
        fitting = {*starts, *(run_id for run_id in live.events if run_id.startswith(prefix))}
        if prefix in fitting:
            return prefix
        return finding.the_one(prefix, fitting, self._ids, store=str(self.path))

    def events(self, run_id: str) -> list[Event]:
        """Give the rows of one run, in order."""
        rows = self._reading(lambda live, snapshot: self._events(live, snapshot, run_id))
        if not rows:
            ids = self._ids()
            if run_id in ids:
                raise StoreError(
                    f"run {run_id!r} is known in {self.path}, but its events cannot be read",
                    hint=f"see what is damaged with: tracekit doctor --store {self.path}",
                )
            known = finding.closest(run_id, ids)
            raise RunNotFound(run_id, store=str(self.path), candidates=known)
        return rows

    def _ids(self) -> set[str]:
        stored = self._table(self.reader.snapshot())["run_id"].to_pylist()
        return {*stored, *self.live.read().events}

    def _events(self, live: Live, snapshot: Snapshot, run_id: str) -> list[Event]:
        batches = snapshot.batches_of(run_id)
        self._near = [batch.name for batch in batches]
        table = self.reader.events(batches, [run_id])
        rows = events_of(table) if table is not None else []
        return in_order(finding.merge_rows(rows, live.events.get(run_id, [])))

    def rows_of(self, run_ids: Iterable[str]) -> dict[str, list[Event]]:
        """Give the rows of many runs at once, each in order; runs that are not here are missing."""
        wanted = set(run_ids)
        return self._reading(lambda live, snapshot: self._rows_of(live, snapshot, wanted))

    def _rows_of(
        self, live: Live, snapshot: Snapshot, run_ids: Iterable[str]
    ) -> dict[str, list[Event]]:
        wanted = sorted(run_ids)
        kept = self._stored(snapshot, wanted)
        merged = {
            run_id: finding.merge_rows(
                list(kept.get(run_id, {}).values()), live.events.get(run_id, [])
            )
            for run_id in wanted
        }
        return {run_id: in_order(found) for run_id, found in merged.items() if found}

    def blob(self, digest: str) -> Blob | None:
        """Find a blob; None where it is not kept."""
        return self.blobs([digest]).get(digest)

    def blobs(self, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find many blobs at once; those not kept are missing in the answer."""
        wanted = set(digests)
        return self._reading(
            lambda live, snapshot: find_blobs(
                self.reader, snapshot, wanted, live=live.blobs, near=self._near
            )
        )

    def trajectory(self, run_id: str) -> Trajectory:
        """Build the trajectory of one run."""
        return trajectory_of(self.events(run_id), self.blobs)

    def sql(self, text: str) -> SqlResult:
        """Answer one SELECT over the views ``runs``, ``events`` and ``payloads``."""
        from tracekit.store.queries import FileViews, Fresh, answer

        def ask(live: Live, snapshot: Snapshot) -> SqlResult:
            rows = self._runs(live, snapshot, EVERY_RUN) if live.events else []
            mine = [row for row in rows if row.run_id in live.events]
            stored = without_runs(self._table(snapshot), list(live.events))
            runs = pa.concat_tables([stored, runs_table(mine)], promote_options="default")
            fresh = Fresh(runs, self._unsettled(live, snapshot), live.blobs)
            return answer(text, FileViews(self.reader, snapshot, fresh))

        return self._reading(ask)

    def verify(self) -> VerifyReport:
        """Recompute every digest and check that every file can be read."""
        from tracekit.store.verification import verify

        return self._reading(lambda live, snapshot: verify(self.folder, live, snapshot))

    def settle(self) -> Settled:
        """Move the journals of processes that are gone to where queries are quick."""
        return self.settle_into(wait=False)

    def settle_into(self, *, wait: bool) -> Settled:
        """Do what ``settle`` does; ``wait`` for whoever is writing."""
        from tracekit.store.settling import settle

        add = partial(append_locked, self.folder, self.reader)
        return settle(self.folder, add, kept=self._kept_or_parents, wait=wait)

    def _kept_or_parents(self, run_ids: Iterable[str]) -> set[str]:
        wanted = pa.array(sorted(run_ids), pa.string())
        table = self._table(self.reader.snapshot())
        return {
            run_id
            for name in ("run_id", "parent_run_id")
            for run_id in table[name].filter(pc.is_in(table[name], wanted)).to_pylist()
        }

    def compact(self) -> Compacted:
        """Settle, join small files and remove left-overs."""
        from tracekit.store.compaction import compact
        from tracekit.store.settling import require_settled

        require_settled(self.path, self.settle_into(wait=True))
        return compact(self.folder)

    def _reading(self, read: Callable[[Live, Snapshot], _T]) -> _T:
        """Read until no file was retired meanwhile.

        Journals come first: one that is settled in between is then read twice, never missed.
        """
        while True:
            live = self.live.read()
            try:
                return read(live, self.reader.snapshot())
            except Retired:
                continue

    def _table(self, snapshot: Snapshot) -> pa.Table:
        if self._catalogue is None or self._catalogue[0] is not snapshot:
            self._catalogue = (snapshot, catalogue(snapshot))
        return self._catalogue[1]

    def _unsettled(self, live: Live, snapshot: Snapshot) -> list[Event]:
        """Give the rows that only journals have."""
        stored = self._stored(snapshot, sorted(live.events))
        fresh = (rows_beside(rows, stored.get(one, {})) for one, rows in live.events.items())
        return [row for rows in fresh for row in rows]

    def _stored(self, snapshot: Snapshot, run_ids: list[str]) -> dict[str, dict[str, Event]]:
        """Give the rows that batches hold of some runs, looked up together."""
        table = self.reader.events(snapshot.batches_of(*run_ids), run_ids)
        return by_run(events_of(table) if table is not None else ())
