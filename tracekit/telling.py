"""What tells one object from another of its class, as the agent's own code made it.

Text, whole numbers, ids, days and the like can tell; clients, locks, containers and numbers with a
fraction cannot. A tool's body may change its object (a counter, a cache), and no body runs in a
replay. So what changed while one ran does not count, and what changed between two calls does.
Rejected: the state at the first call of a run, since code that moves an object on to the next
account would not be seen.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import pathlib
import types
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tracekit.canonical import JsonValue, classes

_EXACT = (
    str,
    int,
    bool,
    type(None),
    bytes,
    uuid.UUID,
    decimal.Decimal,
    dt.datetime,
    dt.date,
    dt.time,
)
_DERIVED = (str, int, bytes, Enum, pathlib.PurePath)
NOTHING = object()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the objects of a class keep what tells them apart."""

    of: weakref.ref[type]
    slots: tuple[types.MemberDescriptorType, ...]
    passed_by: frozenset[str]
    """Fields that are computed, or declared to count in no comparison."""
    kind: str | None
    built_in: type | None
    """``str``, ``int`` or ``bytes``, where the objects are such values themselves."""


_layouts: dict[int, _Layout] = {}


def mro_of(cls: type) -> tuple[type, ...]:
    """Give a class and its bases, past what its metaclass does."""
    return type.__dict__["__mro__"].__get__(cls)  # type: ignore[no-any-return]  # past a metaclass


def namespace_of(cls: type) -> Mapping[str, Any]:
    """Give what stands in the body of a class, past what its metaclass does."""
    return type.__dict__["__dict__"].__get__(cls)  # type: ignore[no-any-return]  # past a metaclass


def _layout(cls: type) -> _Layout:
    """How objects of ``cls`` are read; kept by the class's address, since it may forbid a hash."""
    known = _layouts.get(id(cls))
    if known is not None and known.of() is cls:
        return known
    slots, passed_by = [], set()
    for base in reversed(mro_of(cls)):
        for name, value in namespace_of(base).items():
            if isinstance(value, types.MemberDescriptorType) and not _is_special(name):
                slots.append(value)
            elif type(value) is functools.cached_property:
                passed_by.add(name)
        compared = namespace_of(base).get("__dataclass_fields__")
        if isinstance(compared, dict):
            passed_by |= {n for n, f in compared.items() if getattr(f, "compare", True) is False}
    built_in = next(
        (kind for kind in (str, int, bytes) if any(base is kind for base in mro_of(cls))), None
    )
    made = _Layout(
        weakref.ref(cls, functools.partial(_forget, _layouts, id(cls))),
        tuple(slots),
        frozenset(passed_by),
        classes.find_kind(cls),
        built_in,
    )
    _layouts[id(cls)] = made
    return made


def _forget(known: dict[int, Any], key: int, gone: object) -> None:
    found = known.get(key)
    if found is not None and found.of is gone:
        del known[key]


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_exact(kind: type) -> bool:
    """Whether values of this very class can tell; a metaclass may forbid to hash or compare it."""
    return kind is str or any(kind is exact for exact in _EXACT)


def scalar(value: object) -> object:
    """What a field says of whose it is; ``NOTHING`` where it says nothing."""
    kind = type(value)
    if _is_exact(kind):
        return value
    if issubclass(kind, _DERIVED):
        if issubclass(kind, Enum):
            return value
        if issubclass(kind, pathlib.PurePath):
            return pathlib.PurePath.__str__(value)
        base = str if issubclass(kind, str) else int if issubclass(kind, int) else bytes
        return _plain(base, value)
    return NOTHING


def _plain(base: type, value: Any) -> object:
    """A value of a class derived from a built-in one, as it is without that class."""
    if base is str:
        return str.__str__(value)
    return int.__int__(value) if base is int else bytes.__getitem__(value, slice(None))


def state_of(obj: object) -> dict[str, object]:
    """The fields that tell ``obj`` from others of its class, as they are now.

    No code of the program runs: neither properties nor ``__getattr__``.
    """
    cls = type(obj)
    if issubclass(cls, type):
        return {}
    layout = _layout(cls)
    if layout.kind == "enum":
        return {"name": classes.instance_dict(obj).get("_name_")}
    found: dict[str, object] = {}
    if layout.built_in is not None:
        found["value"] = _plain(layout.built_in, obj)
    elif layout.kind == "namedtuple":
        values = tuple.__getitem__(obj, slice(None))  # type: ignore[call-overload]  # of its kind
        names = _class_attribute(cls, "_fields")
        found |= dict(zip((str(name) for name in names), values, strict=False))
    for slot in layout.slots:
        value = _slot(slot, obj)
        if value is not NOTHING:
            found[slot.__name__] = value
    found |= classes.instance_dict(obj)
    if layout.kind == "pydantic":
        found |= object.__getattribute__(obj, "__pydantic_private__") or {}
        found |= object.__getattribute__(obj, "__pydantic_extra__") or {}
    return {
        name: said
        for name, value in found.items()
        if (said := scalar(value)) is not NOTHING
        and name not in layout.passed_by
        and not _is_special(name)
    }


def _slot(slot: types.MemberDescriptorType, obj: object) -> object:
    try:
        return slot.__get__(obj)
    except AttributeError:  # nothing was put there yet
        return NOTHING


def _class_attribute(cls: type, name: str) -> Any:
    return next(
        (namespace_of(base)[name] for base in mro_of(cls) if name in namespace_of(base)), ()
    )


# --- what the agent's code made of it ------------------------------------------------------------


@dataclass(slots=True, eq=False, weakref_slot=True)
class Met:
    """What a call belongs to, once it was met."""

    of: Any
    """What keeps it apart from another with its address."""
    counts: dict[str, object]
    """Its state, but for what changed while a body ran."""
    last: dict[str, object]
    """Its state when it was last looked at."""
    bodies: set[object] = field(default_factory=set)
    """The calls of it whose bodies are running."""
    text: dict[str, JsonValue] | None = None
    """``counts`` as it was last written."""

    def over(self, body: object) -> None:
        """Take note that a body is over: what has changed since it began does not count."""
        self.bodies.discard(body)
        held = self.of
        if isinstance(held, types.CellType):
            self.last = content_of(held)
        elif held is not None and (obj := held()) is not None:
            self.last = state_of(obj)

    def look(self, now: dict[str, object]) -> None:
        """Take note of its state between two calls: what has changed, the agent's code changed."""
        if self.bodies or _same(now, self.last):
            return
        for name in (*self.last, *(name for name in now if name not in self.last)):
            if not _is_same(now.get(name, NOTHING), self.last.get(name, NOTHING)):
                self.counts.pop(name, None)
                if name in now:
                    self.counts[name] = now[name]
        self.last, self.text = now, None


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    return len(one) == len(other) and all(
        _is_same(value, other.get(name, NOTHING)) for name, value in one.items()
    )


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and _is_exact(type(one)) and one == other)


_objects: dict[int, Met] = {}
_cells: weakref.WeakValueDictionary[int, Met] = weakref.WeakValueDictionary()


def meet(obj: object) -> Met:
    """What is known of ``obj``, brought up to now. One without weak references is always new."""
    now = state_of(obj)
    met = _objects.get(id(obj))
    if met is not None and met.of() is obj:
        met.look(now)
        return met
    try:
        held = weakref.ref(obj, functools.partial(_forget, _objects, id(obj)))
    except TypeError:
        return Met(None, now, now)
    met = Met(held, dict(now), now)
    _objects[id(obj)] = met
    return met


def met_cell(cell: types.CellType) -> Met:
    """What is known of a variable of an enclosing function; several tools may share one."""
    met = _cells.get(id(cell))
    if met is None:
        now = content_of(cell)
        _cells[id(cell)] = met = Met(cell, dict(now), now)
    return met


def content_of(cell: types.CellType) -> dict[str, object]:
    """Give what a variable says, under no name; nothing where it says nothing."""
    try:
        said = scalar(cell.cell_contents)
    except ValueError:  # nothing is in it yet
        return {}
    return {} if said is NOTHING else {"": said}
