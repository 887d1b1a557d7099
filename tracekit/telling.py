"""What tells one object from another of its class, as the agent's own code made it.

Text, whole numbers, ids, days and the like can tell; clients, locks, containers and numbers with a
fraction cannot. A tool's body may change its object (a counter, a cache), and no body runs in a
replay. So what changed while one ran does not count, and what changed between two calls does.
Rejected: the state at the first call of a run, since code that moves an object on to the next
account would not be seen; a field fixed for good once a body changed it, for the same reason.
Whatever goes wrong in looking costs fields, never a call.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import os
import pathlib
import threading
import types
import uuid
import weakref
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tracekit.canonical import JsonValue, classes
from tracekit.interruption import pass_on

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
_ZONES = (type(None), dt.timezone, zoneinfo.ZoneInfo)
"""Zones that run no code of the program when a time is compared or written."""
_MOST_FIELDS = 256
"""Fields of an object that are looked at, the first ones: a table is no object of its class."""
_LONGEST = 65_536
"""Length of the longest text that can tell: a document identifies nothing, and costs time."""
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


def namespace_of(cls: type) -> types.MappingProxyType[str, Any]:
    """Give what stands in the body of a class, past what its metaclass does."""
    return type.__dict__["__dict__"].__get__(cls)  # type: ignore[no-any-return]  # past a metaclass


def _layout(cls: type) -> _Layout:
    """How objects of ``cls`` are read; kept by the class's address, since it may forbid a hash."""
    known = _layouts.get(id(cls))
    if known is not None and known.of() is cls:
        return known
    slots, passed_by = [], set()
    for base in reversed(mro_of(cls)):
        for name, value in namespace_of(base).copy().items():
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
    if kind is int or kind is bool or value is None:  # most are that, or text
        return value
    if not _is_exact(kind):
        if not issubclass(kind, _DERIVED):
            return NOTHING
        if issubclass(kind, Enum):
            return value
        if issubclass(kind, pathlib.PurePath):
            return _path(value)
        base = str if issubclass(kind, str) else int if issubclass(kind, int) else bytes
        value = _plain(base, value)
    if isinstance(value, (str, bytes)):
        return value if len(value) <= _LONGEST else NOTHING
    if isinstance(value, (dt.datetime, dt.time)):
        return value if any(type(value.tzinfo) is zone for zone in _ZONES) else NOTHING
    return value


def _path(value: object) -> object:
    """A path as text; a class of the program's may have no parts, or code of its own for them."""
    try:
        return pathlib.PurePath.__str__(value)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001  # it says nothing then
        pass_on(error)
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
    said: dict[str, object] = {}
    for name, value in _contents(cls, layout, obj).items():
        if type(name) is not str or _is_special(name) or name in layout.passed_by:
            continue
        told = scalar(value)
        if told is not NOTHING:
            said[name] = told
            if len(said) == _MOST_FIELDS:
                break
    return said


def _contents(cls: type, layout: _Layout, obj: object) -> dict[Any, object]:
    """All that ``obj`` holds, copied at once: other threads may change it meanwhile."""
    found: dict[Any, object] = {}
    if layout.built_in is not None:
        found["value"] = _plain(layout.built_in, obj)
    elif layout.kind == "namedtuple":
        found |= _named(cls, obj)
    for slot in layout.slots:
        value = _slot(slot, obj)
        if value is not NOTHING:
            found[slot.__name__] = value
    own = classes.instance_dict(obj)
    found = {**found, **own} if found else own
    if layout.kind == "pydantic":
        for place in ("__pydantic_private__", "__pydantic_extra__"):
            more = _slot(_class_attribute(cls, place), obj)
            found |= more.copy() if type(more) is dict else {}
    return found


def _named(cls: type, obj: object) -> Iterator[tuple[str, object]]:
    """The fields of a named tuple; what says only that it is one has none."""
    names = _class_attribute(cls, "_fields")
    if type(names) is tuple:
        values = tuple.__getitem__(obj, slice(None))  # type: ignore[call-overload]  # of its kind
        yield from zip(names, values, strict=False)


def _slot(slot: object, obj: object) -> object:
    if not isinstance(slot, types.MemberDescriptorType):
        return NOTHING
    try:
        return slot.__get__(obj)
    except AttributeError:  # nothing was put there yet
        return NOTHING


def _class_attribute(cls: type, name: str) -> Any:
    return next(
        (namespace_of(base)[name] for base in mro_of(cls) if name in namespace_of(base)), ()
    )


# --- what the agent's code made of it ------------------------------------------------------------


class _Turn:
    """One at a time looks, so that what a body changed is never taken for the agent's.

    Reentrant: the garbage collector and signal handlers may call a tool in the middle of it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def after_fork(self) -> None:
        """Begin anew: of the bodies under way, this process has those of the thread that forked."""
        self.lock = threading.RLock()
        here = threading.get_ident()
        for met in [*_objects.values(), *_cells.values()]:
            for body in list(met.bodies):
                if body.thread != here:
                    met.bodies.discard(body)


_turn = _Turn()
os.register_at_fork(after_in_child=_turn.after_fork)


class Body:
    """A body that is running just now; one that nobody holds any more is over."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Met:
    """What a call belongs to, once it was met."""

    of: Any
    """What gives it, and keeps it apart from another with its address; None if nothing does."""
    counts: dict[str, object]
    """Its state, but for what changed while a body ran; another dictionary at each change."""
    last: dict[str, object]
    """Its state when it was last looked at."""
    bodies: weakref.WeakSet[Body] = field(default_factory=weakref.WeakSet)
    """The bodies of it that are running."""
    written: tuple[dict[str, object], dict[str, JsonValue]] | None = None
    """``counts``, and how that was last written."""

    def look(self) -> dict[str, object]:
        """Give its state, but for what bodies changed."""
        with _turn.lock:
            if not self.bodies:
                now = self._state()
                if now is not None and not _same(now, self.last):
                    self._changed(now)
            return self.counts

    def enter(self, body: Body) -> None:
        """Take note that a body runs; what had changed before is to be looked at first."""
        with _turn.lock:
            self.bodies.add(body)

    def leave(self, body: Body) -> list[str]:
        """Take note that a body runs no more: what has changed since, it changed; name that."""
        with _turn.lock:
            try:
                now, last = self._state(), self.last
                if now is None or _same(now, last):
                    return []
                self.last = now
                return _differing(last, now)
            finally:
                self.bodies.discard(body)

    def _state(self) -> dict[str, object] | None:
        """As it is now; None where that cannot be seen."""
        held = self.of
        try:
            if isinstance(held, types.CellType):
                return content_of(held)
            obj = None if held is None else held()
            return None if obj is None else state_of(obj)
        except Exception as error:  # noqa: BLE001  # it counts as it was
            pass_on(error)
            return None

    def _changed(self, now: dict[str, object]) -> None:
        counts = dict(self.counts)
        for name in _differing(self.last, now):
            counts.pop(name, None)
            if name in now:
                counts[name] = now[name]
        self.counts, self.last = counts, now


def _differing(last: dict[str, object], now: dict[str, object]) -> list[str]:
    return [
        name
        for name in (*last, *(name for name in now if name not in last))
        if not _is_same(now.get(name, NOTHING), last.get(name, NOTHING))
    ]


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    return len(one) == len(other) and all(
        _is_same(value, other.get(name, NOTHING)) for name, value in one.items()
    )


def _is_same(one: object, other: object) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or not _is_exact(kind):
        return False
    if isinstance(one, decimal.Decimal) and isinstance(other, decimal.Decimal):
        return (
            one.as_tuple() == other.as_tuple()
        )  # a signalling one can be compared in no other way
    try:
        return one == other
    except Exception as error:  # noqa: BLE001  # half made, as an id without its number
        pass_on(error)
        return False


_objects: dict[int, Met] = {}
_cells: weakref.WeakValueDictionary[int, Met] = weakref.WeakValueDictionary()


def meet(obj: object) -> Met:
    """What is known of ``obj``. One that can be seen now only, or not at all, is always new."""
    with _turn.lock:
        met = _objects.get(id(obj))
        if met is not None and met.of() is obj:
            return met
        try:
            now = state_of(obj)
        except Exception as error:  # noqa: BLE001  # its class is known
            pass_on(error)
            return Met(None, {}, {})
        try:
            held = weakref.ref(obj, functools.partial(_forget, _objects, id(obj)))
        except TypeError:  # it is always new; what this one body changes can be seen all the same
            return Met(lambda: obj, now, now)
        met = Met(held, dict(now), now)
        _objects[id(obj)] = met
        return met


def met_cell(cell: types.CellType) -> Met:
    """What is known of a variable of an enclosing function; several tools may share one."""
    with _turn.lock:
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
