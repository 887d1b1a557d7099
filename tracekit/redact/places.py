"""Where in a long text something may stand that a finder would look closer at.

The one idea: an automaton goes over a piece of a text many times quicker than ``re``, but says only
whether there is something in it. Asked of one piece after the other, it tells where to look. It
errs to one side only: in a piece where it sees nothing, no find begins.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cache

from pydantic_core import SchemaValidator, core_schema

Sees = Callable[[str], bool]
Pieces = list[tuple[int, int]]
"""Where pieces of a text begin and end, in order and apart."""

_LONG = 1 << 14
"""Shorter texts are looked at as a whole."""
NOT_ASCII = r"\x{80}-\x{10FFFF}"
"""Whatever else may count as a letter; in a class of characters."""
BEFORE, BEHIND = 64, 96
"""So much around a piece is seen as well: no sign by which a find is known is longer."""
_PIECE = 512
"""Fewer characters cost more calls, more of them are looked at in vain."""
_NEGATED = re.compile(r"\[\^([^\]]*)\]")
_OTHER_DIGITS = r"[\p{Nd}--[0-9]]"


def is_long(text: str | bytes) -> bool:
    """Whether to ask where to look, in pieces, is worth it."""
    return len(text) >= _LONG


@cache
def seer(pattern: str, *, ascii_only: bool) -> Sees:
    """Return what says whether ``pattern`` of the automaton's language matches in a text."""
    if ascii_only:  # a smaller automaton
        pattern = ascii_form(pattern)
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    sees: Sees = SchemaValidator(schema).isinstance_python
    return sees


def ascii_form(pattern: str) -> str:
    """Return what of ``pattern`` can match in a text that is ASCII."""
    return _NEGATED.sub(r"[\\x00-\\x7F&&[^\1]]", pattern.replace(NOT_ASCII, ""))


class Signs:
    """The signs of several finders, looked for together: most pieces hold none of any.

    What matches a sign begins no more than ``BEFORE`` characters before the find that it is a sign
    of, and ends no more than ``BEHIND`` behind the beginning of that.
    """

    def __init__(self) -> None:
        self._signs: list[str] = []

    def add(self, sign: str) -> str:
        """Look for one more, in the language of the automaton."""
        self._signs.append(sign)
        return sign

    def starts(self, raw: bytes) -> list[int]:
        """Return where pieces begin that hold any sign."""
        return _pieces("|".join(self._signs), raw.decode(), None)


SIGNS = Signs()


def pieces_with(sign: str, raw: bytes, starts: list[int] | None = None) -> Pieces:
    """Return the pieces of a text outside of which nothing begins that ``sign`` goes with.

    Args:
        sign: What is looked for.
        raw: The text, and a question mark for each character that is none of ASCII.
        starts: Where the pieces begin that are worth it, if that is known.
    """
    found: Pieces = []
    for start in _pieces(sign, raw.decode(), starts):
        end = min(start + _PIECE, len(raw))
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


def _pieces(sign: str, text: str, starts: list[int] | None) -> list[int]:
    sees = seer(sign.replace(NOT_ASCII, "?"), ascii_only=True)
    if starts is None:
        if not sees(text):
            return []
        starts = [*range(0, len(text), _PIECE)]
    return [
        start for start in starts if sees(text[max(0, start - BEFORE) : start + _PIECE + BEHIND])
    ]


def has_other_digits(text: str) -> bool:
    """Whether there may be digits that are none of the ten of ASCII."""
    return not text.isascii() and seer(_OTHER_DIGITS, ascii_only=False)(text)


def overlapping(runs: Pieces, pieces: Pieces) -> Pieces:
    """Return those of ``runs`` that have a part in one of ``pieces``; both are in order."""
    found: Pieces = []
    first = 0
    for begin, end in pieces:
        first = bisect_right(runs, (begin, begin), first)
        if first and runs[first - 1][1] > begin and (not found or found[-1] != runs[first - 1]):
            found.append(runs[first - 1])
        last = bisect_left(runs, (end, end), first)
        found += runs[first:last]
        first = last
    return found
