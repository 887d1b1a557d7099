"""The comparison of some pairs, in whatever process: ids in, outcomes out.

A process reads the runs of its own pairs, so that no trajectory is sent from one to another, and no
more of them is in memory than one piece of work names.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.comparing.outcome import PairOutcome, not_compared, outcome_of
from replay.diff import Comparison, diff
from replay.diff.content import identical
from replay.many.reading import Listed
from replay.recording import may_replay
from tracekit.errors import TracekitError
from tracekit.store import Store, open_store
from tracekit.store.several import WholeRun, read_runs
from tracekit.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class PairWork:
    """A pair to compare."""

    case: str
    baseline: Listed
    candidate: Listed
    accepted: tuple[Listed, ...] = ()
    """Other runs that the candidate may be like."""

    @property
    def runs(self) -> tuple[Listed, ...]:
        """All runs that are needed."""
        return (self.baseline, self.candidate, *self.accepted)


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of some pairs, and the processor time that reading and comparing took."""

    outcomes: tuple[PairOutcome, ...]
    reading_s: float = 0.0
    comparing_s: float = 0.0


def compare_in_store(path: str, pairs: Sequence[PairWork]) -> Compared:
    """Compare pairs of the store at ``path``, which stays open in this process."""
    return compare_pairs(_store(path), pairs)


def compare_pairs(store: Store, pairs: Sequence[PairWork]) -> Compared:
    """Compare pairs; what is wrong with a run is an outcome."""
    began = time.process_time()
    needed = dict.fromkeys(run for pair in pairs for run in pair.runs)
    runs = dict(read_runs(store, needed))
    read = time.process_time()
    outcomes = tuple(_compare(pair, runs) for pair in pairs)
    return Compared(outcomes, read - began, time.process_time() - read)


def _compare(pair: PairWork, runs: Mapping[str, WholeRun | TracekitError]) -> PairOutcome:
    names = pair.case, pair.baseline.run_id, pair.candidate.run_id
    one, two, *others = (_trajectory(runs[row.run_id]) for row in pair.runs)
    for row, run in ((pair.baseline, one), (pair.candidate, two)):
        if isinstance(run, TracekitError):
            return not_compared(*names, f"run {row.run_id}: {run.message}")
    assert isinstance(one, Trajectory)
    assert isinstance(two, Trajectory)
    if identical(one, two):
        return PairOutcome(*names, "same", nearest=one.run_id)
    if not may_replay(two, one):
        return not_compared(*names, f"run {one.run_id} was recorded anew since; replay it again")
    known = [run for run in others if isinstance(run, Trajectory)]
    try:
        return outcome_of(pair.case, one.run_id, compare_nearest(two, [one, *known]))
    except Exception:  # noqa: BLE001  # a fault of ours with one pair must not end the others
        return not_compared(*names, f"tracekit failed: {traceback.format_exc(limit=-1)}")


def _trajectory(run: WholeRun | TracekitError) -> Trajectory | TracekitError:
    return run if isinstance(run, TracekitError) else run.trajectory


def compare_nearest(candidate: Trajectory, accepted: Sequence[Trajectory]) -> Comparison:
    """Compare a run with the nearest of those that are accepted; of equally near ones the first."""
    best: Comparison | None = None
    for number, reference in enumerate(accepted):
        name = "accepted" if number else "baseline"
        found = diff(reference, candidate, left_name=name, right_name="candidate")
        if best is None or (found.distance, not found.same) < (best.distance, not best.same):
            best = found
        if best.same:
            break
    assert best is not None  # there is a baseline at least
    return best


class _Opened:
    """The store that this process has open."""

    path: str | None = None
    store: Store | None = None


def _store(path: str) -> Store:
    if _Opened.store is None or _Opened.path != path:
        _Opened.path, _Opened.store = path, open_store(Path(path))
    return _Opened.store
