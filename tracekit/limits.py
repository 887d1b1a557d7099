"""How much of what is recorded is kept, and what stands for the rest.

Events are never dropped. A value that is too large is cut: its length, its digest and how it begins
are kept, and it is marked ``truncated``. Once a run or the store is full, values are kept as their
digests alone. A replay can answer with neither, and says so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from tracekit.canonical import JsonValue
from tracekit.chains import make_blob
from tracekit.errors import UsageError
from tracekit.events import Blob, Payload
from tracekit.interruption import Suppressed

HEAD = 2_000
"""So many characters of a value that was cut are kept for whoever looks at it."""
_MEASURED_EVERY = 32
"""The store is measured again when a part of its limit has been written: one in so many."""
_FULL_AGAIN = 1_000
"""And so many values after it was found full, since somebody may have made room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many bytes of values are kept, before compression; None is as many as there are."""

    value_bytes: int | None = 64 << 20
    """Of one value."""
    run_bytes: int | None = None
    """Of all values of one run."""
    store_bytes: int | None = None
    """Of the store's folder, on disk. It is measured now and then, so a little more may be kept."""

    def __post_init__(self) -> None:
        for one in fields(self):
            limit = getattr(self, one.name)
            if limit is not None and (not isinstance(limit, int) or limit < 0):
                raise UsageError(
                    f"{one.name}={limit!r} is no limit", hint="give a number of bytes, or None"
                )


NO_LIMITS = Limits(value_bytes=None)


def cut(payload: Payload, data: bytes) -> tuple[Payload, Blob]:
    """Keep of a value its length, its digest and how it begins.

    Args:
        payload: What would be said of the whole; its digest is kept.
        data: The whole, redacted, as JSON.
    """
    blob = make_blob(cut_mark(data, payload.digest))
    return Payload(state="truncated", digest=payload.digest, blob=blob.digest), blob


def cut_mark(data: bytes, digest: str | None) -> JsonValue:
    """Say of a value, as JSON, what stands for it where it is cut."""
    head = data[: 4 * HEAD].decode(errors="ignore")[:HEAD]
    return {"$truncated": {"bytes": len(data), "digest": digest, "head": head}}


def only_digest(payload: Payload) -> Payload:
    """Keep of a value nothing but its digest."""
    return Payload(state="truncated", digest=payload.digest)


@dataclass(slots=True)
class StoreMeter:
    """Knows about how many bytes a store has, without looking at each value."""

    places: tuple[Path, ...]
    limit: int
    _known: int | None = None
    _since: int = 0
    """Bytes handed over since it was measured."""
    _refused: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def has_room(self, size: int) -> bool:
        """Tell whether ``size`` more bytes may be kept, and count them if so."""
        with self._lock:
            full = self._refused and self._refused % _FULL_AGAIN
            if self._known is None or (not full and self._due()):
                self._known, self._since = size_of(self.places), 0
            if self._known + self._since + size > self.limit:
                self._refused += 1
                return False
            self._refused = 0
            self._since += size
            return True

    def _due(self) -> bool:
        return self._refused > 0 or self._since > self.limit // _MEASURED_EVERY


def size_of(places: Iterable[Path]) -> int:
    """Add up the bytes of all files at ``places``; one inside another counts once."""
    total = 0
    seen: set[str] = set()
    waiting = [str(place) for place in places]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        with Suppressed(OSError):  # not there yet, or gone meanwhile
            if not os.path.isdir(place):
                total += os.stat(place).st_size
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total
