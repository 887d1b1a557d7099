"""Where facts go. A sink takes a fact and the blobs it refers to, together, or raises.

One that writes lines may also have ``write_draft``, which takes a ``Draft`` for the fact, and
``append``, which takes the line itself and when the fact happened. One whose files somebody may
delete has ``ground`` and ``stands``, and ``remember_loss`` where it has room for that on a full
disk, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from tracekit.events import FACT, Blob, Fact


class Sink(Protocol):
    """Takes facts of one writer. Each fact carries the writer's name and its place in it."""

    def stamp(self) -> tuple[str, int]:
        """Name the writer and number the next fact."""

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Keep ``fact`` and ``blobs`` before returning.

        Raises:
            OSError: they could not be kept.
        """

    def close(self) -> None:
        """Let go of what the sink holds; nothing more will be written."""


class MemorySink:
    """Keeps facts and blobs in memory: for tests, and for runs that are not to be stored."""

    def __init__(self, writer: str = "memory") -> None:
        self.writer = writer
        self.facts: list[Fact] = []
        self.blobs: dict[str, Blob] = {}
        self._numbers = itertools.count()

    def stamp(self) -> tuple[str, int]:
        """Name the writer and number the next fact."""
        return self.writer, next(self._numbers)

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Keep ``fact`` and ``blobs``."""
        self.facts.append(fact)
        for blob in blobs:
            self.blobs[blob.digest] = blob

    def append(self, line: bytes, _at_ns: int, blobs: Sequence[Blob]) -> None:
        """Keep the fact on ``line``, and ``blobs``."""
        self.write(FACT.validate_json(line), blobs)

    def close(self) -> None:
        """Nothing is held."""


class NowhereSink:
    """Takes facts and keeps none: where nothing is to be recorded."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def stamp(self) -> tuple[str, int]:
        """Name no writer; facts that are kept elsewhere have an order all the same."""
        return "nowhere", next(self._numbers)

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Keep nothing."""

    def write_all(self, lines: Sequence[bytes], at_ns: int, blobs: Sequence[Blob]) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Nothing is held."""


def ground_of(sink: Sink) -> object:
    """What values written to ``sink`` are found by; another one once they are not there."""
    ground = getattr(sink, "ground", None)
    return sink if ground is None else ground()


def stands(sink: Sink) -> bool:
    """Whether what was written to ``sink`` last is still there."""
    ask = getattr(sink, "stands", None)
    return ask is None or bool(ask())
