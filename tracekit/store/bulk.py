"""Journals read in bulk: what is alike in columns, the rest line by line.

All that is settled is read so: of the many facts of a journal only few have to become models.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress, repeat
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit.canonical import digest_bytes
from tracekit.events import Blob, Fact
from tracekit.journal_reading import (
    BLOB_HEAD,
    JSON,
    JSON_PAYLOAD,
    JournalContent,
    read_data,
    read_lines,
)
from tracekit.store.alike import Alike, Bytes, Numbers, alike_in

_HEAD = np.frombuffer(BLOB_HEAD + digest_bytes(b"").encode() + JSON_PAYLOAD, np.uint8)
_DATA_AT = len(_HEAD)
_DIGEST = (np.arange(_DATA_AT) >= len(BLOB_HEAD)) & (
    np.arange(_DATA_AT) < _DATA_AT - len(JSON_PAYLOAD)
)
"""Where the digest stands in what a payload's line begins with."""


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
    data = read_data(path)
    every = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(every == ord("\n"))
    starts = np.concatenate(([0], ends + 1))
    stops = np.append(ends, len(data))
    alike, left = alike_in(every, starts, stops)
    payloads = _payloads(every, starts, stops)
    blobs, sound = _blobs(data, every, starts[payloads], stops[payloads])
    left[payloads[sound]] = False
    content, numbers = _one_by_one(path.name, data, starts, stops, np.flatnonzero(left))
    if not blobs.keys().isdisjoint(content.blobs):  # the last one counts, whatever its form
        left[payloads] = True
        content, numbers = _one_by_one(path.name, data, starts, stops, np.flatnonzero(left))
        return Bulk(content, numbers, alike)
    return Bulk(replace(content, blobs=blobs | content.blobs), numbers, alike)


def _one_by_one(
    name: str, data: bytes, starts: Numbers, stops: Numbers, places: Numbers
) -> tuple[JournalContent, list[int]]:
    spans = zip(places.tolist(), starts[places].tolist(), stops[places].tolist(), strict=True)
    lines = ((place + 1, data[start:stop]) for place, start, stop in spans)
    content, numbers = read_lines(name, lines, last=len(starts))
    return content, [number - 1 for number in numbers]


def _payloads(every: Bytes, starts: Numbers, stops: Numbers) -> Numbers:
    """Find the lines that are JSON payloads, written as a recorder writes them."""
    places: Numbers = np.flatnonzero(stops - starts >= _DATA_AT + len(b"}}"))
    first, last = starts[places], stops[places]
    places = places[
        (every[first + 2] == ord("b"))
        & (every[last - 1] == ord("}"))
        & (every[last - 2] == ord("}"))
    ]
    if not len(places):
        return np.zeros(0, np.int64)
    heads = np.lib.stride_tricks.sliding_window_view(every, _DATA_AT)[starts[places]]
    same = (heads == _HEAD) | _DIGEST
    found: Numbers = places[same.all(axis=1)]
    return found


def _blobs(
    data: bytes, every: Bytes, starts: Numbers, stops: Numbers
) -> tuple[dict[str, Blob], NDArray[np.bool_]]:
    """Read the payloads on some lines, and tell which of them are what their digests say."""
    if not len(starts):
        return {}, np.zeros(0, np.bool_)
    spans = zip((starts + _DATA_AT).tolist(), (stops - len(b"}}")).tolist(), strict=True)
    payloads = [data[start:stop] for start, stop in spans]
    names = list(map(digest_bytes, payloads))
    found = np.frombuffer("".join(names).encode(), np.uint8).reshape(len(names), -1)
    said = np.lib.stride_tricks.sliding_window_view(every, found.shape[1])
    sound: NDArray[np.bool_] = (said[starts + len(BLOB_HEAD)] == found).all(axis=1)
    blobs = map(Blob._make, zip(names, repeat(JSON), payloads))
    kept = compress(zip(names, blobs, strict=True), sound.tolist())
    return dict(kept), sound
