"""A digest that is taken piece by piece, and can be continued from any piece in several ways."""

from __future__ import annotations

import hashlib


class RunningDigest:
    """The digest of what was added so far; a copy goes on by itself."""

    __slots__ = ("_state",)

    def __init__(self, data: bytes = b"") -> None:
        self._state = hashlib.sha256(data)

    def with_more(self, data: bytes) -> RunningDigest:
        """Give the digest of all this and ``data``; this one stays as it is."""
        longer = RunningDigest.__new__(RunningDigest)
        longer._state = self._state.copy()
        longer._state.update(data)
        return longer

    def name(self) -> str:
        """Name the identity of the bytes so far, as ``digest_bytes`` does."""
        return "sha256:" + self._state.hexdigest()
