"""The shelves of a tape, and what a replay has taken from them."""

from __future__ import annotations

from collections import defaultdict

from replay.matching.keys import KeysSoFar
from replay.matching.lenses import EXACT, View
from replay.matching.question import Attempt
from replay.matching.shelves import Shelf
from replay.tape import RecordedCall, Tape


class Library:
    """Finds the shelf for a tool and a key; builds what is asked for, when it is asked for."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.keys = KeysSoFar(tape)
        self.taken: set[int] = set()
        """Places whose observation was given out, or that are covered by one."""
        self._last = 0
        self._turns: dict[int, int] = {}
        """Place → how many were taken before it."""
        self._shelves: dict[tuple[str, str, str], Shelf] = {}
        self._standing_on: defaultdict[int, list[Shelf]] = defaultdict(list)
        self._sorted: dict[tuple[str, str], dict[str, list[RecordedCall]]] = {}

    def shelf(self, tool: str, attempt: Attempt) -> Shelf | None:
        """Return the recorded calls of ``tool`` that look the same as the attempt."""
        at = (tool, attempt.lens.name, attempt.key)
        if at not in self._shelves:
            entries = self._entries(tool, attempt.lens, attempt.key)
            if not entries:
                return None
            self._shelves[at] = self._build(entries)
        return self._shelves[at]

    def sole(self, tool: str, key: str) -> RecordedCall | None:
        """Return the call whose arguments have that digest, where it is the only one and unused."""
        places = self.tape.by_key.get((tool, key), ())
        if len(places) != 1 or places[0] in self.taken:
            return None
        recorded = self.tape.calls[places[0]]
        return None if recorded.racing or recorded.call.covered_by is not None else recorded

    def take(self, place: int) -> None:
        """Use up a place; its observation may be given again."""
        self.taken.add(place)
        self._turns[place] = len(self._turns)
        self._last = place
        for shelf in self._standing_on.get(place, ()):
            shelf.note_served(place)

    @property
    def last_taken(self) -> int:
        """The place that was used up last; the first of the tape at the start."""
        return self._last

    def _build(self, entries: list[RecordedCall]) -> Shelf:
        shelf = Shelf(entries)
        standing = {entry.index for entry in entries}
        for place in standing:
            self._standing_on[place].append(shelf)
        for place in sorted(standing & self.taken, key=self._turns.__getitem__):
            shelf.note_served(place)
        return shelf

    def _entries(self, tool: str, lens: View, key: str) -> list[RecordedCall]:
        if lens is EXACT:
            return [self.tape.calls[place] for place in self.tape.by_key.get((tool, key), ())]
        if (tool, lens.name) not in self._sorted:
            by_key: defaultdict[str, list[RecordedCall]] = defaultdict(list)
            for place in self.tape.by_tool.get(tool, ()):
                recorded = self.tape.calls[place]
                by_key[lens.key(recorded.arguments)].append(recorded)
            self._sorted[tool, lens.name] = dict(by_key)
        return self._sorted[tool, lens.name].get(key, [])
