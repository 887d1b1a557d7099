"""Which effect a tool has, where the trace itself does not say: the user's file, or one we ship.

A file maps tool names or globs to ``pure``, ``read`` or ``write``, as TOML or JSON. An exact name
wins over a glob, an earlier glob over a later one. Whatever is not named stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import get_args

from tracekit.canonical import parse_json
from tracekit.errors import CaseError, InvalidJson, UsageError
from tracekit.events import Effect
from tracekit.textfiles import parse_toml, read_text, shown

_EFFECTS: tuple[Effect, ...] = get_args(Effect)


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
        return _parse(read_text(path), str(path))
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
    is_json = text.lstrip().startswith("{")
    content = _parse_json(text, path) if is_json else parse_toml(text, path=path)
    checked: dict[str, Effect] = {}
    for tool, effect in content.items():
        if effect not in _EFFECTS:
            raise CaseError(
                f"{tool}: effect {shown(effect)} is not known; one of {', '.join(_EFFECTS)}",
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


def _line_of(tool: str, text: str) -> int:
    """Find the line that names ``tool``; the first one where it is spelt with escapes."""
    lines = text.splitlines()
    spelt = re.compile(rf"""^\W*{re.escape(tool.split(".")[0])}\W""")
    return next((n for n, line in enumerate(lines, 1) if spelt.match(line)), 1)
