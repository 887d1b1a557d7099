"""The case as a file: what a person would have written, and where each part of it came from."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from replay.case import SUFFIX, Case, dump_case, parse_case
from replay.caserun.secrets import (
    comments_of,
    exchanged,
    secrets_in,
    secrets_in_comments,
    secrets_in_name,
)
from tracekit.canonical import JsonValue
from tracekit.errors import CaseError, DistillError
from tracekit.jsontree import pointer
from tracekit.redact import Finding, Redactor, Rules, UnkeyedTagger, scan
from tracekit.settings import redaction_rules

Ask = Callable[[Sequence[JsonValue]], list[bool]]
Comments = Mapping[tuple[str, int], str]
"""Field of the case and place in its list → what to say above it."""


def render(
    case: Case, *, notes: Sequence[str], comments: Comments, rules: Rules | None = None
) -> str:
    """Return the file's text with its comments.

    Those quote what the planner did, which no redaction has seen, and cut placeholders short.

    Raises:
        CaseError: it would be read as something else.
    """
    redactor = Redactor(rules or redaction_rules(), UnkeyedTagger())
    notes = [redactor.redact_text(note) for note in notes]
    text = dump_case(case, notes=notes)
    lines = text.splitlines(keepends=True)
    for line, comment in sorted(_placed(text, comments), reverse=True):
        lines.insert(line, f"# {redactor.redact_text(' '.join(comment.split()))}\n")
    commented = "".join(lines)
    return commented if parse_case(commented).as_data() == case.as_data() else text


def _placed(text: str, comments: Comments) -> Iterator[tuple[int, str]]:
    """Find the lines that comments go above, counted from 0."""
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    for key, value in root.value:
        if (key.value, -1) in comments:
            yield key.start_mark.line, comments[key.value, -1]
        if not isinstance(value, yaml.SequenceNode):
            continue
        for place, item in enumerate(value.value):
            if (key.value, place) in comments and item.start_mark.line > key.start_mark.line:
                yield item.start_mark.line, comments[key.value, place]


def check_no_secrets(
    case: Case, text: str, *, rules: Rules | None = None, ask: Ask | None = None
) -> None:
    """Refuse a case that holds something which redaction would have removed.

    Args:
        case: The case.
        text: Its file.
        rules: What is a secret; the user's rules by default.
        ask: Says of values whether the planner's own code takes them for secrets.

    Raises:
        DistillError: it does; the message says where, not what.
    """
    found = secrets_in(case, rules=rules) or scan(text) or secrets_in_comments(text, rules=rules)
    name = secrets_in_name(slug(case.name), rules=rules)
    found = found or [replace(f, pointer="/name") for f in name]
    if not found and ask is not None:
        asked = [*exchanged(case), ((), comments_of(text))]
        says = ask([value for _, value in asked])
        found = [
            Finding(pointer(place), "function")
            for (place, _), secret in zip(asked, says, strict=True)
            if secret
        ]
    if found:
        places = ", ".join(f"{f.pointer or 'a comment'} ({f.kind})" for f in found[:5])
        raise DistillError(
            f"the case would hold what looks like a secret, so nothing is written: {places}",
            hint="call the case something else (--name), or add a rule of redaction for it",
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder that no case can be written to, before anything is paid for.

    Raises:
        CaseError: it is no folder, or may not be written to.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise CaseError("no case can be written here: it is no folder", path=str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise CaseError("no case can be written here: the folder is not writable", path=str(there))


def write_new(folder: Path, name: str, text: str) -> Path:
    """Write a case file, whole or not at all; another case of that name is left alone.

    Returns:
        Where it is: under the name, or under the name and a number; an equal file is taken as is.

    Raises:
        CaseError: it cannot be written.
    """
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).chmod(0o644)
            return _linked(Path(temporary), folder, name, text)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise CaseError(f"cannot be written: {error.strerror}", path=str(folder)) from error


def _linked(temporary: Path, folder: Path, name: str, text: str) -> Path:
    count = 1
    while True:
        target = folder / f"{name if count == 1 else f'{name}-{count}'}{SUFFIX}"
        try:
            _claim(target, temporary)
        except FileExistsError:
            if target.read_text("utf-8", errors="replace") == text:
                return target
            count += 1
        else:
            return target


def _claim(target: Path, temporary: Path) -> None:
    """Give the file its name, unless that is taken."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name is taken first, then the file put there
        target.open("x").close()
        temporary.replace(target)


def slug(*parts: str) -> str:
    """A name for a file, from what the case is about."""
    joined = "-".join(part for part in parts if part)
    return re.sub(r"[^\w.]+", "-", joined).strip("-.")[:80] or "case"
