"""Which secrets of a joined stream are real, and which come about at the border of two items.

The one idea: what one item shows by itself is read by itself. Rows - of a table, of a log - say
nothing together that they do not say alone, so there a find across a border counts only where no
item shows a secret in that place. Only in running text, cut where its sender's buffer was full, is
a secret at the end of an item the beginning of a longer one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from urllib.parse import unquote

from tracekit.redact.detectors import Span
from tracekit.redact.issued import ISSUED
from tracekit.redact.placeholders import SECRET, find_placeholders

_DELTAS = frozenset(
    {"delta", "deltas", "partial_json", "content_block_delta", "arguments_delta", "text_delta"}
)
"""Names under which clients of models hand over pieces of one text."""
_BLANKS = " \t"
_BLANK_BORDERS = 6
"""Of so many borders one has a blank, in text that is cut anywhere; at the end of a row is none."""
_ENDED = frozenset({"email", "phone", "card", "iban"})
"""Kinds that are known by their end as well, so that a whole one is not the beginning of more."""
_OPEN = frozenset({"private_key"})
"""Kinds that go on until their own end, however many items that takes."""
_DOMAINS = frozenset(
    {"com", "org", "net", "edu", "gov", "io", "dev", "app", "ai", "info", "biz", "eu", "de", "fr"}
    | {"uk", "nl", "it", "es", "ch", "at", "be", "pl", "se", "us", "ca", "au", "jp", "in", "br"}
)
_SHORTEST_REST = 12
_KEY = re.compile(r"[A-Za-z0-9+/_-]*(?:=[0-9A-F]{8})?")
"""What keys are made of; behind some stands a check sum."""
_DIGIT = re.compile("[0-9]")
_JWT_SIGNATURES = frozenset({43, 64, 86, 128, 342, 512, 683})

Alone = Callable[[str], list[Span]]
"""Finds the secrets of a text."""


def is_running_text(path: Sequence[object], pieces: Sequence[str]) -> bool:
    """Say whether texts that follow each other are pieces of one text, not rows."""
    if not _DELTAS.isdisjoint(path):
        return True
    said = [piece for piece in pieces if piece]
    blanks = sum(left[-1] in _BLANKS or right[0] in _BLANKS for left, right in pairwise(said))
    if blanks and blanks * _BLANK_BORDERS >= len(said) - 1:
        return True
    return sum(piece.count('"') % 2 for piece in said) > 1  # one opens a quote, another closes it


def real_spans(pieces: list[str], spans: list[Span], alone: Alone, *, running: bool) -> list[Span]:
    """Return those of ``spans`` of the joined pieces that are secrets of what was said."""
    ends = list(accumulate(map(len, pieces)))
    kept = []
    for span in spans:
        first, last = bisect_right(ends, span.start), bisect_left(ends, span.end)
        covered = range(first, last + 1)
        if running:
            real = first == last or not _chance([pieces[at] for at in covered], span, alone)
        else:
            shown = [
                one._replace(start=one.start + start, end=one.end + start)
                for at in covered
                for start in (ends[at] - len(pieces[at]),)
                for one in _shown(pieces[at], alone)
            ]
            seen = [one for one in shown if _overlap(one, span)]
            joined = "".join(pieces)
            if span.codecs:
                real = _is_more_of_a_code(joined, span, seen, ends[first : last + 1])
            else:
                real = _is_more(joined, span, seen)
        if real:
            kept.append(span)
    return kept


def _chance(pieces: list[str], span: Span, alone: Alone) -> bool:
    """Whether a find only comes about because two whole secrets follow each other."""
    whole = [_is_whole(piece, alone) for piece in pieces]
    return any(whole) and (span.kind in _ENDED or all(whole))


def _is_whole(piece: str, alone: Alone) -> bool:
    """Whether a piece is one secret by itself."""
    text = piece.strip()
    return [(span.start, span.end) for span in alone(text)] == [(0, len(text))]


def _shown(piece: str, alone: Alone) -> list[Span]:
    """Return what a piece shows by itself: secrets, and what stands instead of some."""
    walls = [Span(wall.start, wall.end, wall.kind) for wall in find_placeholders(piece)]
    return [*alone(piece), *walls]


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _is_more(joined: str, span: Span, shown: list[Span]) -> bool:
    """Whether a find says more than what the items show where it stands."""
    if not shown or span.kind in _OPEN:
        return True
    if len(shown) > 1 or shown[0].start != span.start:
        return False
    if shown[0].kind not in (span.kind, SECRET):  # the beginning of a token may only look random
        return False
    part, whole = joined[span.start : shown[0].end], joined[span.start : span.end]
    if len(part) >= len(whole):
        return False
    if span.kind == "email":
        return _domain(whole) in _DOMAINS and _domain(part) not in _DOMAINS
    if span.kind == "jwt":
        return _signature(whole) in _JWT_SIGNATURES and _signature(part) not in _JWT_SIGNATURES
    issued = ISSUED.get(span.kind)
    if issued is not None and len(part) < len(whole) == issued.length:
        return True
    return (issued is None or len(part) < issued.length) and _is_rest(whole[len(part) :])


def _is_more_of_a_code(joined: str, span: Span, seen: list[Span], ends: list[int]) -> bool:
    """Whether what is encoded across a border is not what an item shows by itself."""
    if any(one.start < ends[0] for one in seen):
        rest = joined[ends[0] : min(span.end, ends[min(1, len(ends) - 1)])]
        shown = any(ends[0] <= one.start < ends[0] + len(rest) for one in seen)
        return not shown and _goes_on(rest, span)
    # A word before it can be read as a part of the code; the secret is all in the next item then.
    return span.kind == SECRET or all(one.kind != span.kind for one in seen)


def _goes_on(text: str, span: Span) -> bool:
    """Whether the next item goes on with what is encoded in the one before it."""
    if span.kind in _OPEN:
        return True
    if "percent" in span.codecs:
        return _is_rest(unquote(text))
    return len(text) >= _SHORTEST_REST and text.lower() != text != text.upper()


def _is_rest(text: str) -> bool:
    """Whether the beginning of an item is no word but the rest of a key."""
    letters = text.rstrip("=")
    if len(letters) < _SHORTEST_REST or not _KEY.fullmatch(letters):
        return False
    mixed = letters != letters.lower() and letters != letters.upper()
    return bool(_DIGIT.search(letters)) and (mixed or len(letters) >= 2 * _SHORTEST_REST)


def _domain(address: str) -> str:
    return address.rpartition(".")[2].lower()


def _signature(token: str) -> int:
    return len(token.rpartition(".")[2])
