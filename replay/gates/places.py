"""Where in a TOML document something stands, which its reader does not tell.

Texts are found by what they mean: a sign may be written as an escape, and the same words may stand
in a comment before.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

_STRINGS = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<multi>"""(?:[^\\]|\\.)*?"{3,5})'
    r"|(?P<raw_multi>\'\'\'.*?'{3,5})"
    r'|(?P<basic>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<raw>'[^'\n]*')",
    re.DOTALL,
)
_SIGN = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)|.", re.DOTALL)


def place_of_text(text: str, wanted: str, at: int = 0) -> int | None:
    """Find the sign number ``at`` of a text of the document; None where there is no such text."""
    for start, literal in _literals(text):
        if _means(literal) == wanted:
            return start + _offset(literal, at)
    return None


def place_of_key(text: str, key: str, *, after: int = 0) -> int | None:
    """Find a key or the head of a table: the first at or after a place, else the first of all."""
    name = re.escape(key)
    for pattern in (
        re.compile(rf"^[ \t]*(?:\[\[?[ \t]*)?['\"]?({name})\b", re.MULTILINE),
        re.compile(rf"(?<![\w-])({name})(?=['\"]?\s*=)"),
    ):
        found = pattern.search(text, after) or pattern.search(text)
        if found is not None:
            return found.start(1)
    return place_of_text(text, key)


def _literals(text: str) -> Iterator[tuple[int, str]]:
    for found in _STRINGS.finditer(text):
        if found.lastgroup != "comment":
            yield found.start(), found[0]


def _means(literal: str) -> object:
    try:
        return tomllib.loads(f"text = {literal}")["text"]
    except tomllib.TOMLDecodeError:
        return None


def _offset(literal: str, at: int) -> int:
    """Count how far into a literal its sign number ``at`` is; of one over many lines, its begin."""
    if literal[:3] in ('"""', "'''"):
        return 3
    if literal[0] == "'":
        return 1 + at
    signs = [found.end() for found in _SIGN.finditer(literal[1:-1])]
    return 1 + (signs[at - 1] if 0 < at <= len(signs) else 0)
