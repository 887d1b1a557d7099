"""Aliases: what stands in the new run for an id, a time or a random value of the recorded one.

Pairs are known, not guessed: both runs were given the value at the same site, the same time round.
Only values that are hardly met by chance are paired. A die that fell on 4 when recorded and on 7
now must not make a refund of 7 equal to a refund of 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from tracekit.canonical import JsonValue, canonical_text

V = TypeVar("V")

SHORTEST_TEXT = 8
"""Characters below which a minted text is not distinctive."""
SMALLEST_NUMBER = 1_000_000
"""Below it a minted integer is not distinctive."""
SHORTEST_FRACTION = 8
"""Significant characters below which a minted float is not distinctive."""


class Aliases:
    """Pairs of a value minted in the replay and the recorded value it stands for."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._numbers: dict[str, list[JsonValue]] = {}
        self._pattern: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._texts or self._numbers)

    def pair(self, new: JsonValue, recorded: JsonValue) -> None:
        """Let ``new`` stand for ``recorded``, unless they are equal or not distinctive."""
        if canonical_text(new) == canonical_text(recorded):
            return
        if isinstance(new, str) and isinstance(recorded, str):
            if min(len(new), len(recorded)) >= SHORTEST_TEXT:
                _add(self._texts, new, recorded)
                self._pattern = None
        elif _distinctive_number(new) and _distinctive_number(recorded):
            _add(self._numbers, canonical_text(new), recorded)

    def variants(self, value: JsonValue) -> Iterator[JsonValue]:
        """Yield ``value`` in the words of the record; nothing where no alias stands in it.

        Where one new value stands for several recorded ones, as a slow clock's may, the first is
        tried, then the last.
        """
        if not self:
            return
        before = canonical_text(value)
        tried = {before}
        for pick in (0, -1):
            variant = self._replaced(value, pick)
            if (text := canonical_text(variant)) not in tried:
                tried.add(text)
                yield variant

    def _replaced(self, value: JsonValue, pick: int) -> JsonValue:
        if isinstance(value, str):
            return self._in_text(value, pick)
        if isinstance(value, dict):
            return {self._in_text(k, pick): self._replaced(v, pick) for k, v in value.items()}
        if isinstance(value, list):
            return [self._replaced(item, pick) for item in value]
        if _distinctive_number(value):
            known = self._numbers.get(canonical_text(value))
            return value if known is None else known[pick]
        return value

    def _in_text(self, text: str, pick: int) -> str:
        if not self._texts or len(text) < SHORTEST_TEXT:
            return text
        if self._pattern is None:
            # Longest first: an id may begin with another one.
            longest = sorted(self._texts, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest)))
        return self._pattern.sub(lambda found: self._texts[found[0]][pick], text)


def _add(table: dict[str, list[V]], new: str, recorded: V) -> None:
    known = table.setdefault(new, [])
    if recorded not in known:
        known.append(recorded)


def _distinctive_number(value: JsonValue) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int) or value.is_integer():
        return abs(value) >= SMALLEST_NUMBER
    return len(canonical_text(value)) >= SHORTEST_FRACTION
