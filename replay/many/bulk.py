"""Replays many runs: reads them here, has each replayed elsewhere, and keeps the replays here.

Only this process has the store. What has been done is what the store holds: a replay is a run that
says of which run, by which planner and under which question; one that was broken off goes on by
leaving out the runs that have such a replay. Nothing else is written down.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.aimed import aimed_at
from replay.identity import versions_of
from replay.isolation import Wall
from replay.many.outcome import ManyResult, RunOutcome, not_replayed, worst_first
from replay.many.reading import (
    Earlier,
    Listed,
    called_in,
    done_before,
    is_of,
    kept_of,
    named,
    select,
    trajectories,
)
from replay.many.work import Done, Work, do_work
from replay.many.workers import Here, WorkerLost, Workers
from replay.replayer import ReplayOptions, importable_name, name_of
from tracekit.configuration import store_path
from tracekit.errors import UsageError
from tracekit.events import Blob, Event
from tracekit.redact import KeyedTagger, load_key
from tracekit.store import Batch, RunQuery, Store, open_store

Progress = Callable[[RunOutcome, int, int], None]
"""Told of each outcome, how many there are by now, and how many there will be."""

_AHEAD = 2
"""So many runs a worker are read before one comes back."""
_FLUSH_RUNS, _FLUSH_BYTES, _FLUSH_S = 100, 32 << 20, 5.0
"""Replays go into the store in batches of so much; what a kill of this process can lose."""


def replay_many(
    runs: RunQuery | Iterable[str],
    *,
    planner: str | Callable[..., Any] | object,
    store: str | Path | Store | None = None,
    options: ReplayOptions | None = None,
    jobs: int | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> ManyResult:
    """Replay many recorded runs with another planner; each replay is recorded as a run of its own.

    A run that cannot be replayed is an outcome and does not stop the others.

    Args:
        runs: Which runs: a query, or ids, or unambiguous prefixes of ids.
        planner: ``MOD:OBJ``, an importable object, or any callable. A closure runs in this process,
            one run after the other.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        options: How.
        jobs: Worker processes; default one a core. Twice as many runs are under way at a time.
        resume: Leave out runs that have a finished replay of the same planner, of the same code and
            options, and tell what that came to; not where the run was recorded anew since.
        executor: Where to replay, instead of processes on this machine. It is sent
            ``replay.many.do_work`` and picklable values, and it is not shut down.
        progress: Called after each run, in this thread.

    Raises:
        RunNotFound: one of the ids is none.
        PlannerError: the planner cannot be loaded.
        IsolationUnavailable: more isolation was asked for than there is.
        StoreError: replays could not be kept.
        UsageError: an option names a tool that none of the runs has, nor the planner; told before
            anything is kept.
    """
    kept = store if not isinstance(store, str | Path | None) else open_store(store_path(store))
    bulk = _Bulk(kept, importable_name(planner), options or ReplayOptions(), progress)
    return bulk.replay(runs, jobs=_jobs(jobs), resume=resume, executor=executor)


def _name(target: str | object) -> str:
    return target if isinstance(target, str) else name_of(target)


def _jobs(asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise UsageError(f"{asked} jobs are none", hint="give 1 or more")
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return asked or cores


def _rows(store: Store, runs: RunQuery | Iterable[str]) -> list[Listed]:
    return select(store, runs) if isinstance(runs, RunQuery) else named(store, runs)


def _done_before(
    store: Store, rows: list[Listed], target: str | object, options: ReplayOptions
) -> dict[str, Earlier]:
    tagger = KeyedTagger(load_key())
    versions = versions_of(target, options, path=options.path, tagger=tagger)
    return done_before(store, (row.run_id for row in rows), _name(target), versions)


@contextmanager
def _executor(
    given: Executor | None, target: str | object, options: ReplayOptions, *, jobs: int
) -> Iterator[Executor]:
    if given is not None:
        yield given
        return
    pool = Workers(jobs) if _can_be_sent(target, options) else Here()
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    else:
        pool.shutdown()


def _can_be_sent(target: str | object, options: ReplayOptions) -> bool:
    try:
        pickle.dumps((target, options))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return isinstance(target, str)


@dataclass
class _Bulk:
    """One bulk replay under way."""

    store: Store
    target: str | object
    options: ReplayOptions
    progress: Progress | None
    outcomes: list[RunOutcome] = field(default_factory=list)
    level: str | None = None
    walls: tuple[Wall, ...] = ()
    notes: tuple[str, ...] = ()
    _total: int = 0
    _before: dict[str, Earlier] = field(default_factory=dict)
    _others: frozenset[str] | None = None
    """What the runs call; set until it is known that no option is misspelt."""
    _under_way: dict[Future[Done], str] = field(default_factory=dict)

    def replay(
        self,
        runs: RunQuery | Iterable[str],
        *,
        jobs: int,
        resume: bool,
        executor: Executor | None,
    ) -> ManyResult:
        """Replay the runs and tell what came of all of them."""
        began = time.perf_counter()
        rows = _rows(self.store, runs)
        self._total = len(rows)
        if resume:
            self._before = _done_before(self.store, rows, self.target, self.options)
        if wanted := aimed_at(self.options):
            called = called_in(self.store, rows, wanted)
            self._others = None if wanted <= called else called
        with _executor(executor, self.target, self.options, jobs=jobs) as pool:
            self._run(rows, pool, ahead=_AHEAD * jobs)
        return ManyResult(
            planner=_name(self.target),
            store=str(self.store.path),
            outcomes=worst_first(self.outcomes),
            level=self.level,
            walls=self.walls,
            notes=self.notes,
            elapsed_s=time.perf_counter() - began,
        )

    def _run(self, rows: list[Listed], pool: Executor, *, ahead: int) -> None:
        """Replay all runs, ``ahead`` of them at a time, and keep what comes of it.

        Where an option names what no run calls, one alone, which shows what the planner knows.
        """
        ledger = _Ledger(self.store)
        try:
            for item in self._items(rows):
                if isinstance(item, RunOutcome):
                    self._note(item)
                    continue
                self._under_way[pool.submit(do_work, item)] = item.recorded.run_id
                while len(self._under_way) >= (ahead if item.others is None else 1):
                    self._collect(ledger)
            while self._under_way:
                self._collect(ledger)
        except BaseException:
            for future in self._under_way:
                future.cancel()
            raise
        finally:
            ledger.flush()

    def _items(self, rows: list[Listed]) -> Iterator[Work | RunOutcome]:
        """Give the work of each run; what was replayed before is only compared."""
        with_replays = ((row, self._before.get(row.run_id)) for row in rows)
        wanted = (row for pair in with_replays for row in pair if row is not None)
        found = trajectories(self.store, wanted)
        for run_id, recorded in found:
            row = self._before.get(run_id)
            replayed = None if row is None else next(found)[1]
            if isinstance(recorded, RunOutcome):
                yield recorded
            elif row is None or isinstance(replayed, RunOutcome | None) or not is_of(row, recorded):
                yield Work(self.target, self.options, recorded, others=self._others)
            else:
                yield Work(self.target, self.options, recorded, kept_of(row, replayed))

    def _collect(self, ledger: _Ledger) -> None:
        """Wait for some runs and keep what came of them."""
        for future in wait(self._under_way, return_when=FIRST_COMPLETED).done:
            run_id = self._under_way.pop(future)
            try:
                done = future.result()
            except (WorkerLost, BrokenExecutor) as lost:
                said = " ".join(str(lost).split())
                done = Done(not_replayed(run_id, f"lost: {said}; --resume replays it"))
            ledger.keep(done)
            if done.events:
                self._others = None
            self.level = done.level or self.level
            self.walls = done.walls or self.walls
            self.notes = done.notes or self.notes
            self._note(done.outcome)

    def _note(self, outcome: RunOutcome) -> None:
        self.outcomes.append(outcome)
        if self.progress is not None:
            self.progress(outcome, len(self.outcomes), self._total)


class _Ledger:
    """Puts replays into the store, some at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._events: list[Event] = []
        self._blobs: dict[str, Blob] = {}
        self._runs = self._bytes = 0
        self._since = time.monotonic()

    def keep(self, done: Done) -> None:
        """Take a replay; write if that makes enough."""
        if not done.events:
            return
        self._events += done.events
        fresh = {blob.digest: blob for blob in done.blobs if blob.digest not in self._blobs}
        self._blobs |= fresh
        self._runs += 1
        self._bytes += sum(len(blob.data) for blob in fresh.values()) + 500 * len(done.events)
        late = time.monotonic() - self._since >= _FLUSH_S
        if self._runs >= _FLUSH_RUNS or self._bytes >= _FLUSH_BYTES or late:
            self.flush()

    def flush(self) -> None:
        """Write what was taken."""
        if self._events:
            self._store.append(Batch(tuple(self._events), tuple(self._blobs.values())))
        self._begin()
