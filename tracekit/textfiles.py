"""Small text files that users write: read whole, and what is wrong told with line and column.

One home for all of them, whatever is in them: a file that is too large, no text, nested too deeply
or that holds a number without end is one sentence about a place, never a traceback.
"""

from __future__ import annotations

import re
import tomllib
from codecs import BOM_UTF8
from pathlib import Path
from reprlib import Repr
from typing import Any

from tracekit.canonical import JsonValue, parse_json
from tracekit.errors import CaseError, InvalidJson, UsageError

MAX_BYTES = 4 * 1024 * 1024
_MOST_GIVEN = 256 * 1024 * 1024
"""So large a file may be that an option names: it may hold an observation."""
_MOST_DIGITS = 4_000
"""Fewer than Python reads, which refuses more without saying where."""
_MAX_DEPTH = 100
_SHOWN = 20
"""So much of what an option was given is written in a hint."""
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOKENS = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+(?:"{3,5})?'
    r"|\'\'\'(?:[^']++|'{1,2}(?!'))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    rf"|(?P<long>(?<![\w.])[+-]?[0-9][0-9_]{{{_MOST_DIGITS},}})"
    rf"|(?P<path>(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{_MAX_DEPTH},}})"
    r"|(?P<opens>[\[{])|(?P<closes>[\]}])",
    re.DOTALL,
)
"""What of a TOML text could be more than is read; texts and comments stand for themselves."""


def read_text(path: str | Path, *, most: int = MAX_BYTES) -> str:
    """Read the text of a file; a huge one, or one that is no text, is refused.

    The mark that some editors put before UTF-8 text is no part of it.

    Raises:
        CaseError: it cannot be read.
    """
    place = Path(path)
    try:
        with place.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise CaseError(f"cannot be read: {said}", path=str(path)) from error
    if len(data) > most:
        raise CaseError(f"is larger than {most // 2**20} MiB", path=str(path))
    data = data.removeprefix(BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = line_and_column(before, len(before))
        raise CaseError("is not UTF-8 text", path=str(path), line=line, column=column) from None


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Count line and column of a place in a text, from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")


def read_given(text: str, *, option: str) -> JsonValue:
    """Read what an option was given: JSON, or ``@FILE`` for a file that holds it.

    Raises:
        UsageError: it is neither.
    """
    named = text.startswith("@")
    hint = f"a text is written in quotes: '\"{text[:_SHOWN]}\"'"
    if named:
        hint = "write @FILE of a file that holds JSON, or the JSON itself"
    if text == "@":
        raise UsageError(f"{option}: @ names no file", hint=hint)
    try:
        return parse_json(read_text(text[1:], most=_MOST_GIVEN) if named else text)
    except CaseError as error:
        raise UsageError(f"{option}: {error}", hint=hint) from error
    except InvalidJson as error:
        file = f"{text[1:]}: " if named else ""
        raise UsageError(f"{option}: {file}is no JSON: {error}", hint=hint) from error


def parse_toml(text: str, *, path: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        CaseError: it is none, or holds more than is read.
    """
    _refuse_what_has_no_end(text, path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = _AT.search(said)
        line, column = (int(place[1]), int(place[2])) if place and place[1] else _end(text)
        raise CaseError(_AT.sub("", said), path=path, line=line, column=column) from error
    except RecursionError:
        raise CaseError("is nested too deeply to be read from here", path=path, line=1) from None


def shown(value: object) -> str:
    """Write a value that was read for an error message: short, however deep or long it is."""
    return _SHORT.repr(value)


class _Short(Repr):
    def repr_int(self, x: int, level: int) -> str:
        del level
        return (
            repr(x) if abs(x) < 10**self.maxlong else f"a number of more than {self.maxlong} digits"
        )


_SHORT = _Short()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 60


def _refuse_what_has_no_end(text: str, path: str) -> None:
    """Find a place where reading would break off without a place."""
    depth = 0
    for found in _TOKENS.finditer(text):
        depth += (found.lastgroup == "opens") - (found.lastgroup == "closes")
        if found.lastgroup == "long":
            message = f"a number of more than {_MOST_DIGITS} digits"
            raise _at(message, text, found.start(), path)
        if depth > _MAX_DEPTH or found.lastgroup == "path":
            raise _at("is nested too deeply", text, found.start(), path)


def _at(message: str, text: str, place: int, path: str) -> CaseError:
    line, column = line_and_column(text, place)
    return CaseError(message, path=path, line=line, column=column)


def _end(text: str) -> tuple[int, int]:
    return line_and_column(text, len(text))
