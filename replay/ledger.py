"""What is recorded of one replay: handed to its sink, and kept for whoever looks at the replay.

Facts of calls that were answered come as lines and are handed on in groups: no body waits for their
begin to be on the disk. Any other fact is handed on at once, behind those that wait. What is kept
of a call is text, which costs the garbage collector nothing, however long the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracekit.events import FACT, Blob, Fact
from tracekit.sink import Sink

GROUP = 64
"""So many lines wait at most."""
_JSON = "application/json"


class Ledger:
    """The facts of one replay, and the blobs that they name."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.facts: list[Fact | bytes] = []
        """In the order in which they were told; lines are facts as JSON."""
        self.last_ns = 0
        """When the last of them happened."""
        self.texts: dict[str, bytes] = {}
        """Digest → the text of a blob."""
        self._waiting: list[bytes] = []
        self._needed: dict[str, Blob] = {}

    def load(self, digest: str) -> Blob | None:
        """Return the blob of that digest."""
        data = self.texts.get(digest)
        return None if data is None else Blob(digest, _JSON, data)

    def keep(self, blobs: Iterable[Blob]) -> None:
        """Keep blobs of a fact that comes later."""
        for blob in blobs:
            self.texts[blob.digest] = blob.data

    def put(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Keep ``fact`` and hand it on at once."""
        self.flush()
        self.keep(blobs)
        self.sink.write(fact, blobs)
        self.facts.append(fact)
        self.last_ns = fact.timestamp_ns

    def put_later(self, line: bytes, at_ns: int, blob: Blob, needed: str | None = None) -> None:
        """Keep the line of a fact that happened at ``at_ns``; hand it on with others.

        Args:
            line: The fact as JSON, with a line's end.
            at_ns: When it happened.
            blob: What it names.
            needed: Digest of another blob that it names, which is kept already.
        """
        self.texts[blob[0]] = blob[2]
        self._needed[blob[0]] = blob
        if needed is not None and needed not in self._needed:
            self._needed[needed] = Blob(needed, _JSON, self.texts[needed])
        self.facts.append(line)
        self.last_ns = at_ns
        self._waiting.append(line)
        if len(self._waiting) >= GROUP:
            self.flush()

    def flush(self) -> None:
        """Hand on what waits."""
        if not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        needed, self._needed = self._needed, {}
        blobs = [*needed.values()]
        write_all = getattr(self.sink, "write_all", None)
        if write_all is not None:
            write_all(lines, self.last_ns, blobs)
            return
        for place, line in enumerate(lines):
            self.sink.write(FACT.validate_json(line), () if place else blobs)
