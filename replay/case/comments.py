"""A case written anew into the file that it was read from, with the comments of that file.

The one idea: a comment belongs to the part that it stands above or beside, wherever that part goes.
What stood above a part that is gone goes to what holds it now; none is ever dropped.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from replay.case.model import Case
from replay.case.reading import parse_case
from replay.case.writing import dump_case, first_line
from tracekit.errors import CaseError
from tracekit.textfiles import read_text

Place = tuple[Hashable, ...]
"""Names and numbers that lead to a part."""
_FIRST_LINES = ("# needs no model", "# NEEDS A LIVE MODEL")


@dataclass(frozen=True)
class _Comment:
    text: str
    place: Place | None
    """The part that it stands above or beside; None at the end of the file."""
    beside: bool


def rewrite_case(path: str | Path, case: Case) -> None:
    """Write ``case`` into its file, whole or not at all; the comments there stay.

    Args:
        path: The case file.
        case: What it is to hold.

    Raises:
        CaseError: the file is no case, or cannot be written.
    """
    place = Path(path)
    old = read_text(place)
    text = _broken_as(old, with_comments(old, case, path=str(path)))
    try:
        number, temporary = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(number, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            Path(temporary).chmod(place.stat().st_mode & 0o777)
            Path(temporary).replace(place)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise CaseError(f"cannot be written: {error.strerror}", path=str(path)) from error


def _broken_as(old: str, text: str) -> str:
    """Give the lines of ``text`` the ends that most lines of ``old`` have."""
    counts = {"\r\n": old.count("\r\n")}
    counts |= {sign: old.count(sign) - counts["\r\n"] for sign in ("\n", "\r")}
    return text.replace("\n", max(counts, key=lambda end: counts[end]))


def with_comments(old: str, case: Case, *, path: str = "<case>") -> str:
    """Return the text of ``case`` with the comments of ``old``, the text of a case.

    Raises:
        CaseError: ``old`` is no case.
    """
    parse_case(old, path=path)
    old = re.sub("\r\n?", "\n", old)
    comments = [one for one in _comments(old) if not one.text.startswith(_FIRST_LINES)]
    text = dump_case(case)
    for beside in (True, False):
        written = _placed(text, comments, beside=beside)
        if parse_case(written).as_data() == case.as_data():
            return written
    above = "".join(f"{comment.text}\n" for comment in comments)
    return f"{first_line(case)}\n{above}{text.partition(chr(10))[2]}"


# --- reading --------------------------------------------------------------------------------------


def _comments(text: str) -> Iterator[_Comment]:
    parts = sorted(_parts(text).items(), key=lambda part: part[1])
    lines = text.split("\n")
    for line, column in _marks(text):
        words = lines[line][column:].rstrip()
        if lines[line][:column].strip(" -"):
            here = [place for place, (at, start) in parts if at == line and start < column]
            before = [place for place, (at, _) in parts if at < line]
            yield _Comment(words, (here or before or [()])[-1], beside=True)
        else:
            after = [place for place, (at, _) in parts if at > line]
            yield _Comment(words, after[0] if after else None, beside=False)


def _marks(text: str) -> Iterator[tuple[int, int]]:
    """Find where comments begin: signs ``#`` that stand in no scalar, after a blank or nothing."""
    inside: list[tuple[int, int]] = [
        (token.start_mark.index, token.end_mark.index)
        for token in yaml.scan(text, yaml.SafeLoader)
        if isinstance(token, yaml.ScalarToken)
    ]
    start = 0
    for number, line in enumerate(text.split("\n")):
        for column, sign in enumerate(line):
            at = start + column
            if sign != "#" or (column and not line[column - 1].isspace()):
                continue
            if not any(begin <= at < end for begin, end in inside):
                yield number, column
                break
        start += len(line) + 1


def _parts(text: str) -> dict[Place, tuple[int, int]]:
    """Where each part begins: a member with its name, an item with its value."""
    found: dict[Place, tuple[int, int]] = {}

    def walk(node: yaml.Node, place: Place) -> None:
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                here = (*place, name.value)
                found[here] = name.start_mark.line, name.start_mark.column
                walk(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                here = (*place, number)
                found[here] = item.start_mark.line, item.start_mark.column
                walk(item, here)

    root = yaml.compose(text, yaml.SafeLoader)
    if root is not None:
        walk(root, ())
    return found


# --- writing --------------------------------------------------------------------------------------


def _placed(text: str, comments: Sequence[_Comment], *, beside: bool) -> str:
    parts = _parts(text)
    lines = text.rstrip("\n").split("\n")
    starts = _starting(parts, lines)
    above: dict[int, list[str]] = {}
    ends: dict[int, list[str]] = {}
    for comment in comments:
        if comment.place is None:
            above.setdefault(len(lines), []).append(comment.text)
            continue
        place = comment.place
        while place and place not in parts:
            place = place[:-1]
        if comment.beside and beside and place in parts:
            ends.setdefault(parts[place][0], []).append(comment.text)
            continue
        while place and place not in starts:
            place = place[:-1]
        above.setdefault(starts.get(place, 1), []).append(comment.text)
    return "\n".join(_joined(lines, above, ends)) + "\n"


def _starting(parts: Mapping[Place, tuple[int, int]], lines: Sequence[str]) -> dict[Place, int]:
    """The parts with which a line begins."""
    return {
        place: line
        for place, (line, column) in parts.items()
        if not lines[line][:column].strip(" -")
    }


def _joined(
    lines: Sequence[str], above: Mapping[int, list[str]], ends: Mapping[int, list[str]]
) -> Iterator[str]:
    for number, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        yield from (f"{indent}{comment}" for comment in above.get(number, ()))
        yield "  ".join([line, *ends.get(number, ())])
    yield from above.get(len(lines), ())
