"""Which code made a run: the agent's ``MOD:OBJ``, and a digest of the source that stands behind it.

Of the source counts what the agent's module imports, at any depth, of the code that it lies beside:
its package, or the folder that its package stands in, but no installed package. It is read and not
imported, so that the same is found before a replay as was found when the run was made.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.canonical import JsonValue, digest, digest_bytes
from tracekit.canonical.classes import importable_name

MADE_BY = "made_by"
"""Attribute of a run that tells its origin."""
_MAX_FILES = 2_000
_INSTALLED = ("site-packages", "dist-packages")
_OURS = ("tracekit", "replay")
_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#;]*)"
    rb"|import[ \t]+(?P<modules>[^\n#;]*))",
    re.MULTILINE,
)
_NAME = re.compile(rb"[\w.]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """The code that made a run."""

    planner: str
    """``MOD:OBJ`` of the agent."""
    code: str | None
    """Digest of its source; None where that is not known."""

    def as_attribute(self) -> dict[str, JsonValue]:
        """What is kept of it with a run."""
        return {"planner": self.planner, **({} if self.code is None else {"code": self.code})}

    @classmethod
    def from_attribute(cls, kept: object) -> Origin | None:
        """Read what is kept of it with a run."""
        if not isinstance(kept, dict) or not isinstance(kept.get("planner"), str):
            return None
        code = kept.get("code")
        return cls(kept["planner"], code if isinstance(code, str) else None)


def origin_of(function: Callable[..., Any], known_ns: int) -> Origin | None:
    """Tell the origin of what ``function`` makes; None where no other process could import it.

    A method could be imported, but not the object that it was called on.

    Args:
        function: The agent.
        known_ns: When its module was imported. Source that was changed since is not what runs.
    """
    name = getattr(function, "__qualname__", None)
    own = getattr(function, "__module__", None)
    module = importable_name(own) if isinstance(own, str) else None
    if module is None or not isinstance(name, str) or "<" in name:
        return None
    loaded = sys.modules.get(str(function.__module__))
    if _is_method(loaded, name):
        return None
    file = getattr(loaded, "__file__", None)
    code = None if file is None else source_digest(module, Path(file), before_ns=known_ns)
    return Origin(f"{module}:{name}", code)


def _is_method(module: object, name: str) -> bool:
    *within, last = name.split(".")
    owner = module
    for part in within:
        owner = getattr(owner, part, None)
    held = inspect.getattr_static(owner, last, None)
    return isinstance(owner, type) and not isinstance(held, (staticmethod, classmethod))


def source_digest(module: str, file: Path, *, before_ns: int | None = None) -> str | None:
    """Digest the source of a module and of what it imports beside it; None where there is none.

    Args:
        module: Its name.
        file: Where it stands.
        before_ns: Nothing is said of source that was changed later.
    """
    try:
        return _Source(module, file.resolve(), before_ns).digest()
    except (OSError, ValueError):
        return None


class _Source:
    """The modules of one agent, by their place below the folder that they lie in."""

    def __init__(self, module: str, file: Path, before_ns: int | None) -> None:
        up = len(module.split(".")) - (file.stem != "__init__")
        self._root = file.parents[up]
        self._before_ns = before_ns
        installed = self._root.name in _INSTALLED
        self._only = module.partition(".")[0] if installed else None
        self._first = file.relative_to(self._root)

    def digest(self) -> str | None:
        """Digest them; None where they are too many, or were changed."""
        found: dict[str, str] = {}
        waiting = [self._first]
        while waiting:
            place = waiting.pop()
            name = place.as_posix()
            if name in found:
                continue
            file = self._root / place
            changed = self._before_ns is not None and file.stat().st_mtime_ns > self._before_ns
            if changed or len(found) == _MAX_FILES:
                return None
            text = file.read_bytes()
            found[name] = digest_bytes(text)
            waiting += self._imported(place, text)
        listed: list[JsonValue] = [[name, code] for name, code in sorted(found.items())]
        return digest(listed)

    def _imported(self, place: Path, text: bytes) -> Iterator[Path]:
        """The modules that a text may import; a word in a comment costs nothing but a look."""
        package = place.parent.parts
        for inside in range(len(package)):
            yield from self._module(package[: inside + 1])
        for found in _IMPORTS.finditer(text):
            if found["modules"] is not None:
                for name in _NAME.findall(found["modules"]):
                    yield from self._module(tuple(name.decode().split(".")))
                continue
            base = _absolute(package, found["base"].decode())
            if base is None:
                continue
            yield from self._module(base)
            for name in _NAME.findall(found["names"]):
                yield from self._module((*base, *name.decode().split(".")))

    def _module(self, parts: tuple[str, ...]) -> Iterator[Path]:
        """The files behind a dotted name, where they lie here."""
        if not parts or not all(parts) or parts[0] in _OURS or self._only not in (None, parts[0]):
            return
        for end in range(1, len(parts) + 1):
            place = Path(*parts[:end])
            for candidate in (place / "__init__.py", place.with_name(place.name + ".py")):
                if (self._root / candidate).is_file():
                    yield candidate
                    break


def _absolute(package: tuple[str, ...], base: str) -> tuple[str, ...] | None:
    """The parts of a name that is written from inside a package."""
    name = base.lstrip(".")
    up = len(base) - len(name)
    if up > len(package):
        return None
    above = package[: len(package) - up + 1] if up else ()
    return (*above, *filter(None, name.split(".")))
