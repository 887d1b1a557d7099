"""How the values of Python's own types become JSON, and how they come back.

Each type has a writer (value to view and tag) and a reader (view and tag to value). A tag is a
name, or a list of a name and what else the reader must know. The view alone is digested and
redacted, so it carries the data, and the tag only the type.
"""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import fractions
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, cast

from pydantic import JsonValue

from tracekit.canonical.encoding import HANDLERS, Encoded, Encoder, Stream, Task
from tracekit.canonical.text import SAFE_INT, canonical_bytes, name_special_float, spell_integer

Reader = Callable[[Any, list[Any]], object]
READERS: dict[str, Reader] = {}
"""How a view with this tag becomes a value again: given the view and the rest of the tag."""


def _atom(encoder: Encoder, task: Task) -> JsonValue:
    return cast("JsonValue", task.obj)


def _int(encoder: Encoder, task: Task) -> JsonValue:
    number = cast("int", task.obj)
    if -SAFE_INT <= number <= SAFE_INT:
        return number
    encoder.tag(task, "int")
    return spell_integer(number)


def _read_int(view: Any, _rest: list[Any]) -> int:
    text = str(view)
    return int(text, 16) if "x" in text else int(text)


def _float(encoder: Encoder, task: Task) -> JsonValue:
    number = cast("float", task.obj)
    if number - number == 0:
        return number
    encoder.tag(task, "float")
    return {"$float": name_special_float(number)}


def _str(encoder: Encoder, task: Task) -> JsonValue:
    text = cast("str", task.obj)
    try:
        text.encode()
    except UnicodeEncodeError:
        lone: list[JsonValue] = [
            [place, ord(char)] for place, char in enumerate(text) if "\ud800" <= char <= "\udfff"
        ]
        encoder.tag(task, ["str", lone])
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def _read_str(view: Any, rest: list[Any]) -> str:
    chars = list(view)
    for place, unit in rest[0]:
        if place < len(chars) and chars[place] == "\ufffd":  # redaction may have moved things
            chars[place] = chr(unit)
    return "".join(chars)


def _binary(name: str) -> Callable[[Encoder, Task], JsonValue]:
    def write(encoder: Encoder, task: Task) -> JsonValue:
        encoder.tag(task, name)
        return {"$bytes": base64.b64encode(cast("bytes", task.obj)).decode()}

    return write


def _read_bytes(view: Any, _rest: list[Any]) -> bytes:
    return base64.b64decode(view["$bytes"], validate=True)


def _list(encoder: Encoder, task: Task) -> JsonValue:
    return encoder.fill_list(task, cast("list[object]", task.obj))


def _sequence(name: str) -> Callable[[Encoder, Task], JsonValue]:
    def write(encoder: Encoder, task: Task) -> JsonValue:
        encoder.tag(task, name)
        return encoder.fill_list(task, cast("tuple[object, ...]", task.obj))

    return write


def _deque(encoder: Encoder, task: Task) -> JsonValue:
    queue = cast("collections.deque[object]", task.obj)
    encoder.tag(task, ["deque", queue.maxlen])
    return encoder.fill_list(task, queue)


def _set(name: str) -> Callable[[Encoder, Task], JsonValue]:
    def write(encoder: Encoder, task: Task) -> JsonValue:
        encoder.tag(task, name)
        elements = cast("set[object]", task.obj).copy()
        parts = [encoder.nested(element, task.depth + 1) for element in elements]
        parts.sort(key=_order)
        return [encoder.graft(part, f"{task.pointer}/{place}") for place, part in enumerate(parts)]

    return write


def _order(part: Encoded) -> tuple[bytes, bytes]:
    return canonical_bytes(part.value), canonical_bytes(dict(part.types))


_KEY_NAMES: dict[type, str] = {int: "int", float: "float", bool: "bool", type(None): "null"}
_KEY_READERS: dict[str, Callable[[str], object]] = {
    "int": lambda text: _read_int(text, []),
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text],
    "null": lambda text: {"null": None}[text],
}


def _dict(encoder: Encoder, task: Task) -> JsonValue:
    return write_mapping(encoder, task, cast("dict[object, object]", task.obj).copy(), [])


def write_mapping(
    encoder: Encoder, task: Task, mapping: dict[object, object], tag: list[JsonValue]
) -> JsonValue:
    """Give a mapping as an object where its keys are all of one simple type, else as pairs."""
    kinds = {type(key) for key in mapping}
    if kinds <= {str} and all(_is_sound(cast("str", key)) for key in mapping):
        if tag:
            encoder.tag(task, tag)
        return encoder.fill_dict(task, cast("dict[str, object]", mapping))
    if len(kinds) == 1 and (name := _KEY_NAMES.get(next(iter(kinds)))) is not None:
        spelt = {_spell_key(key): child for key, child in mapping.items()}
        if len(spelt) == len(mapping):  # several NaN are several keys with one spelling
            encoder.tag(task, [*(tag or ["dict"]), name])
            return encoder.fill_dict(task, spelt)
    return _pairs(encoder, task, mapping, tag)


def _is_sound(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _spell_key(key: object) -> str:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return spell_integer(key) if isinstance(key, int) else repr(key)


def _pairs(
    encoder: Encoder, task: Task, mapping: dict[object, object], tag: list[JsonValue]
) -> JsonValue:
    """Give a mapping as pairs sorted by key, so that equal ones are equal views.

    The tag keeps the order that the pairs had, as their places.
    """
    keys = [encoder.nested(key, task.depth + 1) for key in mapping]
    order = sorted(range(len(keys)), key=lambda place: _order(keys[place]))
    encoder.tag(task, [*(tag or ["dict"]), "pairs", cast("JsonValue", order)])
    pairs: list[Any] = [
        [encoder.graft(keys[place], f"{task.pointer}/{at}/0"), None]
        for at, place in enumerate(order)
    ]
    children = list(mapping.values())
    encoder.defer(
        task,
        ((children[place], pairs[at], 1, f"/{at}/1") for at, place in enumerate(order)),
    )
    return pairs


def _read_mapping(view: Any, rest: list[Any]) -> dict[Any, Any]:
    if not rest:
        return dict(view)
    if rest[0] == "pairs":
        order = rest[1]
        if len(order) != len(view):
            return dict(view)
        ordered: list[Any] = [None] * len(view)
        for pair, place in zip(view, order, strict=True):
            ordered[place] = pair
        return dict(ordered)
    read = _KEY_READERS[rest[0]]
    return {read(key): child for key, child in view.items()}


def _datetime(encoder: Encoder, task: Task) -> JsonValue:
    moment = cast("dt.datetime", task.obj)
    zone = moment.tzinfo
    tag: list[JsonValue] = ["datetime", moment.fold]
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        tag.append(zone.key)
    elif zone is not None and type(zone) is not dt.timezone:
        encoder.problems.append(f"{type(zone).__name__}: the time zone is kept as its offset")
    encoder.tag(task, tag if len(tag) > 2 or moment.fold else "datetime")
    return moment.isoformat()


def _read_datetime(view: Any, rest: list[Any]) -> dt.datetime:
    moment = dt.datetime.fromisoformat(view)
    if len(rest) > 1:
        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(rest[1]))
    return moment.replace(fold=rest[0]) if rest else moment


def _time(encoder: Encoder, task: Task) -> JsonValue:
    moment = cast("dt.time", task.obj)
    encoder.tag(task, ["time", moment.fold] if moment.fold else "time")
    if moment.tzinfo is not None and moment.utcoffset() is None:
        encoder.give_up(task, "a time of day in a zone without a fixed offset")
    return moment.isoformat()


def _read_time(view: Any, rest: list[Any]) -> dt.time:
    return dt.time.fromisoformat(view).replace(fold=rest[0] if rest else 0)


def _timedelta(encoder: Encoder, task: Task) -> JsonValue:
    span = cast("dt.timedelta", task.obj)
    encoder.tag(task, "timedelta")
    return {"days": span.days, "microseconds": span.microseconds, "seconds": span.seconds}


def _complex(encoder: Encoder, task: Task) -> JsonValue:
    number = cast("complex", task.obj)
    encoder.tag(task, "complex")
    return encoder.fill_list(task, [number.real, number.imag])


def _range(encoder: Encoder, task: Task) -> JsonValue:
    numbers = cast("range", task.obj)
    encoder.tag(task, "range")
    return encoder.fill_list(task, [numbers.start, numbers.stop, numbers.step])


def _slice(encoder: Encoder, task: Task) -> JsonValue:
    part = cast("slice", task.obj)
    encoder.tag(task, "slice")
    return encoder.fill_list(task, [part.start, part.stop, part.step])


def _pattern(encoder: Encoder, task: Task) -> JsonValue:
    pattern = cast("re.Pattern[Any]", task.obj)
    encoder.tag(task, "pattern")
    return encoder.fill_dict(task, {"flags": pattern.flags & ~re.DEBUG, "pattern": pattern.pattern})


def _spelt(name: str) -> Callable[[Encoder, Task], JsonValue]:
    """Encode by ``str``, whose text the constructor of the same exact type takes back."""

    def write(encoder: Encoder, task: Task) -> JsonValue:
        encoder.tag(task, name)
        return str(task.obj)

    return write


def _path(encoder: Encoder, task: Task) -> JsonValue:
    """Give a path as its text; a name that is no UTF-8 is held as a list of one, tagged itself."""
    text, name = str(task.obj), type(task.obj).__name__
    encoder.tag(task, ["path", name])
    return text if _is_sound(text) else encoder.fill_list(task, [text])


def _read_path(view: Any, rest: list[Any]) -> pathlib.PurePath:
    return _PATHS[rest[0]](view if isinstance(view, str) else view[0])


_PATHS: dict[str, type[pathlib.PurePath]] = {
    cls.__name__: cls
    for cls in (
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
        pathlib.WindowsPath,
    )
}


def _special(encoder: Encoder, task: Task) -> JsonValue:
    encoder.tag(task, "ellipsis")
    return "..."


def _ordered_dict(encoder: Encoder, task: Task) -> JsonValue:
    mapping = dict(cast("dict[object, object]", task.obj))
    return write_mapping(encoder, task, mapping, ["OrderedDict"])


def _counter(encoder: Encoder, task: Task) -> JsonValue:
    return write_mapping(encoder, task, dict(cast("dict[object, object]", task.obj)), ["Counter"])


_FACTORIES: dict[str, Any] = {
    cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)
}


def _defaultdict(encoder: Encoder, task: Task) -> JsonValue:
    source = cast("collections.defaultdict[object, object]", task.obj)
    factory = source.default_factory
    name = getattr(factory, "__name__", None) if isinstance(factory, type) else None
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        encoder.give_up(task, "its default factory cannot be kept")
        name = None
    return write_mapping(encoder, task, dict(source), ["defaultdict", name])


def _read_defaultdict(view: Any, rest: list[Any]) -> object:
    factory = None if rest[0] is None else _FACTORIES[rest[0]]
    return collections.defaultdict(factory, _read_mapping(view, rest[1:]))


def _read_float(view: Any, _rest: list[Any]) -> float:
    return float(view["$float"])


HANDLERS.update(
    {
        type(None): _atom,
        bool: _atom,
        int: _int,
        float: _float,
        str: _str,
        bytes: _binary("bytes"),
        bytearray: _binary("bytearray"),
        list: _list,
        tuple: _sequence("tuple"),
        collections.deque: _deque,
        set: _set("set"),
        frozenset: _set("frozenset"),
        dict: _dict,
        collections.OrderedDict: _ordered_dict,
        collections.Counter: _counter,
        collections.defaultdict: _defaultdict,
        dt.datetime: _datetime,
        dt.date: _spelt("date"),
        dt.time: _time,
        dt.timedelta: _timedelta,
        decimal.Decimal: _spelt("decimal"),
        fractions.Fraction: _spelt("fraction"),
        uuid.UUID: _spelt("uuid"),
        complex: _complex,
        range: _range,
        slice: _slice,
        re.Pattern: _pattern,
        type(...): _special,
        **dict.fromkeys(_PATHS.values(), _path),
    }
)
READERS.update(
    {
        "int": _read_int,
        "float": _read_float,
        "str": _read_str,
        "bytes": _read_bytes,
        "bytearray": lambda view, rest: bytearray(_read_bytes(view, rest)),
        "tuple": lambda view, _: tuple(view),
        "deque": lambda view, rest: collections.deque(view, rest[0]),
        "set": lambda view, _: set(view),
        "frozenset": lambda view, _: frozenset(view),
        "dict": _read_mapping,
        "OrderedDict": lambda view, rest: collections.OrderedDict(_read_mapping(view, rest)),
        "Counter": lambda view, rest: collections.Counter(_read_mapping(view, rest)),
        "defaultdict": _read_defaultdict,
        "datetime": _read_datetime,
        "date": lambda view, _: dt.date.fromisoformat(view),
        "time": _read_time,
        "timedelta": lambda view, _: dt.timedelta(**view),
        "decimal": lambda view, _: decimal.Decimal(view),
        "fraction": lambda view, _: fractions.Fraction(view),
        "uuid": lambda view, _: uuid.UUID(view),
        "complex": lambda view, _: complex(*view),
        "range": lambda view, _: range(*view),
        "slice": lambda view, _: slice(*view),
        "pattern": lambda view, _: re.compile(view["pattern"], view["flags"]),
        "ellipsis": lambda _view, _rest: ...,
        "path": _read_path,
        "stream": lambda view, rest: Stream(view, rest[0], rest[1:]),
    }
)
