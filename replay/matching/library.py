"""The shelves of a tape, and what a replay has taken from them."""

from __future__ import annotations

from collections import defaultdict

from replay.matching.lenses import EXACT, View
from replay.matching.question import Attempt
from replay.matching.shelves import Shelf
from replay.tape import RecordedCall, Tape


class Library:
    """Finds the shelf for a tool and a key; builds what is asked for, when it is asked for."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.taken: set[int] = set()
        """Places whose observation was given out, or that are covered by one."""
        self._order: list[int] = []
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

    def take(self, place: int) -> None:
        """Use up a place; its observation may be given again."""
        self.taken.add(place)
        self._order.append(place)
        for shelf in self._standing_on.get(place, ()):
            shelf.note_served(place)

    @property
    def last_taken(self) -> int:
        """The place that was used up last; the first of the tape at the start."""
        return self._order[-1] if self._order else 0

    def _build(self, entries: list[RecordedCall]) -> Shelf:
        shelf = Shelf(entries)
        standing = {entry.index for entry in entries}
        for place in standing:
            self._standing_on[place].append(shelf)
        if not standing.isdisjoint(self.taken):
            for place in self._order:
                if place in standing:
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
