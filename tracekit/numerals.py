"""Numbers of things in words, for every sentence that counts something."""

from __future__ import annotations


def counted(number: int, what: str, *, plural: str | None = None) -> str:
    """Write how many there are of something: ``1 run``, ``1,234 runs``."""
    return f"{number:,} {what if number == 1 else plural or f'{what}s'}"
