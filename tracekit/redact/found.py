"""What redaction comes to: a value without its secrets, or where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.canonical import JsonValue


@dataclass(frozen=True)
class Redacted:
    """A value without its secrets."""

    value: JsonValue
    kinds: Mapping[str, int]
    """Kind of secret → how many were replaced."""
    failure: str | None = None
    """Why the value as a whole was replaced, if it was; holds no part of the value."""

    @property
    def count(self) -> int:
        """How many secrets were replaced."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class Finding:
    """A secret that is not redacted. It does not hold the secret."""

    pointer: str
    """JSON pointer to the value that holds it."""
    kind: str
