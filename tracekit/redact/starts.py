"""Where alone a match of a detector's pattern may begin.

The one idea: what a match must hold is found by a search for bytes, which is many times quicker
than to try the pattern at every character of its first class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tracekit.redact.look import Look
from tracekit.redact.places import has_other_digits

CARD_RUN = b"0" * 15
"""The digits of a card without gaps, in the shape."""
CARD_GROUPS = {
    form.replace(b"+", gap): rest
    for form, rest in ((b"0000+0000+0000", 4), (b"0000+000000", 5))
    for gap in (b" ", b"-", b"?")
}
"""How a card begins that has gaps, in the shape; and how many digits follow behind the next gap."""
PHONE_GROUPS = (b"000-000-0000", b"000.000.0000")
PHONE_BEHIND_AREA = (b") 000-0000", b")000-0000")
_AREA = 4
"""Characters of ``(415``."""
_LONGEST_ESCAPE = 4
"""Digits at the end of ``\\u0026``, behind which a number may begin."""
_ZEROS = re.compile(rb"0*")
_ADDRESS_END = re.compile(r"[\w.%+-]*")
_NAMES = bytes(120 if chr(code).isalnum() or chr(code) in "_.%+-" else 32 for code in range(128))
_NAMES += bytes(128)
_ESCAPE_ENDS = frozenset("\\[;")
_ESCAPE_SIZES = (1, 2, 3, 5)
"""Of ``n``, ``0m``, ``31m`` and ``u0026``, behind which a name may begin."""
_NAME = 80
_EDGES = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))


def starts_of(*words: bytes) -> Callable[[Look], list[int]]:
    """Return what finds where one of ``words`` stands, in any case, of which none holds another."""

    def starts(look: Look) -> list[int]:
        return sorted(at for word in words for at in _all(look.low, word))

    return starts


def address_starts(look: Look) -> Iterator[int]:
    """Yield where the name before each ``@`` begins, also behind an escape as in ``\\nname@``."""
    text = look.text
    names = look.raw.translate(_NAMES) if text.isascii() else None
    at = text.find("@")
    while at >= 0:
        start = _name_start(text, at) if names is None else names.rfind(b" ", 0, at) + 1
        yield start
        if start and text[start - 1] in _ESCAPE_ENDS:
            for size in _ESCAPE_SIZES:
                if start + size < at:
                    yield start + size
        at = text.find("@", at + 1)


def _name_start(text: str, end: int) -> int:
    start = end
    while True:  # most names are short
        before = text[max(0, start - _NAME) : start][::-1]
        match = _ADDRESS_END.match(before)
        size = match.end() if match else 0
        start -= size
        if size < _NAME:
            return start


def phone_starts(look: Look) -> list[int] | None:
    """Return where a phone number of three groups may begin; None for everywhere."""
    if has_other_digits(look.text):
        return None
    found = _all_shapes(look, PHONE_GROUPS)
    found += [at - _AREA for at in _all_shapes(look, PHONE_BEHIND_AREA)]
    return sorted(at for at in found if at >= 0)


def card_starts(look: Look) -> list[int] | None:
    """Return where the number of a card may begin; None for everywhere."""
    if has_other_digits(look.text):
        return None
    shape = look.shape
    found = set(_all_shapes(look, CARD_GROUPS))
    at = shape.find(CARD_RUN)
    while at >= 0:
        found.update(range(at, at + _LONGEST_ESCAPE + 1))
        match = _ZEROS.match(shape, at)
        at = shape.find(CARD_RUN, match.end() if match else at + 1)
    return sorted(found)


def iban_starts(look: Look) -> list[int] | None:
    """Return where an IBAN may begin; None for everywhere."""
    if has_other_digits(look.text):
        return None
    shape = look.shape
    if b"\\" in shape or b"\x1b" in shape:  # an escape may stand before it
        return list(_all(shape, b"AA00"))
    first = [0] if shape.startswith(b"AA00") else []
    return first + [at + 1 for at in _all(shape.translate(_EDGES), b" AA00")]


def _all_shapes(look: Look, groups: Iterable[bytes]) -> list[int]:
    there = [one for one in groups if look.has("shape", one)]
    return [at for one in there for at in _all(look.shape, one)]


def _all(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)
