"""A text as pieces that can be left out: lines, stretches between tags, sentences.

Pieces lie side by side and together are the text, so that what is left after leaving some out is
still what somebody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable

Splitter = Callable[[str], list[str]]

_ESCAPED = r"\\+[nr]"
"""A line break as it stands in texts that were quoted."""
_LINE = re.compile(rf"(?:\r?\n|{_ESCAPED})(?:\s|{_ESCAPED})*")
_EDGE = re.compile(rf"^(?:\s|{_ESCAPED})+|(?:\s|{_ESCAPED})+$")
_TAG = re.compile(r"(<[^<>]*>)")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")


def lines(text: str) -> list[str]:
    """Split at line breaks, those of quoted texts too; what is blank belongs to the line before."""
    found: list[str] = []
    start = 0
    for match in _LINE.finditer(text):
        found.append(text[start : match.end()])
        start = match.end()
    return [*found, text[start:]] if start < len(text) else found


def stretches(text: str) -> list[str]:
    """Split at tags of markup; a tag is a piece of its own."""
    return [piece for piece in _TAG.split(text) if piece]


def sentences(text: str) -> list[str]:
    """Split after sentences, also at line breaks; the space between belongs to the first."""
    found: list[str] = []
    for line in lines(text):
        start = 0
        for match in _SENTENCE.finditer(line):
            if line[start : match.end()].strip() and match.end() < len(line):
                found.append(line[start : match.end()])
                start = match.end()
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
    return _EDGE.sub("", "".join(kept))
