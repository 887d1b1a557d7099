"""Many runs, whole: their rows and trajectories, a few read at a time.

No more of them is in memory than one chunk; what is damaged is told of the run that it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tracekit.chains import load_with_bases
from tracekit.errors import TracekitError
from tracekit.events import Blob, Event
from tracekit.store.assembling import trajectory_of
from tracekit.store.finding import named_blobs
from tracekit.store.types import Store
from tracekit.trajectory import Trajectory

_CHUNK_RUNS, _CHUNK_EVENTS = 32, 4_000
"""So much is read of the store at a time."""


class Sized(Protocol):
    """A run of the catalogue, and how many rows it has."""

    @property
    def run_id(self) -> str:
        """Which run."""

    @property
    def events(self) -> int:
        """How many rows."""


class WholeRun(NamedTuple):
    """A run as it was read."""

    rows: Sequence[Event]
    trajectory: Trajectory


def read_runs(
    store: Store, runs: Iterable[Sized]
) -> Iterator[tuple[str, WholeRun | TracekitError]]:
    """Yield each run, or why it cannot be read."""
    for chunk in chunks(runs):
        reader = _Chunk(store, chunk)
        for run_id in chunk:
            try:
                yield run_id, reader.read(run_id)
            except TracekitError as error:
                yield run_id, error


def chunks(runs: Iterable[Sized]) -> Iterator[list[str]]:
    """Take so many runs together as are read at a time."""
    chunk: list[str] = []
    events = 0
    for run in runs:
        if chunk and (len(chunk) >= _CHUNK_RUNS or events + run.events > _CHUNK_EVENTS):
            yield chunk
            chunk, events = [], 0
        chunk.append(run.run_id)
        events += run.events
    if chunk:
        yield chunk


class _Chunk:
    """Some runs whose rows and values are read together."""

    def __init__(self, store: Store, run_ids: list[str]) -> None:
        self._store = store
        try:
            self._rows = dict(store.rows_of(run_ids))
            names = {name for rows in self._rows.values() for name in named_blobs(rows)}
            self._blobs = load_with_bases(names, store.blobs)
        except TracekitError:  # something is damaged: then each run by itself
            self._rows, self._blobs = {}, {}

    def read(self, run_id: str) -> WholeRun:
        """Read one run."""
        rows = self._rows.get(run_id)
        if rows is None:
            return WholeRun(self._store.events(run_id), self._store.trajectory(run_id))
        return WholeRun(rows, trajectory_of(rows, self._find))

    def _find(self, digests: Iterable[str]) -> Mapping[str, Blob]:
        wanted = set(digests)
        if missing := wanted - self._blobs.keys():  # what only values name
            self._blobs.update(self._store.blobs(missing))
        return {name: self._blobs[name] for name in wanted if name in self._blobs}
