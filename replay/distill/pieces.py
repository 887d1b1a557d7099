"""A text as pieces that can be left out: lines, stretches between tags, sentences.

Pieces lie side by side and together are the text, so that what is left after leaving some out is
still what somebody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable

Splitter = Callable[[str], list[str]]

_TAG = re.compile(r"(<[^<>]*>)")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")


def lines(text: str) -> list[str]:
    """Split at line breaks; blank lines belong to the line before."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        if found and not line.strip():
            found[-1] += line
        else:
            found.append(line)
    return found


def stretches(text: str) -> list[str]:
    """Split at tags of markup; a tag is a piece of its own."""
    return [piece for piece in _TAG.split(text) if piece]


def sentences(text: str) -> list[str]:
    """Split after sentences, also at line breaks; the space between belongs to the first."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        start = 0
        for match in _SENTENCE.finditer(line):
            if line[start : match.end()].strip():
                found.append(line[start : match.end()])
                start = match.end()
        if start < len(line):
            found.append(line[start:])
    return found


SPLITTERS: dict[str, Splitter] = {
    "lines": lines,
    "stretches of markup": stretches,
    "sentences": sentences,
}


def without(text: str, splitter: Splitter, places: Collection[Hashable]) -> str:
    """Leave pieces out; the edges of what is left are trimmed where something went."""
    kept = [piece for place, piece in enumerate(splitter(text)) if place not in places]
    return "".join(kept).strip()
