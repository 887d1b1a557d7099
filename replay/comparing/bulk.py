"""Compares many pairs: lists and pairs the runs here, has the pairs compared elsewhere, sums up.

The catalogue tells what pairing needs. The runs themselves are read by those who compare them, a
few at a time, so memory does not grow with the number of pairs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path

from replay.comparing.cases import candidates
from replay.comparing.outcome import ManyComparison, PairOutcome, not_compared, worst_first
from replay.comparing.pairing import Pair, Pairing, pair_runs
from replay.comparing.references import References, folder_of, read_references
from replay.comparing.selection import Selection, Selections, as_selections, choose_all
from replay.comparing.work import Compared, PairWork, compare_in_store, compare_pairs
from replay.many.reading import Listed
from replay.many.workers import WorkerLost, Workers
from tracekit.configuration import store_path
from tracekit.errors import UsageError
from tracekit.events import RunRow
from tracekit.store import RunQuery, Store, open_store
from tracekit.store.places import is_database

Progress = Callable[[int, int], None]
"""Told how many pairs are compared by now, and how many there are."""

_CHUNK_PAIRS, _CHUNK_EVENTS = 64, 8_000
"""So much is one piece of work."""
_AHEAD = 2
_FEW_EVENTS = 10_000
"""So many are compared here: processes would take longer to start."""


@dataclass(frozen=True)
class Selected:
    """Two sides of a comparison, paired."""

    baseline: str
    candidate: str
    rows: tuple[dict[str, RunRow], dict[str, RunRow]]
    """The catalogue's rows of both sides, by run id."""
    pairing: Pairing
    notes: tuple[str, ...] = ()
    """Which acceptances were left out, and why."""


def compare_many(
    baseline: Selections,
    candidate: Selections,
    *,
    store: Store | str | Path | None = None,
    references: References | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> ManyComparison:
    """Pair the runs of two selections by task and input, and compare every pair.

    Args:
        baseline: The expectation, such as ``tag=v6``; of several, the runs that any means.
        candidate: Its counterpart.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        references: What else is accepted; default what is kept beside the store.
        jobs: Worker processes; default one a core, none for few pairs or a DuckDB file.
        progress: Called now and then, in this thread.

    Raises what ``pair_selected`` raises.
    """
    began = time.perf_counter()
    opened = store if not isinstance(store, str | Path | None) else open_store(store_path(store))
    accepted = references or read_references(folder_of(opened.path))
    sides = as_selections(baseline), as_selections(candidate)
    selected = pair_selected(*sides, store=opened, references=accepted)
    work, notes = _all_work(selected, accepted, opened)
    found = _compare(work, opened, jobs=_jobs(jobs, work, opened), progress=progress)
    return ManyComparison(
        selected.baseline,
        selected.candidate,
        str(opened.path),
        worst_first(found.outcomes),
        baseline_only=selected.pairing.baseline_only,
        candidate_only=selected.pairing.candidate_only,
        notes=notes,
        elapsed_s=time.perf_counter() - began,
        reading_s=found.reading_s,
        comparing_s=found.comparing_s,
    )


def pair_selected(
    baseline: Sequence[Selection],
    candidate: Sequence[Selection],
    *,
    store: Store,
    references: References | None = None,
) -> Selected:
    """Choose the runs of both sides and pair them.

    Raises:
        RunNotFound: an id is none.
        UsageError: a side is empty, or a run is on both.
    """
    accepted = references or read_references(folder_of(store.path))
    if any(selection.accepted for selection in (*baseline, *candidate)):
        accepted = accepted.usable(store)
    sides = [_choose(side, store, accepted) for side in (baseline, candidate)]
    texts = [" or ".join(chosen.text for chosen in side) for side in (baseline, candidate)]
    for rows, text, name in zip(sides, texts, ("baseline", "candidate"), strict=True):
        if not rows:
            raise UsageError(
                "; ".join((f"no runs match the {name}: {text}", *accepted.notes[:1])),
                hint=f"list the runs there are with: tracekit runs --store {store.path}",
            )
    if both := sorted(sides[0].keys() & sides[1].keys()):
        more = f" and {len(both) - 1} more" if len(both) > 1 else ""
        raise UsageError(
            f"run {both[0]!r}{more} would be compared with itself: it is on both sides"
        )
    ours, theirs = (candidates(store, list(rows.values())) for rows in sides)
    return Selected(
        texts[0], texts[1], (sides[0], sides[1]), pair_runs(ours, theirs), accepted.notes
    )


def _choose(side: Sequence[Selection], store: Store, accepted: References) -> dict[str, RunRow]:
    found = {row.run_id: row for row in choose_all(store, [s for s in side if not s.accepted])}
    if any(selection.accepted for selection in side):
        wanted = {reference.run_id for reference in accepted.found}
        found |= {row.run_id: row for row in store.runs(RunQuery()) if row.run_id in wanted}
    return found


def _all_work(
    selected: Selected, accepted: References, store: Store
) -> tuple[list[PairWork], tuple[str, ...]]:
    """Give what is to compare, and which acceptances are left out."""
    pairs = selected.pairing.pairs
    told = replace(accepted, notes=selected.notes)
    usable = told.usable(store, cases=[pair.candidate for pair in pairs])
    return [_work(pair, usable) for pair in pairs], usable.notes


def _work(pair: Pair, references: References) -> PairWork:
    one, two = pair.baseline, pair.candidate
    others = tuple(
        Listed(run_id, one.events) for run_id in references.of(two) if run_id != one.run_id
    )
    return PairWork(
        pair.case, Listed(one.run_id, one.events), Listed(two.run_id, two.events), others
    )


def _jobs(asked: int | None, work: Sequence[PairWork], store: Store) -> int:
    """Decide how many processes compare; 0 is this one."""
    if asked is not None and asked < 1:
        raise UsageError(f"{asked} jobs are none", hint="give 1 or more")
    events = sum(run.events for pair in work for run in pair.runs)
    if is_database(store.path) or asked == 1 or (asked is None and events < _FEW_EVENTS):
        return 0
    affinity = getattr(os, "sched_getaffinity", None)
    return asked or (len(affinity(0)) if affinity is not None else os.cpu_count() or 1)


def _compare(
    work: Sequence[PairWork], store: Store, *, jobs: int, progress: Progress | None
) -> Compared:
    """Compare all pairs and return the outcomes in their order."""
    outcomes: list[PairOutcome] = []
    reading = comparing = 0.0
    told = progress or (lambda done, total: None)
    for done in _pieces(work, store, jobs=jobs):
        outcomes += done.outcomes
        reading += done.reading_s
        comparing += done.comparing_s
        told(len(outcomes), len(work))
    places = {(pair.baseline.run_id, pair.candidate.run_id): n for n, pair in enumerate(work)}
    outcomes.sort(key=lambda one: places[one.baseline, one.candidate])
    return Compared(tuple(outcomes), reading, comparing)


def _pieces(work: Sequence[PairWork], store: Store, *, jobs: int) -> Iterator[Compared]:
    if not jobs:
        for chunk in _chunks(work):
            yield compare_pairs(store, chunk)
        return
    pool = Workers(jobs)
    try:
        yield from _from_pool(pool, work, str(Path(store.path).absolute()), ahead=_AHEAD * jobs)
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _from_pool(
    pool: Executor, work: Sequence[PairWork], path: str, *, ahead: int
) -> Iterator[Compared]:
    under_way: dict[Future[Compared], list[PairWork]] = {}
    for chunk in _chunks(work):
        under_way[pool.submit(compare_in_store, path, chunk)] = chunk
        if len(under_way) >= ahead:
            yield from _collect(under_way)
    while under_way:
        yield from _collect(under_way)


def _collect(under_way: dict[Future[Compared], list[PairWork]]) -> Iterator[Compared]:
    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
        chunk = under_way.pop(future)
        try:
            yield future.result()
        except (WorkerLost, BrokenExecutor) as lost:
            names = ((w.case, w.baseline.run_id, w.candidate.run_id) for w in chunk)
            yield Compared(tuple(not_compared(*name, f"lost: {lost}") for name in names))


def _chunks(work: Sequence[PairWork]) -> Iterator[list[PairWork]]:
    chunk: list[PairWork] = []
    events = 0
    for pair in work:
        size = sum(run.events for run in pair.runs)
        if chunk and (len(chunk) >= _CHUNK_PAIRS or events + size > _CHUNK_EVENTS):
            yield chunk
            chunk, events = [], 0
        chunk.append(pair)
        events += size
    if chunk:
        yield chunk
