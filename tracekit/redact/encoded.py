"""Texts that are written in base64 or with ``%XX``, where a secret may stand that nobody can see.

The one idea: decode what may be an encoded text, look at that, and write what is found there anew
in the same encoding. What was encoded stays so: a planner that encodes a placeholder by itself asks
for what was recorded, and bytes can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from tracekit.redact.base64text import (
    HEAD,
    begins_readably,
    head_reads,
    mostly_readable,
    read_base64,
    write_base64,
)
from tracekit.redact.look import Look, has_long_run
from tracekit.redact.promising import SHORTEST_BINARY, promising
from tracekit.redact.tokens import find_tokens

MOST_LAYERS = 3
"""An encoded text inside an encoded text is looked into so often."""


class Layer(NamedTuple):
    """A stretch of a text that is encoded, and what it says."""

    start: int
    end: int
    codec: str
    text: str
    """What it says."""
    starts: tuple[int, ...] = ()
    """Of ``%XX``: where each character of ``text`` begins in the outer one, and the end."""


_ENCODINGS = {"base64": "utf-8", "latin": "latin-1", "binary": "latin-1"}
"""What bytes are read with, by the name of the codec; of others the codec is the name."""
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_SHORTEST = 16
_PARTS = re.compile("[^=]+=*")
_SIGNS = re.compile("[/_-]")
_MOST_SIGNS = 8
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
_ASCII = bytes(code if code < 128 else 63 for code in range(256))
_DELIMITERS = b" \t\n\r\v\f\"'<>\\`"
_WORDS = bytes(32 if code in _DELIMITERS else 120 for code in range(256))


def layers(look: Look) -> Iterator[Layer]:
    """Yield what may be encoded in a text, decoded."""
    if look.mixed or look.ids:
        yield from _base64_layers(look)
    if b"%" in look.raw:
        yield from _percent_layers(look)


def recode(original: str, decoded: str, codec: str) -> str:
    """Write ``decoded`` the way ``original`` is written."""
    if codec == "percent":
        kept = "".join(sorted({char for char in original if not char.isalnum() and char != "%"}))
        return quote(decoded, safe=kept)
    return write_base64(decoded.encode(_ENCODINGS.get(codec, codec), "replace"), original)


def decode(original: str, codec: str) -> str:
    """Read what ``recode`` wrote."""
    if codec == "percent":
        return _unescaped(original)[0]
    return (read_base64(original) or b"").decode(_ENCODINGS.get(codec, codec))


def _base64_layers(look: Look) -> Iterator[Layer]:
    text = look.text
    for (start, end), reads in sorted(promising(look.raw, _parts(look)).items()):
        found = _base64_layer(text, start, end, reads=reads)
        if found is not None:
            yield found
    for start, end in look.ids:
        padding = len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
        found = _base64_layer(text, start, end + padding)
        if found is not None:
            yield found


def _parts(look: Look) -> list[tuple[int, int]]:
    """Return the words, cut behind each padding."""
    if b"=" not in look.raw:
        return look.mixed
    parts = [
        match.span()
        for start, end in look.mixed
        for match in _PARTS.finditer(look.text, start, end)
    ]
    return [(start, end) for start, end in parts if end - start >= _SHORTEST]


def _base64_layer(text: str, begin: int, end: int, *, reads: bool = True) -> Layer | None:
    """Return what a run says; it may begin behind a few characters that are none of it.

    Args:
        text: The text.
        begin: Where the run begins.
        end: Where it ends.
        reads: Whether it may say something that people read.
    """
    places = _beginnings(text, begin, end) if reads else ()
    starts = [at for at in places if _reads(text, at, end)]
    if starts:
        spans = [(at, end) for at in starts]
        spans += [(at, at + len(text[at:end].partition("/")[0])) for at in starts]
        for codec in ("base64", "latin"):
            for start, last in spans:
                found = _read(text, start, last, codec)
                if found is not None:
                    return found
    return _binary_layer(text, begin, _even(text, begin, end))


def _reads(text: str, begin: int, end: int) -> bool:
    """Whether base64 that begins there says something that people read."""
    head = text[begin : min(begin + HEAD, end)]
    return begins_readably(head) if len(head) < HEAD or head[-1] == "=" else head_reads(head)


def _beginnings(text: str, begin: int, end: int) -> Iterator[int]:
    """Yield where base64 may begin: after an escape, behind the steps of a path."""
    yield from range(begin, min(begin + 4, end))
    for sign in islice(_SIGNS.finditer(text, begin + 3, end - _SHORTEST), _MOST_SIGNS):
        yield sign.end()


def _read(text: str, start: int, end: int, codec: str) -> Layer | None:
    """Return what base64 of a text says; None if it is of something else."""
    data = read_base64(text[start:end])
    if not data or (codec == "latin" and not mostly_readable(data)):
        return None
    try:
        said = data.decode(_ENCODINGS[codec])
    except UnicodeDecodeError:
        return None
    return Layer(start, _even(text, start, end), codec, said)


def _binary_layer(text: str, begin: int, end: int) -> Layer | None:
    """Return what a run says that is no plain text, where it is wide or a token stands in it."""
    data = read_base64(text[begin:end]) or b""
    if 4 * data.count(0) >= len(data) > 0:
        return _wide_layer(begin, end, data)
    if end - begin < SHORTEST_BINARY or not has_long_run(data):
        return None
    if next(find_tokens(Look(data.translate(_ASCII).decode("ascii"))), None) is None:
        return None
    return Layer(begin, end, "binary", data.decode("latin-1"))


def _wide_layer(begin: int, end: int, data: bytes) -> Layer | None:
    """Return what bytes say that write each character as two or four."""
    for codec in _WIDE:
        try:
            said = data.decode(codec)
        except UnicodeDecodeError:
            continue
        written = said.replace("\0", "")
        plain = written.encode("ascii", "ignore")
        if 5 * len(plain) >= 4 * len(written) and mostly_readable(plain):
            return Layer(begin, end, codec, said)
    return None


def _even(text: str, start: int, end: int) -> int:
    """Return where base64 that begins at ``start`` ends: a single character says nothing."""
    size = len(text[start:end].rstrip("="))
    return start + size - 1 if size % 4 == 1 else end


def _percent_layers(look: Look) -> Iterator[Layer]:
    text = look.text
    words: bytes | None = None
    done = 0
    for match in _ESCAPE.finditer(text):
        if match.start() < done:
            continue
        if words is None:
            words = look.raw.translate(_WORDS)
        begin = max(words.rfind(b" ", done, match.start()) + 1, done)
        end = words.find(b" ", match.end())
        done = len(text) if end < 0 else end
        said, starts = _unescaped(text[begin:done])
        yield Layer(begin, done, "percent", said, tuple(begin + at for at in starts))


def _unescaped(text: str) -> tuple[str, list[int]]:
    """Return what ``text`` says, and where each character of that begins in it, and the end."""
    parts: list[str] = []
    starts: list[int] = []
    position = 0
    for match in _ESCAPES.finditer(text):
        starts += range(position, match.start())
        data = bytes.fromhex(match[0].replace("%", ""))
        try:
            said = data.decode("utf-8")
            sizes = [len(char.encode()) for char in said]
        except UnicodeDecodeError:
            said, sizes = data.decode("latin-1"), [1] * len(data)
        parts += text[position : match.start()], said
        at = match.start()
        for size in sizes:
            starts.append(at)
            at += 3 * size
        position = match.end()
    starts += range(position, len(text) + 1)
    return "".join([*parts, text[position:]]), starts
