"""Which effect a tool has, where the trace itself does not say: the user's file, or one we ship.

A file maps tool names or globs to ``pure``, ``read`` or ``write``, as TOML or JSON. An exact name
wins over a glob, an earlier glob over a later one. Whatever is not named stays unknown.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import get_args

from tracekit.canonical import parse_json
from tracekit.errors import CaseError, InvalidJson, UsageError
from tracekit.events import Effect

_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def shipped_effects() -> tuple[str, ...]:
    """Name the effect files that come with tracekit."""
    folder = files("tracekit.importers") / "effects"
    names = (item.name for item in folder.iterdir() if item.name.endswith(".toml"))
    return tuple(sorted(name.removesuffix(".toml") for name in names))


def load_effects(source: str | Path) -> dict[str, Effect]:
    """Read a file of effects, or one that is shipped, by its name.

    Raises:
        UsageError: there is no such file and none of that name is shipped.
        CaseError: the file is malformed; the error knows the line.
    """
    path = Path(source)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise CaseError("it is not UTF-8 text", path=str(path)) from error
        return _parse(text, str(path))
    if str(source) in shipped_effects():
        resource = files("tracekit.importers") / "effects" / f"{source}.toml"
        return _parse(resource.read_text(encoding="utf-8"), f"{source}.toml")
    raise UsageError(
        f"there is no effects file {str(source)!r}",
        hint=f"give a TOML or JSON file, or one of: {', '.join(shipped_effects())}",
    )


def effect_of(tool: str, effects: Mapping[str, Effect]) -> Effect:
    """Find the effect of ``tool``; unknown where nothing names it."""
    if tool in effects:
        return effects[tool]
    globs = (name for name in effects if any(sign in name for sign in "*?["))
    return next((effects[glob] for glob in globs if fnmatchcase(tool, glob)), "unknown")


def _parse(text: str, path: str) -> dict[str, Effect]:
    content = _parse_json(text, path) if text.lstrip().startswith("{") else _parse_toml(text, path)
    checked: dict[str, Effect] = {}
    for tool, effect in content.items():
        if effect not in _EFFECTS:
            raise CaseError(
                f"{tool}: effect {effect!r} is not known; one of {', '.join(_EFFECTS)}",
                path=path,
                line=_line_of(tool, text),
            )
        checked[tool] = effect
    return checked


def _parse_json(text: str, path: str) -> dict[str, object]:
    try:
        content = parse_json(text)
    except InvalidJson as error:
        raise CaseError(
            "it is not JSON", path=path, line=error.line, column=error.column
        ) from error
    return dict(content) if isinstance(content, dict) else {}


def _parse_toml(text: str, path: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line, column = found.groups() if found else (None, None)
        raise CaseError(
            _PLACE.sub("", str(error)),
            path=path,
            line=int(line) if line else text.count("\n") + 1,
            column=int(column) if column else None,
        ) from error


def _line_of(tool: str, text: str) -> int:
    """Find the line that names ``tool``; the first one where it is spelt with escapes."""
    lines = text.splitlines()
    spelt = re.compile(rf"""^\W*{re.escape(tool.split(".")[0])}\W""")
    return next((n for n, line in enumerate(lines, 1) if spelt.match(line)), 1)
