"""What came in pieces: a secret that no single item of a stream shows is in what they add up to.

The one idea: the texts that stand at the same place of one item after the other are one text. That
is looked at before the items are, and each gets back its own share: what stands instead of a secret
goes to the first item that held a part of it, the others lose theirs. No item comes or goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tracekit.redact.base64text import read_base64, write_base64
from tracekit.redact.borders import is_running_text
from tracekit.redact.repeated import Repeated, read_all
from tracekit.redact.respelling import respell

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue

_BYTES = "$bytes"
_OBJECT = re.compile(r"(?:data:)?\s{0,4}(?=\{)")
_LANES = ("index", "output_index", "content_index", "item_id")
"""Names under which models' interfaces number the texts that they send side by side."""


class Edit(NamedTuple):
    """A stretch of a text and what stands there instead."""

    start: int
    end: int
    text: str


class _Piece(NamedTuple):
    """A text in an item, and where it stands."""

    into: Any
    key: Any
    pointer: str
    text: str
    is_bytes: bool


class _Line(NamedTuple):
    """An item that is a line of JSON, as servers send events and logs."""

    place: int
    text: str
    start: int
    """Where the JSON begins."""
    old: Any
    new: Any


Redact = Callable[[list[str], bool], list[str]]
"""Gives texts that follow each other without what is a secret in all of them together.

Told whether they are pieces of one text, not rows.
"""


def redact_pieces(items: list[JsonValue], redact: Redact) -> tuple[list[JsonValue], list[str]]:
    """Return ``items`` redacted where their texts belong together, and where they were changed."""
    root: list[Any] = [_copied(item) for item in items]
    channels: dict[tuple[object, ...], list[_Piece]] = {}
    lines: list[_Line] = []
    for index, item in enumerate(root):
        line = _line(root, index)
        if line is not None:
            lines.append(line)
        holder, key, value = (root, index, item) if line is None else ([line.new], 0, line.new)
        for path, piece in _texts(holder, key, value, (), f"/{index}"):
            channels.setdefault(path, []).append(piece)
    changed: list[str] = []
    for path, pieces in channels.items():
        if len(pieces) < 2:
            continue
        texts = [one.text for one in pieces]
        new_texts = redact(texts, is_running_text(path, texts))
        for piece, new in zip(pieces, new_texts, strict=True):
            if new != piece.text:
                changed.append(piece.pointer)
                piece.into[piece.key] = _written(piece, new)
    for line in lines:
        if line.new != line.old:
            said = line.text[line.start :]
            root[line.place] = line.text[: line.start] + respell(said, line.old, line.new)
    return (root, changed) if changed else (items, changed)


def share(pieces: list[str], edits: list[Edit]) -> list[str]:
    """Return ``pieces`` after ``edits`` of their joined text, which do not overlap, in order."""
    shared: list[str] = []
    start = 0
    waiting = 0
    for piece in pieces:
        end = start + len(piece)
        parts: list[str] = []
        position = start
        while waiting < len(edits) and edits[waiting].start < end:
            edit = edits[waiting]
            if edit.start >= start:
                parts += piece[position - start : edit.start - start], edit.text
            position = min(edit.end, end)
            if edit.end > end:
                break
            waiting += 1
        parts.append(piece[position - start :])
        shared.append("".join(parts))
        start = end
    return shared


def _texts(
    into: Any, key: Any, value: Any, path: tuple[object, ...], pointer: str
) -> Iterator[tuple[tuple[object, ...], _Piece]]:
    if isinstance(value, str):
        yield path, _Piece(into, key, pointer, value, is_bytes=False)
    elif isinstance(value, dict):
        data = value.get(_BYTES)
        if isinstance(data, str) and len(value) == 1:
            said = read_base64(data)
            if said is not None:
                yield path, _Piece(value, _BYTES, pointer, said.decode("latin-1"), is_bytes=True)
            return
        path = (*path, *_lane(value))
        for name, item in value.items():
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _texts(value, name, item, (*path, name), f"{pointer}/{step}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            said_index = item.get("index") if isinstance(item, dict) else None
            step = said_index if isinstance(said_index, int) else position
            yield from _texts(value, position, item, (*path, step), f"{pointer}/{position}")


def _line(root: list[Any], index: int) -> _Line | None:
    """Read an item that is a whole object in JSON, also behind ``data:``."""
    text = root[index]
    match = _OBJECT.match(text) if isinstance(text, str) else None
    if match is None:
        return None
    try:
        old = read_all(text[match.end() :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(old, dict | Repeated):
        return None
    return _Line(index, text, match.end(), old, _copied(old))


def _lane(value: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what says to which of several texts under way an item belongs."""
    for name in _LANES:
        said = value.get(name)
        if isinstance(said, int | str):
            yield name, said


def _written(piece: _Piece, text: str) -> str:
    if not piece.is_bytes:
        return text
    return write_base64(text.encode("latin-1", "replace"), "====")


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
