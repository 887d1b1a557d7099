"""Whether a word is so random that only a secret or a ticket looks like it.

The one idea: ids, digests and names give themselves away. A digest has one case, a name has words,
an id has its issuer's prefix, a path has dots and slashes; what is left with capitals, small
letters and digits mixed like dice is a key. Entropy alone decides nothing: it only confirms.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from math import log2

from tracekit.redact.base64text import begins_readably
from tracekit.redact.look import Look
from tracekit.redact.starts import starts_of

SHORTEST = 32
"""By itself, no word shorter than this is taken for a secret."""
LONGEST = 63
"""What is longer is data, as are the lines of base64 that is broken into lines."""
_SHORTEST_NAMED = 20
"""Where a word before it speaks of a secret."""
_FEWEST = 3
"""So many capitals, small letters and digits there are at the least."""
_LEAST_BITS = 4.0
_LEAST_BITS_NAMED = 3.4
_LEAST_CHANGES = 0.42
"""Share of neighbours of two classes; of random ones three in five, of CamelCase one in three."""
_DEEPEST = 40
_MOST_SEPARATORS = 5
_SPEAKS = re.compile(
    r"(?ai:pass(?:word|phrase|wd)|secret|credential|token|(?:api|access|private|signing|auth)"
    r"[ _-]?key)[^\n]{0,24}\Z"
)
_PLACEHOLDER = re.compile("redacted-[a-z][a-z0-9_]{0,39}-[0-9a-f]{16}")
_SPOKEN_BEFORE = 48
_SPEAKING = starts_of(b"pass", b"secret", b"credential", b"token", b"key")
"""Any of that has one of these."""
_BEFORE = frozenset("\0\ufeff \t\n\r\"'`=:(,;[{<>|")
_AFTER = frozenset("\0 \t\n\r\"'`),;]}<>|.!?\\")
_LABELS = (
    *("sha256:", "sha384:", "sha512:", "h1:", "SHA256:", "md5:", "sha1:", "base64,"),
    *("sha256-", "sha1-", "sha384-", "SHA-256=", "SHA256-"),
)
_DIGEST_SIZES = frozenset({27, 43, 46})
"""Letters of base64 of SHA-1 and SHA-256, and of base58 of the latter with its name."""
_TELLS_DIGEST = re.compile(
    r"(?ai:sha[-_]?(?:1|256)|digest|checksum|integrity|hash|fingerprint|ipfs|cid)\W{0,4}\Z"
)
_DIGITS = frozenset("0123456789")


def likely_words(look: Look) -> list[tuple[int, int]]:
    """Return where the words stand whose length alone does not say that they are no secrets."""
    sized = [word for word in look.mixed if _SHORTEST_NAMED <= word[1] - word[0] <= LONGEST]
    spoken = _SPEAKING(look) if sized else []
    if not spoken:
        return [word for word in sized if word[1] - word[0] >= SHORTEST]
    return [
        (start, end)
        for start, end in sized
        if end - start >= SHORTEST
        or bisect_left(spoken, start - _SPOKEN_BEFORE) < bisect_left(spoken, start)
    ]


def is_random_word(text: str, begin: int, end: int, *, many: bool = False) -> bool:
    """Say whether the word of base64 that stands there is a secret by its letters.

    Args:
        text: The text.
        begin: Where it begins.
        end: Where it ends.
        many: Whether the lines of ``text`` may be texts of their own.
    """
    if end - begin > LONGEST:
        return False
    if begin > 0 and text[begin - 1] == "\\" and text[begin] in "nrt":
        begin += 1
    body = text[begin:end].rstrip("=")
    if len(body) < _SHORTEST_NAMED or "=" in body or not _stands_alone(text, begin, end):
        return False
    # A placeholder's own name is no word of the text: each would make a secret of the next word.
    said = _PLACEHOLDER.sub(_masked, text[max(0, begin - 2 * _SPOKEN_BEFORE) : begin])
    named = _SPEAKS.search(said[-_SPOKEN_BEFORE:]) is not None
    if len(body) < SHORTEST and not named:
        return False
    if text[max(0, begin - 7) : begin].endswith(_LABELS) or body.startswith(_LABELS):
        return False
    if len(body) in _DIGEST_SIZES:
        before = text[max(0, begin - 32) : begin]
        if _TELLS_DIGEST.search(before.rpartition("\n")[2] if many else before):
            return False
    return _is_random(body, named=named)


def _masked(match: re.Match[str]) -> str:
    return "-" * len(match[0])


def _stands_alone(text: str, begin: int, end: int) -> bool:
    """Whether it is a word of its own, not part of an address, a path or a longer name."""
    if (
        begin > 0
        and text[begin - 1] not in _BEFORE
        and text[max(0, begin - 2) : begin] not in ("\\n", "\\r", "\\t")
    ):
        return False
    if text[begin] == "/" or text[max(0, begin - 3) : begin] == "://":
        return False
    indent = text[max(0, begin - _DEEPEST) : begin].rpartition("\n")[2]
    last = end >= len(text)
    if indent.isspace() and (last or text[end] == "\n"):
        return False  # a line of a block
    if last:
        return True
    if text[end] not in _AFTER:
        return False
    return text[end] != "." or end + 1 == len(text) or text[end + 1].isspace()


def _is_random(body: str, *, named: bool) -> bool:
    classes = [
        "d" if char in _DIGITS else "u" if char.isupper() else "l" if char.islower() else "-"
        for char in body
    ]
    kinds = Counter(classes)
    if min(kinds["d"], kinds["u"], kinds["l"]) < (_FEWEST if not named else 1):
        return False
    if kinds["-"] > _MOST_SEPARATORS:
        return False
    changes = sum(left != right for left, right in pairwise(classes))
    if changes < _LEAST_CHANGES * (len(body) - 1):
        return False
    if _bits(body) < (_LEAST_BITS_NAMED if named else _LEAST_BITS):
        return False
    return not begins_readably(body)  # base64 of a text, which is looked into


def _bits(text: str) -> float:
    """Shannon entropy of the characters of ``text``, in bits a character."""
    size = len(text)
    return -sum(n / size * log2(n / size) for n in Counter(text).values())
