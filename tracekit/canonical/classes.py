"""Which classes may be rebuilt from stored data, and how their state is read without running them.

Stored data names classes. It may never cause an import, so a name is looked up in ``sys.modules``
only, through plain dictionaries, and the class found must be of a kind that holds data: dataclass,
attrs class, enum, named tuple, pydantic model or exception. State is read from the instance
dictionary and from slots, and put back there, so that no property, ``__init__`` or validator of the
user runs.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tracekit.errors import NotReplayable


def name_class(cls: type) -> str:
    """Name a class as ``module:qualname``, whatever its metaclass does to attributes."""
    namespace = type.__dict__["__dict__"].__get__(cls)
    module = namespace.get("__module__")
    if not isinstance(module, str):  # builtin classes of C modules carry it in their name
        module = type.__dict__["__module__"].__get__(cls)
    if module == "__main__":
        module = importable_name(module) or module
    return f"{module}:{type.__dict__['__qualname__'].__get__(cls)}"


def is_rebuildable(cls: type) -> bool:
    """Tell whether the name of ``cls`` leads back to it, in this program and in the next."""
    name = name_class(cls)
    if name.startswith("__main__:") or "<locals>" in name:
        return False
    module_name, _, qualname = name.partition(":")
    if type.__dict__["__dict__"].__get__(cls).get("__module__") == "__main__":
        module_name = "__main__"  # where it stands here
    return _find_in(sys.modules.get(module_name), qualname, name) is cls


def importable_name(module: str) -> str | None:
    """Give the name under which a module can be imported, also where it is run as a program."""
    if module != "__main__":
        return module
    main: Any = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        found: str = spec.name
        return found
    stem = Path(file).stem if file is not None else ""
    return stem if stem.isidentifier() else None


def find_class(name: str) -> type | None:
    """Find a class by ``module:qualname`` among the modules that are already imported."""
    module_name, _, qualname = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None and module_name == importable_name("__main__"):
        module = sys.modules["__main__"]
    return _find_in(module, qualname, name)


def _find_in(module: types.ModuleType | None, qualname: str, name: str) -> type | None:
    qualname, given, _ = qualname.partition("[")
    place: Any = module
    for part in qualname.split("."):
        if isinstance(place, types.ModuleType):
            place = place.__dict__.get(part)
        elif isinstance(place, type):
            place = type.__dict__["__dict__"].__get__(place).get(part)
        else:
            return None
    if not isinstance(place, type):
        return None
    return _parametrised(place, name) if given else place


def _parametrised(origin: type, name: str) -> type | None:
    """Find a generic model with its parameters (``Box[int]``), where the program has made it."""
    made: list[type] = type.__subclasses__(origin)
    return next((cls for cls in made if name_class(cls) == name), None)


def load_class(name: object, *, kind: str) -> Any:
    """Return the class that stored data names, if it is one of ``kind``.

    Raises:
        NotReplayable: its module is not imported, or it is no class of that kind.
    """
    cls = find_class(name) if isinstance(name, str) else None
    if cls is None:
        raise NotReplayable(
            f"class {name!r} is not among the imported modules",
            hint="import the module that defines it before the value is rebuilt",
        )
    if find_kind(cls) != kind:
        raise NotReplayable(f"{name!r} is no {kind}")
    return cls


def _is_among(mro: tuple[type, ...], wanted: type) -> bool:
    """Whether a class is among the bases, told by identity: a metaclass may have an ``__eq__``."""
    return any(base is wanted for base in mro)


def find_kind(cls: type) -> str | None:
    """Name the kind of data class that ``cls`` is, if it is one."""
    mro = type.__dict__["__mro__"].__get__(cls)
    if _is_among(mro, Enum):
        return "enum"
    if _is_among(mro, BaseModel):
        return "pydantic"
    if _is_among(mro, BaseException):
        return "exception"
    if _is_among(mro, tuple) and _class_attribute(cls, "_fields") is not None:
        return "namedtuple"
    if isinstance(_class_attribute(cls, "__dataclass_fields__"), dict):
        return "dataclass"
    if isinstance(_class_attribute(cls, "__attrs_attrs__"), tuple):
        return "attrs"
    return None


def attrs_names(cls: type) -> Iterator[str]:
    """Yield the field names of a class that ``attrs`` made."""
    for field in _class_attribute(cls, "__attrs_attrs__"):
        name = getattr(field, "name", None)
        if isinstance(name, str):
            yield name


def dataclass_names(cls: type) -> Iterator[str]:
    """Yield the field names of a dataclass."""
    for name, field in _class_attribute(cls, "__dataclass_fields__").items():
        if isinstance(field, dataclasses.Field) and (
            getattr(field, "_field_type", None) is dataclasses._FIELD  # type: ignore[attr-defined]  # ClassVar and InitVar pseudo-fields are told apart by it alone
        ):
            yield name


def instance_dict(obj: object) -> dict[str, Any]:
    """Copy an instance's own dictionary, past whatever its class does to attributes."""
    hidden = False
    for cls in type.__dict__["__mro__"].__get__(type(obj)):
        descriptor = type.__dict__["__dict__"].__get__(cls).get("__dict__")
        if isinstance(descriptor, types.GetSetDescriptorType):
            state = descriptor.__get__(obj)
            return state.copy() if type(state) is dict else {}
        hidden = hidden or descriptor is not None
    if hidden and type.__dict__["__dictoffset__"].__get__(type(obj)):
        state = object.__getstate__(obj)  # its class says something else under that name
        state = state[0] if type(state) is tuple else state
        return state.copy() if type(state) is dict else {}
    if _is_among(type.__dict__["__mro__"].__get__(type(obj)), BaseException):
        state = BaseException.__dict__["__dict__"].__get__(obj)
        return dict(state)
    return {}


def read_field(obj: object, name: str, state: dict[str, Any]) -> object:
    """Read one field from the instance's dictionary or slot.

    Raises:
        AttributeError: it is in neither; a property is not asked.
    """
    if name in state:
        return state[name]
    descriptor = _class_attribute(type(obj), name)
    if isinstance(descriptor, types.MemberDescriptorType):
        return descriptor.__get__(obj)
    raise AttributeError(name)


def is_cached_property(cls: type, name: str) -> bool:
    """Tell whether ``name`` is a value that the class computed and kept."""
    return isinstance(_class_attribute(cls, name), functools.cached_property)


def _class_attribute(cls: type, name: str) -> Any:
    for base in type.__dict__["__mro__"].__get__(cls):
        namespace = type.__dict__["__dict__"].__get__(base)
        if name in namespace:
            return namespace[name]
    return None
