"""How objects of other classes become JSON, and how they come back.

Data classes (dataclass, attrs, enum, named tuple, pydantic model, exception) are kept by class path
and state. Their view is the same whether or not the class can be found again, so that arguments
match; only the mark differs. Of anything else there is a description: its type, and those of its
public attributes that are simple values, so that two orders over 42 and 4200 are not one.
"""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticUndefined

from tracekit.canonical import classes
from tracekit.canonical.builtins import READERS, Reader, write_mapping
from tracekit.canonical.encoding import CLASS_RULES, Encoder, Handler, Task, describe, mark_class
from tracekit.canonical.exceptions import read_exception, write_exception

_MAX_ATTRIBUTES = 64
_SIMPLE = (type(None), bool, int, float, str, decimal.Decimal, uuid.UUID, dt.datetime, dt.date)


def _enum(encoder: Encoder, task: Task) -> JsonValue:
    state = classes.instance_dict(task.obj)
    value, name = state.get("_value_"), state.get("_name_")
    if type(value) in (int, str, float, bool, type(None)):
        part = encoder.nested(value, task.depth)
        if not part.types:
            mark_class(encoder, task, "enum", "value")
            return part.value
    if not isinstance(name, str):
        encoder.give_up(task, "an enum member without a name")
        return describe(task.obj)
    mark_class(encoder, task, "enum", "name")
    return name


def _read_enum(view: Any, rest: list[Any]) -> object:
    cls = classes.load_class(rest[0], kind="enum")
    return cls(view) if rest[1] == "value" else cls[view]


def _dataclass(encoder: Encoder, task: Task) -> JsonValue:
    return _fields(encoder, task, "dataclass", classes.dataclass_names(type(task.obj)))


def _attrs(encoder: Encoder, task: Task) -> JsonValue:
    return _fields(encoder, task, "attrs", classes.attrs_names(type(task.obj)))


def _fields(encoder: Encoder, task: Task, kind: str, names: Iterable[str]) -> JsonValue:
    cls, state = type(task.obj), classes.instance_dict(task.obj)
    fields: dict[str, object] = {}
    for name in names:
        try:
            fields[name] = classes.read_field(task.obj, name, state)
        except AttributeError:
            encoder.give_up(task, f"its field {name!r} is not set or is computed")
    for name, value in state.items():
        if name not in fields and not classes.is_cached_property(cls, name):
            fields[name] = value
    mark_class(encoder, task, kind)
    return encoder.fill_dict(task, fields)


def _read_fields(kind: str) -> Reader:
    def read(view: Any, rest: list[Any]) -> object:
        obj = object.__new__(classes.load_class(rest[0], kind=kind))
        for name, value in view.items():
            object.__setattr__(obj, name, value)
        return obj

    return read


def _namedtuple(encoder: Encoder, task: Task) -> JsonValue:
    cls = type(task.obj)
    values = tuple.__getitem__(cast("tuple[object, ...]", task.obj), slice(None))
    names = [str(name) for name in cls._fields]  # type: ignore[attr-defined]  # what the rule asked
    mark_class(encoder, task, "namedtuple")
    if len(names) != len(values) or classes.instance_dict(task.obj):
        encoder.give_up(task, "it holds more than its fields")
        return encoder.fill_list(task, values)
    return encoder.fill_dict(task, dict(zip(names, values, strict=True)))


def _read_namedtuple(view: Any, rest: list[Any]) -> object:
    cls = classes.load_class(rest[0], kind="namedtuple")
    return tuple.__new__(cls, [view[name] for name in cls._fields])


def _pydantic(encoder: Encoder, task: Task) -> JsonValue:
    model = cast("BaseModel", task.obj)
    fields: dict[str, object] = classes.instance_dict(model)
    cls = type(model)
    declared = {name for name in fields if name in cls.model_fields}
    fields = {
        name: value
        for name, value in fields.items()
        if name in declared or not classes.is_cached_property(cls, name)
    }
    extra = object.__getattribute__(model, "__pydantic_extra__") or {}
    given = object.__getattribute__(model, "__pydantic_fields_set__")
    private = object.__getattribute__(model, "__pydantic_private__") or {}
    unset: list[JsonValue] = [name for name in fields if name not in given]
    mark_class(encoder, task, "pydantic", unset, list(extra))
    if private and not _are_defaults(encoder, task, private):
        encoder.give_up(task, "its private attributes are not kept")
    return encoder.fill_dict(task, {**fields, **extra})


def _are_defaults(encoder: Encoder, task: Task, private: dict[str, object]) -> bool:
    defaults = _private_defaults(type(task.obj))
    kept = encoder.nested(dict(private), task.depth + 1)
    return kept.replayable and kept == encoder.nested(defaults, task.depth + 1)


def _private_defaults(cls: Any) -> dict[str, object]:
    """Give the private attributes that a new model has, as far as no user code has to run."""
    defaults: dict[str, object] = {}
    for name, attribute in cls.__private_attributes__.items():
        if attribute.default_factory in _FACTORIES:
            defaults[name] = attribute.default_factory()
        elif attribute.default is not PydanticUndefined:
            defaults[name] = copy.deepcopy(attribute.default)
    return defaults


_FACTORIES = (dict, list, set)


def _read_pydantic(view: Any, rest: list[Any]) -> object:
    cls = classes.load_class(rest[0], kind="pydantic")
    unset, extra_names = set(rest[1]), set(rest[2])
    model = cls.__new__(cls)
    fields = {name: value for name, value in view.items() if name not in extra_names}
    extra = {name: value for name, value in view.items() if name in extra_names}
    private = _private_defaults(cls)
    keeps_extra = cls.model_config.get("extra") == "allow"
    object.__setattr__(model, "__dict__", fields)
    object.__setattr__(model, "__pydantic_extra__", extra if keeps_extra else None)
    object.__setattr__(model, "__pydantic_fields_set__", set(view) - unset)
    object.__setattr__(model, "__pydantic_private__", private or None)
    return model


def _subclass_of_builtin(encoder: Encoder, task: Task) -> JsonValue:
    """Give the plain view of a ``str``, ``dict`` or other subclass that may hold more than that."""
    encoder.give_up(task, "a subclass of a builtin type may hold more than its plain value")
    obj: Any = task.obj
    for base, make in _PLAIN_VALUES:
        if issubclass(type(obj), base):
            plain = make(obj)
            if base is dict:
                return write_mapping(encoder, task, plain, [])
            if base is list or base is tuple:
                return encoder.fill_list(task, plain)
            return encoder.graft(encoder.nested(plain, task.depth), task.pointer)
    return describe(obj)


_PLAIN_VALUES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, lambda obj: int.__int__(obj)),
    (float, lambda obj: float.__float__(obj)),
    (str, lambda obj: str.__str__(obj)),
    (bytes, lambda obj: bytes.__getitem__(obj, slice(None))),
    (dict, lambda obj: dict(dict.items(obj))),
    (list, lambda obj: list.__getitem__(obj, slice(None))),
    (tuple, lambda obj: tuple.__getitem__(obj, slice(None))),
    (set, lambda obj: set(set.__iter__(obj))),
    (frozenset, lambda obj: frozenset(frozenset.__iter__(obj))),
    (dt.datetime, lambda obj: dt.datetime.fromisoformat(dt.datetime.isoformat(obj))),
)


def _describe(encoder: Encoder, task: Task) -> JsonValue:
    """Describe an object that is not kept, with its simple public attributes."""
    obj = task.obj
    encoder.give_up(task, "values of this type cannot be kept")
    view = describe(obj)
    facts = cast("dict[str, JsonValue]", view["$unreplayable"])
    if issubclass(type(obj), type):
        facts["name"] = classes.name_class(cast("type", obj))
        return view
    if type(obj) is types.ModuleType:
        name = vars(obj).get("__name__")
        facts["name"] = name if type(name) is str else None
        return view
    if type(obj) is types.FunctionType:
        facts["name"] = f"{obj.__module__}:{obj.__qualname__}"
        return view
    attributes: dict[str, JsonValue] = {}
    for name, value in classes.instance_dict(obj).items():
        if type(name) is str and not name.startswith("_") and type(value) in _SIMPLE:
            attributes[name] = encoder.nested(value, task.depth + 1).value
        if len(attributes) == _MAX_ATTRIBUTES:
            break
    if attributes:
        facts["attributes"] = cast("JsonValue", attributes)
    return view


_HANDLERS_BY_KIND: dict[str, Handler] = {
    "enum": _enum,
    "dataclass": _dataclass,
    "attrs": _attrs,
    "namedtuple": _namedtuple,
    "pydantic": _pydantic,
    "exception": write_exception,
}


def _choose(kind: type) -> Handler:
    data_kind = classes.find_kind(kind)
    if data_kind is not None:
        return _HANDLERS_BY_KIND[data_kind]
    if any(issubclass(kind, base) for base, _ in _PLAIN_VALUES):
        return _subclass_of_builtin
    return _describe


CLASS_RULES.append(_choose)
READERS.update(
    {
        "enum": _read_enum,
        "dataclass": _read_fields("dataclass"),
        "attrs": _read_fields("attrs"),
        "namedtuple": _read_namedtuple,
        "pydantic": _read_pydantic,
        "exception": read_exception,
    }
)
