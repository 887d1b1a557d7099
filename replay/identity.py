"""What makes two replays one question: the same planner, with the same code, asked the same way.

Every replay carries both as its ``versions``, so that a bulk replay that was broken off finds in
the store what it has done already. The code is that of the planner's own package, or of its module,
and of what that imports beside it; it is read, not imported.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from replay.matching.respelling import MAPPED
from replay.stirring import VARIABLE
from tracekit.canonical import JsonValue, digest, digest_bytes
from tracekit.canonical.classes import importable_name
from tracekit.origin import source_digest
from tracekit.redact.keys import Tagger

PLANNER, OPTIONS = "planner", "replay"
"""Names of the two in ``versions``."""
_ALSO_CODE = ("model_script", "model_live", "baseline")
"""Options that name code, which may change as the planner's may."""
RECORDED = "recorded"
"""As the old planner: whichever the record says made the run."""


def versions_of(
    planner: str | object, options: Any, *, path: Sequence[str], tagger: Tagger
) -> dict[str, str]:
    """Name the planner's code, where it can be found, and the options, by digest.

    Renames are named as they are: who compares the replay with its record has to know them.
    """
    code = code_digest(planner, path)
    others = [getattr(options, name, None) for name in _ALSO_CODE]
    first = getattr(options, "baseline_path", ())  # of the others' code there is none in there
    codes: list[JsonValue] = [
        o and o != RECORDED and code_digest(o, [*first, *path]) for o in others
    ]
    asked = digest([_plain(options, tagger), codes])
    maps = "\n".join(map(str, getattr(getattr(options, "policies", None), "maps", ())))
    said = {PLANNER: code, MAPPED: maps}
    return {**{name: text for name, text in said.items() if text}, OPTIONS: asked}


def code_digest(planner: str | object, path: Sequence[str]) -> str | None:
    """Digest the source of the planner's package, or of its module, and of what it imports.

    None where there is none. What it imports counts where it lies beside it.
    """
    file: Path | None
    if isinstance(planner, str):
        module, where = planner.partition(":")[0], [*path, os.getcwd(), *sys.path]
        files, file = list(_sources(module, where)), source_of(module, where)
    else:
        module, file = _standing(planner)
        files = [] if file is None else [file]
    if not files:
        return None
    beside = None if file is None else source_digest(module, file)
    root = Path(os.path.commonpath([file.parent for file in files]))
    listed: list[JsonValue] = [
        [file.relative_to(root).as_posix(), digest_bytes(file.read_bytes())] for file in files
    ]
    return digest([listed, beside])


def _sources(module: str, path: Sequence[str]) -> Iterator[Path]:
    """Find the files of the first real package or module that the dotted name leads through."""
    where: Sequence[str] | None = path
    parts = module.split(".")
    for place in range(len(parts)):
        spec = find_spec(".".join(parts[: place + 1]), where)
        if spec is None:
            return
        if spec.origin is not None and Path(spec.origin).is_file():
            folders = spec.submodule_search_locations
            if folders is None:
                yield Path(spec.origin)
            else:
                yield from sorted(file for folder in folders for file in Path(folder).rglob("*.py"))
            return
        where = list(spec.submodule_search_locations or ())


def source_of(module: str, path: Sequence[str]) -> Path | None:
    """Find the source of a module; nothing is imported."""
    where: Sequence[str] | None = path
    parts = module.split(".")
    spec = None
    for place in range(len(parts)):
        spec = find_spec(".".join(parts[: place + 1]), where)
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or ())
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and Path(origin).is_file() else None


def _standing(planner: object) -> tuple[str, Path | None]:
    """The module that a function, or the class of an object, stands in, and its file."""
    inner = inspect.unwrap(planner) if callable(planner) else planner
    if not hasattr(inner, "__code__") and not inspect.isclass(inner):
        inner = type(inner)
    own = str(getattr(inner, "__module__", ""))
    code, loaded = getattr(inner, "__code__", None), sys.modules.get(own)
    name = getattr(code, "co_filename", None) or getattr(loaded, "__file__", None)
    file = Path(name) if name is not None and Path(name).is_file() else None
    return importable_name(own) or (file.stem if file else ""), file


def find_spec(name: str, where: Sequence[str] | None) -> ModuleSpec | None:
    """Ask where a module is; no code of it runs."""
    spec = PathFinder.find_spec(name, where)
    finders = iter(sys.meta_path)
    while spec is None and (finder := next(finders, None)) is not None:
        spec = finder.find_spec(name, where)  # an editable installation has a finder of its own
    return spec


def _plain(value: Any, tagger: Tagger) -> JsonValue:
    """Spell options as JSON: functions by name, the values of variables by a keyed tag."""
    if is_dataclass(value) and not isinstance(value, type):
        kept: dict[str, JsonValue] = {
            field.name: _plain(getattr(value, field.name), tagger)
            for field in fields(value)
            if field.name not in ("path", "baseline_path", "environment")
        }
        given: Mapping[str, str] = getattr(value, "environment", {})
        variables = {name: text for name, text in given.items() if name != VARIABLE}
        return {**kept, "variables": {n: tagger.tag("env", v) for n, v in variables.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, tagger) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, tagger) for item in value]
    if isinstance(value, set | frozenset):
        return [_plain(item, tagger) for item in sorted(map(str, value))]
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{module}:{name}" if name else repr(value)  # one that names an address is no other's
