"""Client libraries whose calls are recorded without a decorator.

An integration is put in place when a run begins or a replay is made ready: at once where the
library has been imported, else the moment it is. tracekit imports none of them by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType

from tracekit.interruption import warn

_INTEGRATIONS = {
    "openai": "tracekit.integrations.openai",
    "langchain_core.tools.base": "tracekit.integrations.langchain_tools",
    "langchain_core.language_models.chat_models": "tracekit.integrations.langchain_models",
}
"""Module of a library → module of ours; its ``instrument`` may be called any number of times."""
_VERSIONS = {"openai": ((1, 60), (4,)), "langchain_core": ((1,), (2,))}
"""Library → from which version it is known, and up to which it is not any more."""
_done: set[str] = set()
_checked: set[str] = set()
_strict = False


def instrument_loaded() -> None:
    """Put every integration in place: now, or as soon as its library is imported."""
    for library in _INTEGRATIONS.keys() - _done:
        found = sys.modules.get(library)
        if found is not None and _initialised(found):
            _instrument(library)
    if _INTEGRATIONS.keys() - _done and _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def instrument_all() -> None:
    """Do the same for a replay, which must miss no client: a failure is an error there."""
    global _strict  # a replay is a mode of the whole process
    _strict = True
    instrument_loaded()


def _initialised(module: ModuleType) -> bool:
    return not getattr(module.__spec__, "_initializing", False)


def _instrument(library: str) -> None:
    _done.add(library)
    _check_version(library.partition(".")[0])
    try:
        import_module(_INTEGRATIONS[library]).instrument()
    except Exception as error:  # the traced program is never the victim
        if _strict:
            raise
        warn("tracekit cannot record calls of %s: %s", library, error)


def _check_version(library: str) -> None:
    """Warn once of a version that nobody has tried; it may work all the same."""
    if library in _checked:
        return
    _checked.add(library)
    try:
        found = version(library)
        numbers = tuple(int(number) for number in found.split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return  # a copy without metadata, or a version of the user's own
    first, end = _VERSIONS[library]
    if not first <= numbers < end:
        warn(
            "tracekit is not tested with %s %s: calls may be recorded in part, or not at all",
            library, found,
        )  # fmt: skip


class _Watcher(MetaPathFinder):
    """Sees a library being imported, and lets the usual finders find it."""

    _asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _INTEGRATIONS or name in _done or self._asking:
            return None
        self._asking = True
        try:
            spec = find_spec(name)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(name, spec.loader)
        return spec


class _Loader(Loader):
    """Loads a library as its own loader does, then puts the integration in place."""

    def __init__(self, library: str, loader: Loader) -> None:
        self._library = library
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._library not in _done:
            _instrument(self._library)


_watcher = _Watcher()
