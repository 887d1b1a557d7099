"""What a planner's code declares: the shape of each of its tools, and the versions it was given.

A case remembers both from the run that it was made of, so that it can be told when the code has
outgrown it. The planner's own package is looked at first, then the modules that it names and what
else is no library; in their classes and collections too, one level deep. Nothing is called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from sysconfig import get_paths
from types import FunctionType, ModuleType
from typing import Any, TypeGuard

from tracekit.canonical import JsonValue, digest
from tracekit.configuration import recorder
from tracekit.contract import Contract
from tracekit.declaring import kept_contract
from tracekit.decorators import MARK
from tracekit.redact import Redactor, UnkeyedTagger, find_placeholders
from tracekit.redact.placeholders import is_number_placeholder

VERSIONS = ("prompt", "tool_schema")
"""Of the version set, what decides whether a case still speaks of the code."""
_SHORT = 12
_SECRET = "redacted"
_MOST = 1000
"""So many items of a collection are looked at."""
_OURS = ("tracekit", "replay")
_LIBRARIES = tuple({get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class Declared:
    """What code declares now."""

    tools: Mapping[str, str | None] = field(default_factory=dict)
    """Tool → its shape; None where that is not known, or it has several."""
    versions: Mapping[str, str] = field(default_factory=dict)


def shape_of(contract: Contract) -> str | None:
    """Name what a tool takes, so that another name means other arguments; None where unknown."""
    if contract.parameters is None and contract.argument_schema is None:
        return None
    own = [p for p in contract.parameters or () if p.kind != "receiver"]
    said = contract.model_dump(mode="json", include={"parameters", "argument_schema"})
    if contract.parameters is not None:  # whose it is, is nothing that it takes
        said["parameters"] = [parameter.model_dump(mode="json") for parameter in own]
    return digest(_untagged(said)).partition(":")[2][:_SHORT]


def _untagged(said: JsonValue) -> JsonValue:
    """Give ``said`` as with every key: what redaction puts in a secret's place hangs on the key."""
    if isinstance(said, dict):
        return {name: _untagged(one) for name, one in said.items()}
    if isinstance(said, list):
        return [_untagged(one) for one in said]
    if isinstance(said, str) and find_placeholders(said):
        return _SECRET
    number = isinstance(said, (int, float)) and isfinite(said) and is_number_placeholder(said)
    return _SECRET if number else said


def declared_by(planner: object) -> dict[str, Any]:
    """List the tools that the code of ``planner`` can reach, and the versions given in it.

    A tool that its own package declares is that one, whatever others declare by its name.

    Returns:
        ``{"tools": {name: shape}, "versions": {name: version}}``.
    """
    owner = planner if inspect.isclass(planner) or inspect.isroutine(planner) else type(planner)
    root = _root(getattr(owner, "__module__", ""))
    own = {name: module for name, module in _loaded() if _root(name) == root}
    named = {name for module in own.values() for name in _named(module)}
    others = [m for n, m in _loaded() if n not in own and (n in named or not _is_library(m))]
    theirs = [
        m
        for m in others
        if _root(vars(m).get("__name__")) not in {*_OURS, *sys.stdlib_module_names}
    ]
    tools = _shapes(theirs) | _shapes(own.values())
    return {"tools": tools, "versions": relevant(recorder().versions)}


def _loaded() -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType):
            yield name, module


def _root(name: object) -> str:
    return str(name).partition(".")[0]


def _is_library(module: ModuleType) -> bool:
    file = vars(module).get("__file__")
    return not isinstance(file, str) or file.startswith(_LIBRARIES)


def _named(module: ModuleType) -> Iterator[str]:
    """Yield the modules that stand in a module's namespace, or whose functions and classes do."""
    for value in list(vars(module).values()):
        if issubclass(type(value), ModuleType):
            yield str(vars(value).get("__name__"))
        elif type(value) is FunctionType:
            yield str(value.__module__)
        elif _is_class(value):
            yield str(_MODULE_OF_CLASS(value))


_MODULE_OF_CLASS = type.__dict__["__module__"].__get__
"""Reads where a class is from without asking its metaclass, which may be anybody's."""


def _is_class(value: object) -> TypeGuard[type]:
    """Whether it is a class, without asking it: a proxy would look for what it stands for."""
    return issubclass(type(value), type)


def _shapes(modules: Iterable[ModuleType]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    met: set[int] = set()
    redactor = Redactor(recorder().redactor.rules, UnkeyedTagger())
    for module in modules:
        for value in _held(module):
            kind = value if _is_class(value) else type(value)
            for tool in (value, *_methods(kind, met)):
                contract = _contract(tool)
                if contract is not None:
                    kept = kept_contract(contract.model_dump_json(), redactor)
                    shape = shape_of(Contract.model_validate_json(kept.data))
                    same = found.setdefault(contract.name, shape) == shape
                    found[contract.name] = shape if same else None
    return found


def _held(module: ModuleType) -> Iterator[object]:
    """Yield what stands in a module's namespace, and in its collections there."""
    for value in list(vars(module).values()):
        yield value
        if type(value) in (list, tuple, set, frozenset, dict):
            items: Any = value
            yield from islice(list(items.values() if type(items) is dict else items), _MOST)


def _methods(kind: type, met: set[int]) -> Iterator[object]:
    """Yield what a class and its bases hold, each class once."""
    for base in kind.__mro__:
        if id(base) not in met and _MODULE_OF_CLASS(base) not in sys.stdlib_module_names:
            for method in list(vars(base).values()):
                wrapped: Any = method if type(method) in (staticmethod, classmethod) else None
                yield method if wrapped is None else wrapped.__func__
        met.add(id(base))


def relevant(versions: Mapping[str, str]) -> dict[str, str]:
    """Give the versions by which a case can be outgrown."""
    return {name: versions[name] for name in VERSIONS if name in versions}


def _contract(value: object) -> Contract | None:
    if not callable(value):
        return None
    mark = inspect.getattr_static(value, MARK, None)
    found = getattr(mark, "contract", None)
    return found if isinstance(found, Contract) else None
