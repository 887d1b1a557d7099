"""Write sets: which writes a call could see, kept so that a long run costs no more than its length.

The writes that a tool can see stand in one line, in the order in which they came to an end; what a
call saw of them is the line up to some place. So a set costs its place in the line, however many
writes are in it, and two of them are compared by the sums of what their members are digested to.
"""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from tracekit.canonical import digest_bytes
from tracekit.trajectory import Call

Touches = tuple[str, ...] | None

_WORD = 2 * sys.maxsize + 1
_MARK = (1 << 128) - 1


class Line:
    """Names of writes, one after the other; what was added stays where it is."""

    __slots__ = ("_names", "_places", "_sums")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._sums: list[tuple[int, int]] = [(0, 0)]
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        return Line, (self._names,)  # hashes are of this process

    def add(self, name: str) -> None:
        """Put a name at the end, unless it stands there."""
        if name in self._places:
            return
        mixed, mark = self._sums[-1]
        own = int(digest_bytes(name.encode()).removeprefix("sha256:")[:32], 16)
        self._places[name] = len(self._names)
        self._names.append(name)
        self._sums.append((mixed ^ _mix(hash(name)), mark + own & _MARK))

    def first(self, count: int) -> WriteSet:
        """Return the first ``count`` names as a set, which no later name changes."""
        return WriteSet(((self, count),))


class WriteSet(AbstractSet[str]):
    """The beginnings of lines that have no name in common; equal to any set of the same names.

    It has the hash of a ``frozenset`` of its names, and stands for one wherever that is looked up.
    """

    __slots__ = ("_hashed", "_mark", "_parts", "_size")

    def __init__(self, parts: tuple[tuple[Line, int], ...]) -> None:
        self._parts = tuple((line, count) for line, count in parts if count)
        sums = [line._sums[count] for line, count in self._parts]
        self._size = sum(count for _, count in self._parts)
        self._mark = sum(mark for _, mark in sums) & _MARK
        mixed = 0
        for one, _ in sums:
            mixed ^= one
        self._hashed = _finished(mixed, self._size)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        for line, count in self._parts:
            yield from itertools.islice(line._names, count)

    def __contains__(self, name: object) -> bool:
        return any(line._places.get(name, count) < count for line, count in self._parts)  # type: ignore[call-overload]  # asked about anything

    def __eq__(self, other: object) -> bool:
        if type(other) is WriteSet:
            return self._size == other._size and self._mark == other._mark
        if isinstance(other, (frozenset, AbstractSet)):  # of usual sets the first says it quickly
            return self._size == len(other) and all(map(self.__contains__, other))
        return NotImplemented

    def __hash__(self) -> int:
        return self._hashed

    def __repr__(self) -> str:
        return repr(frozenset(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return WriteSet, (self._parts,)

    @classmethod
    def _from_iterable(
        cls, it: Iterable[Any]
    ) -> frozenset[Any]:  # what is made of sets is a plain one
        return frozenset(it)

    @staticmethod
    def union(sets: Iterable[AbstractSet[str]]) -> frozenset[str]:
        """Join sets, each line once, as far as one of them goes."""
        longest: dict[int, tuple[Line, int]] = {}
        joined: set[str] = set()
        for one in sets:
            if type(one) is not WriteSet:
                joined |= one
                continue
            for line, count in one._parts:
                if count > longest.get(id(line), (line, 0))[1]:
                    longest[id(line)] = line, count
        return frozenset(joined).union(*(WriteSet((part,)) for part in longest.values()))


def _mix(own: int) -> int:
    """What one member adds to the hash of a set; see ``collections.abc.Set._hash``."""
    return (own ^ (own << 16) ^ 89869747) * 3644798167 & _WORD


def _finished(mixed: int, size: int) -> int:
    found = (1927868237 * (size + 1) & _WORD) ^ mixed
    found ^= (found >> 11) ^ (found >> 25)
    found = found * 69069 + 907133923 & _WORD
    if found > sys.maxsize:
        found -= _WORD + 1
    return 590923713 if found == -1 else found


def share(left: Touches, right: Touches) -> bool:
    """Tell whether both touch a common resource; who names none touches all."""
    return left is None or right is None or not set(left).isdisjoint(right)


def touched_by(call: Call) -> Touches:
    """What the tool of a call touches."""
    return None if call.contract is None else call.contract.touches


def with_write_sets(calls: Sequence[Call]) -> list[Call]:
    """Give each call the successful writes that had ended before it began and share a resource.

    Where the record has no times, calls count as made one after the other.
    """
    writes = [
        (place, call)
        for place, call in enumerate(calls)
        if call.writes and not call.observation.is_error and not call.refused
    ]
    if not writes:
        return list(calls)
    known: dict[Touches, _Writes] = {}
    found = []
    for place, call in enumerate(calls):
        touches = touched_by(call)
        if touches not in known:
            known[touches] = _Writes([w for w in writes if share(touched_by(w[1]), touches)])
        found.append(replace(call, write_set=known[touches].before(place, call)))
    return found


class _Writes:
    """The writes that tools of some resources can see, in the order in which they ended."""

    def __init__(self, writes: Sequence[tuple[int, Call]]) -> None:
        timed = [w for w in writes if w[1].ts_end_ns is not None and w[1].latency_ns is not None]
        # One that took no time is not seen by what began at that moment: it stands behind those.
        ended = sorted(((w.ts_end_ns or 0, w.ts_start_ns == w.ts_end_ns), at) for at, w in timed)
        names = {at: w.event_id for at, w in writes}
        self._ends = [end for end, _ in ended]
        self._timed = Line(names[at] for _, at in ended)
        untimed = names.keys() - {at for at, _ in timed}
        self._untimed_places = sorted(untimed)
        self._untimed = Line(names[at] for at in self._untimed_places)
        self._places = [at for at, _ in writes]
        self._all = Line(names.values())
        self._began_after_their_end: defaultdict[int | None, set[str]] = defaultdict(set)
        for _, write in timed:
            if (write.ts_start_ns or 0) > (write.ts_end_ns or 0):  # a clock that was set back
                self._began_after_their_end[write.ts_start_ns].add(write.event_id)

    def before(self, place: int, call: Call) -> AbstractSet[str]:
        """Return those that the call at ``place`` could see."""
        began = call.ts_start_ns
        if began is None:
            return self._all.first(bisect_left(self._places, place))
        ended = bisect_right(self._ends, (began, False))
        untimed = bisect_left(self._untimed_places, place)
        found = WriteSet(((self._timed, ended), (self._untimed, untimed)))
        if began in self._began_after_their_end:
            return frozenset(found - self._began_after_their_end[began])
        return found
