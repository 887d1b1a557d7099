"""Journals read in bulk: what is alike in columns, the rest line by line.

All that is settled is read so: of the many facts of a journal only few have to become models.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import numpy as np

from tracekit.events import Fact
from tracekit.journal_reading import JournalContent, read_lines
from tracekit.store.alike import Alike, alike_in


@dataclass(frozen=True, slots=True)
class Bulk:
    """What could be read of one journal."""

    content: JournalContent
    """All but the facts that are alike."""
    lines: Sequence[int]
    """Where in the journal the facts of ``content`` stand."""
    alike: Sequence[Alike]

    @property
    def count(self) -> int:
        """How many facts there are."""
        return len(self.lines) + sum(map(len, self.alike))

    def whole(self) -> JournalContent:
        """Give all facts as models."""
        return self.with_facts(lambda alike: range(len(alike)))

    def with_facts(self, chosen: Callable[[Alike], Sequence[int]]) -> JournalContent:
        """Give the facts that are models, and those ``chosen`` of the others, in their order."""
        told = list(zip(self.lines, self.content.facts, strict=True))
        more: list[tuple[int, Fact]] = []
        for alike in self.alike:
            places = chosen(alike)
            more += zip(alike.lines[places].tolist(), alike.facts(places), strict=True)
        if not more:
            return self.content
        more.sort(key=itemgetter(0))
        facts = [fact for _, fact in heapq.merge(told, more, key=itemgetter(0))]
        return replace(self.content, facts=facts)


def read_in_bulk(path: Path) -> Bulk:
    """Read ``path``; it says what ``read_journal`` says."""
    data = path.read_bytes()
    every = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(every == ord("\n"))
    starts = np.concatenate(([0], ends + 1))
    stops = np.append(ends, len(data))
    alike, left = alike_in(every, starts, stops)
    places = np.flatnonzero(left)
    spans = zip((places + 1).tolist(), starts[places].tolist(), stops[places].tolist(), strict=True)
    lines = ((number, data[start:stop]) for number, start, stop in spans)
    content, numbers = read_lines(path.name, lines, last=len(starts))
    return Bulk(content, [number - 1 for number in numbers], alike)
