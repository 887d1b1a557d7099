"""A run's trajectory from its rows and values, read all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tracekit.assembly import build
from tracekit.chains import load_with_bases
from tracekit.events import Blob, Event
from tracekit.store.finding import named_blobs
from tracekit.trajectory import Trajectory


def trajectory_of(
    rows: Sequence[Event], find: Callable[[Iterable[str]], Mapping[str, Blob]]
) -> Trajectory:
    """Build the trajectory of one run; ``find`` gives values by digest."""
    blobs = load_with_bases(named_blobs(rows), find)

    def load(digest: str) -> Blob | None:
        if digest not in blobs:
            blobs.update(find([digest]))
        return blobs.get(digest)

    return build(rows, load)
