"""Which of many words may be base64 of something that is looked into, asked of all at once.

The one idea: the heads of all words are decoded as one text, and what is unreadable in them is
counted a column at a time: bytes of a large integer add up side by side. It errs to one side only:
a word that is not named here says nothing.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import compress

from tracekit.redact.base64text import HEAD, most_unreadable, unreadable_marks
from tracekit.redact.look import has_long_run

Word = tuple[int, int]
"""Where a word begins and ends."""

SHORTEST_BINARY = 64
"""In what is no text, no token is looked for if it is shorter."""
_FEW = 8
"""So many are quicker looked at one by one."""
_OFFSETS = 4
"""So many characters may stand before base64 that are none of it."""
_WIDTH = HEAD + _OFFSETS
_DECODED = _WIDTH // 4 * 3
_LETTERS = bytes(
    ord({"-": "+", "_": "/"}.get(chr(code), chr(code)))
    if code < 128 and (chr(code).isalnum() or chr(code) in "+/-_")
    else ord("/")
    for code in range(256)
)
"""Of base64 both alphabets as one, and something unreadable for all that is none."""
_SHORTEST = 16
_EQUALS = ord("=")
_FILLS = (b"", b"///", b"//", b"/")
"""What fills the last group of four, by how many letters stand in it."""
_SIGN = re.compile(rb"[/_-](?=[A-Za-z0-9+/_-]{16})")


def promising(raw: bytes, words: list[Word]) -> dict[Word, bool]:
    """Return those of ``words`` that may say something, and whether their heads may be a text's.

    Args:
        raw: The text.
        words: Stretches of letters of base64, in order and apart; ``=`` stands only at their ends.
    """
    if len(words) <= _FEW:
        return dict.fromkeys(words, True)
    found: dict[Word, bool] = {}
    plain: dict[int, list[Word]] = defaultdict(list)
    count = raw.count
    for word in words:
        start, end = word
        size = end - start
        if size < _SHORTEST or raw[end - 1] == _EQUALS:
            found[word] = True
        else:
            plain[min(size, _WIDTH - 1)].append(word)
            if 8 * count(b"A", start, end) > size - 6:  # as many zeros as in a wide text
                found[word] = False
    letters = raw.translate(_LETTERS) + b"/" * _WIDTH
    found = dict.fromkeys(_with_a_run(letters, [*filter(_is_long, words)]), False) | found
    for size, alike in plain.items():
        heads = b"".join([letters[start : start + _WIDTH] for start, _ in alike])
        for offset in range(_OFFSETS):
            said = min(HEAD, size - offset) * 3 // 4
            reading = _readable(heads, offset, said, most_unreadable(said))
            found |= dict.fromkeys(compress(alike, reading), True)
    return found | dict.fromkeys(_behind_signs(raw, letters, words), True)


def _readable(heads: bytes, offset: int, count: int, most: int) -> bytes:
    """Return of each head whether at most so many of its first ``count`` bytes are unreadable."""
    marks = unreadable_marks(binascii.a2b_base64(heads[offset:] + b"/" * offset))
    columns = [int.from_bytes(marks[at::_DECODED], "little") for at in range(count)]
    sums = sum(columns).to_bytes(len(heads) // _WIDTH, "little")
    return sums.translate(bytes(number <= most for number in range(256)))


def _behind_signs(raw: bytes, letters: bytes, words: list[Word]) -> Iterable[Word]:
    """Return the words that may say something behind a step of a path; of the head half counts."""
    behind = [match.end() for match in _SIGN.finditer(raw)]
    heads = b"".join([letters[at : at + _WIDTH] for at in behind])
    count = _SHORTEST * 3 // 4
    reading = [*compress(behind, _readable(heads, 0, count, most_unreadable(HEAD * 3 // 4)))]
    at = [bisect_right(words, (place, len(raw))) - 1 for place in reading]
    return [words[one] for one in at if one >= 0]


def _is_long(word: Word) -> bool:
    return word[1] - word[0] >= SHORTEST_BINARY


def _with_a_run(letters: bytes, words: Iterable[Word]) -> Iterable[Word]:
    """Return the words whose bytes may hold a token: all of them, if one may."""
    said = [letters[start:end] + _FILLS[(end - start) % 4] for start, end in words]
    return words if has_long_run(binascii.a2b_base64(b"".join(said))) else ()
