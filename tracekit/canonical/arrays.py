"""numpy arrays and scalars, for programs that use numpy; tracekit itself does not load it.

An array is kept as its bytes: exact, and 8 bytes a number instead of up to 25 characters. One of
texts is kept as texts, so that each can be read, and redacted, by itself.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.encoding import CLASS_RULES, Encoder, Handler, Task, describe


def _find_numpy(kind: type) -> Handler | None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or getattr(numpy, "ndarray", None) is None:
        return None
    if kind is numpy.ndarray:
        return _write_array
    if numpy.generic in kind.__mro__ and kind.__module__ == "numpy":
        return _write_scalar
    return None


def _write_array(encoder: Encoder, task: Task) -> JsonValue:
    return _write(encoder, task, task.obj, "array")


def _write_scalar(encoder: Encoder, task: Task) -> JsonValue:
    import numpy

    array: Any = numpy.asarray(task.obj)
    plain = array.item() if array.dtype.kind in "biufc" else None
    if type(plain) in (bool, int, float, complex):
        part = encoder.nested(plain, task.depth)
        if not part.types:
            encoder.tag(task, ["npscalar", array.dtype.str])
            return part.value
    return _write(encoder, task, array, "npvalue")


def _write(encoder: Encoder, task: Task, array: Any, name: str) -> JsonValue:
    kind = None if array.dtype.hasobject else _describe_dtype(array.dtype)
    if kind is None:
        encoder.give_up(task, f"an array of {array.dtype.kind!r} elements")
        view = describe(task.obj)
        view["$unreplayable"]["size"] = array.size  # type: ignore[index,call-overload]  # made so
        return view
    encoder.tag(task, name)
    texts = _texts(array)
    if texts is not None and not (part := encoder.nested(texts, task.depth)).types:
        return {"$array": part.value, "dtype": kind, "shape": list(array.shape)}
    data = base64.b64encode(_bytes(array)).decode()
    return {"$array": data, "dtype": kind, "shape": list(array.shape)}


def _texts(array: Any) -> list[str] | None:
    """Give the elements as texts; None where they are none, or too many."""
    if array.dtype.kind not in "US" or array.size > _MOST_TEXTS:
        return None
    try:
        items = array.ravel().tolist()
    except ValueError:  # no characters
        return None
    return [item if isinstance(item, str) else item.decode("latin-1") for item in items]


_MOST_TEXTS = 200_000


def _bytes(array: Any) -> bytes:
    """Give the bytes of the elements in order; gaps between and in them are no part of a value."""
    import numpy

    if array.dtype.names is not None:
        fields = numpy.zeros(array.shape, array.dtype)
        fields[...] = array
        array = fields
    data: bytes = array.tobytes()
    long = array.dtype in (numpy.longdouble, numpy.clongdouble)
    if long and numpy.finfo(numpy.longdouble).nmant == _EXTENDED_MANTISSA:
        size = numpy.dtype(numpy.longdouble).itemsize
        numbers = numpy.frombuffer(data, numpy.uint8).reshape(-1, size).copy()
        numbers[:, _EXTENDED_BYTES:] = 0
        data = numbers.tobytes()
    return data


_EXTENDED_MANTISSA, _EXTENDED_BYTES = 63, 10
"""Of a long double on x86; the rest of its 12 or 16 bytes is whatever was there."""


def _describe_dtype(dtype: Any) -> JsonValue:
    """Spell a type of elements, a structured one as a list of its fields; None if it has no form.

    What metadata or titles it carries is of no account to its values, and not kept.
    """
    from numpy.lib.format import descr_to_dtype, dtype_to_descr

    if dtype.names is None and dtype.kind != "V":
        spelt: str = dtype.str
        return spelt
    descr = _as_json(dtype_to_descr(dtype))
    return descr if descr_to_dtype(_as_descr(descr)) == dtype else None


def _as_json(descr: Any) -> JsonValue:
    return [_as_json(part) for part in descr] if isinstance(descr, (list, tuple)) else descr


def _as_descr(kind: Any) -> Any:
    """Give a spelt type the tuples that numpy asks for."""
    if isinstance(kind, str):
        return kind
    fields = []
    for name, inner, *shape in kind:
        fields.append((name, _as_descr(inner), *[tuple(one) for one in shape]))
    return fields


def _read_array(view: Any, _rest: list[Any]) -> Any:
    import numpy

    dtype = numpy.lib.format.descr_to_dtype(_as_descr(view["dtype"]))
    if dtype.hasobject:
        raise ValueError("stored data never holds Python objects")
    if isinstance(view["$array"], list):
        return _read_texts(view["$array"], dtype).reshape(view["shape"])
    flat = numpy.frombuffer(base64.b64decode(view["$array"], validate=True), dtype=dtype)
    return flat.reshape(view["shape"]).copy()


def _read_texts(texts: list[str], dtype: Any) -> Any:
    """Read an array of texts; one that was redacted may need more room than it had."""
    import numpy

    items = texts if dtype.kind == "U" else [text.encode("latin-1") for text in texts]
    size = max(map(len, items), default=0) * (4 if dtype.kind == "U" else 1)
    if size > dtype.itemsize:
        return numpy.array(items)
    return numpy.array(items, dtype=dtype)


def _read_scalar(view: Any, rest: list[Any]) -> Any:
    import numpy

    return numpy.dtype(rest[0]).type(view)


CLASS_RULES.insert(0, _find_numpy)
READERS["array"] = _read_array
READERS["npvalue"] = lambda view, rest: _read_array(view, rest)[()]
READERS["npscalar"] = _read_scalar
