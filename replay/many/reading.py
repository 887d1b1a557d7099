"""The store's side of a bulk replay: which runs, what is done already, and their trajectories.

The catalogue is read first, the runs themselves a few at a time: no more of them is in memory than
is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from replay.many.outcome import RunOutcome, not_replayed
from replay.many.work import Kept, reasons_of, shares_of
from replay.result import VerdictKind
from tracekit.canonical import parse_json
from tracekit.chains import load_with_bases
from tracekit.errors import TracekitError
from tracekit.events import Blob, RunRow
from tracekit.store import RunQuery, Store
from tracekit.store.assembling import trajectory_of
from tracekit.store.finding import named_blobs
from tracekit.trajectory import Trajectory

_CHUNK_RUNS, _CHUNK_EVENTS = 32, 4_000
"""So much is read of the store at a time."""
_VERDICTS: Mapping[str, VerdictKind] = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "not evaluated": "not evaluated",
}


def select(store: Store, query: RunQuery) -> list[RunRow]:
    """List the recorded runs that ``query`` means, oldest first; replays are none of them.

    Runs of sub-agents are replayed with the run that they belong to, unless an agent is named.
    """
    rows = [
        row
        for row in store.runs(replace(query, limit=None))
        if row.replay_of is None and (row.parent_run_id is None or query.agent is not None)
    ]
    return rows[: query.limit][::-1]


def done_before(
    store: Store, run_ids: Iterable[str], planner: str, versions: Mapping[str, str]
) -> dict[str, RunRow]:
    """Find the newest finished replay of each run that asked the same question."""
    wanted = set(run_ids)
    found: dict[str, RunRow] = {}
    for row in store.runs(RunQuery()):  # newest first
        if (
            row.replay_of in wanted
            and row.replay_of not in found
            and row.planner == planner
            and row.verdict is not None
            and _kind(row.verdict) is not None
            and parse_json(row.versions) == dict(versions)
        ):
            found[row.replay_of] = row
    return found


def kept_of(row: RunRow, replayed: Trajectory) -> Kept:
    """Read what a stored replay came to."""
    verdict = row.verdict or ""
    fidelity = parse_json(row.fidelity) if row.fidelity is not None else None
    kind = _kind(verdict)
    assert kind is not None
    return Kept(replayed, kind, tuple(reasons_of(verdict)), shares_of(fidelity))


def _kind(verdict: str) -> VerdictKind | None:
    return _VERDICTS.get(verdict.partition(": ")[0])


def trajectories(
    store: Store, rows: Iterable[RunRow]
) -> Iterator[tuple[str, Trajectory | RunOutcome]]:
    """Yield the trajectory of each run, or why there is none, a few read at a time."""
    for chunk in _chunks(rows):
        reader = _Chunk(store, chunk)
        for run_id in chunk:
            yield run_id, reader.trajectory(run_id)


def _chunks(rows: Iterable[RunRow]) -> Iterator[list[str]]:
    chunk: list[str] = []
    events = 0
    for row in rows:
        if chunk and (len(chunk) >= _CHUNK_RUNS or events + row.events > _CHUNK_EVENTS):
            yield chunk
            chunk, events = [], 0
        chunk.append(row.run_id)
        events += row.events
    if chunk:
        yield chunk


class _Chunk:
    """Some runs whose rows and values were read together."""

    def __init__(self, store: Store, run_ids: list[str]) -> None:
        self._store = store
        try:
            self._rows = dict(store.rows_of(run_ids))
            names = {name for rows in self._rows.values() for name in named_blobs(rows)}
            self._blobs = load_with_bases(names, store.blobs)
        except TracekitError:  # something is damaged: then each run by itself
            self._rows, self._blobs = {}, {}

    def trajectory(self, run_id: str) -> Trajectory | RunOutcome:
        """Build the trajectory of one run, or say why it cannot be built."""
        try:
            if run_id not in self._rows:
                return self._store.trajectory(run_id)
            return trajectory_of(self._rows[run_id], self._find)
        except TracekitError as error:
            return not_replayed(run_id, str(error))

    def _find(self, digests: Iterable[str]) -> Mapping[str, Blob]:
        wanted = set(digests)
        if missing := wanted - self._blobs.keys():  # what only values name
            self._blobs.update(self._store.blobs(missing))
        return {name: self._blobs[name] for name in wanted if name in self._blobs}
