"""Shelves: recorded calls that are the same under one lens, and which of them comes next.

Taking the next one costs the same on a shelf of ten thousand as on a shelf of one: queues are kept
by write set and by causal path, and drop what is taken when they meet it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet

from replay.tape import RecordedCall

Path = tuple[str, ...]
WriteSet = AbstractSet[str] | None
"""None where the write set does not matter: a write, a pure call."""
Fits = Callable[[int], bool]


class Queue:
    """Places on the tape in recorded order, also by causal path."""

    def __init__(self, places: Sequence[int], path_of: Callable[[int], Path]) -> None:
        self._all = deque(places)
        self._paths: dict[Path, deque[int]] = {}
        for place in places:
            self._paths.setdefault(path_of(place), deque()).append(place)

    def next(self, path: Path, taken: Collection[int], fits: Fits | None = None) -> int | None:
        """Return the first place not taken, on the same path if there is one."""
        for places in (self._paths.get(path), self._all):
            if places:
                _drop_taken(places, taken)
                found = next(_open(places, taken, fits), None)
                if found is not None:
                    return found
        return None

    def on_path(self, path: Path, taken: Collection[int]) -> Iterator[int]:
        """Yield the places not taken on one path."""
        return _open(self._paths.get(path, deque()), taken, None)

    def heads(self, taken: Collection[int], fits: Fits | None = None) -> Iterator[int]:
        """Yield the first place not taken of each path."""
        for places in self._paths.values():
            _drop_taken(places, taken)
            found = next(_open(places, taken, fits), None)
            if found is not None:
                yield found


class Shelf:
    """Recorded calls that are the same under one lens."""

    def __init__(self, entries: Sequence[RecordedCall]) -> None:
        self._entries = {entry.index: entry for entry in entries}
        self._queues: dict[tuple[bool, WriteSet], list[int]] = {}
        self._built: dict[tuple[bool, WriteSet], Queue] = {}
        self._served: dict[WriteSet, list[int]] = {}
        self.racers = Queue(
            [e.index for e in entries if e.racing and e.call.covered_by is None], self._path_of
        )
        """Those for which the record leaves open whether they saw some write."""
        for entry in entries:
            covered = entry.call.covered_by is not None
            for write_set in (None, entry.call.write_set):
                self._queues.setdefault((covered, write_set), []).append(entry.index)

    def __len__(self) -> int:
        return len(self._entries)

    def queue(self, write_set: WriteSet, *, covered: bool) -> Queue | None:
        """Return the calls with that write set, or all; those beneath other calls stand apart."""
        at = (covered, write_set)
        if at not in self._built and at in self._queues:
            self._built[at] = Queue(self._queues[at], self._path_of)
        return self._built.get(at)

    def _path_of(self, place: int) -> Path:
        return self._entries[place].call.path

    def note_served(self, place: int) -> None:
        """Remember that this observation was given out."""
        for write_set in (None, self._entries[place].call.write_set):
            self._served.setdefault(write_set, []).append(place)

    def last_served(self, write_set: WriteSet, fits: Fits | None) -> int | None:
        """Return the observation given out last, among those with that write set."""
        served = reversed(self._served.get(write_set, ()))
        return next((place for place in served if fits is None or fits(place)), None)


def _drop_taken(places: deque[int], taken: Collection[int]) -> None:
    while places and places[0] in taken:
        places.popleft()


def _open(places: deque[int], taken: Collection[int], fits: Fits | None) -> Iterator[int]:
    return (p for p in places if p not in taken and (fits is None or fits(p)))
