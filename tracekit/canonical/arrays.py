"""numpy arrays and scalars, for programs that use numpy; tracekit itself does not load it.

An array is kept as its bytes: exact, and 8 bytes a number instead of up to 25 characters.
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
    if array.dtype.hasobject or array.dtype.names is not None or array.dtype.kind == "V":
        encoder.give_up(task, f"an array of {array.dtype.kind!r} elements")
        view = describe(task.obj)
        view["$unreplayable"]["size"] = array.size  # type: ignore[index,call-overload]  # made so
        return view
    encoder.tag(task, name)
    data = base64.b64encode(array.tobytes()).decode()
    return {"$array": data, "dtype": array.dtype.str, "shape": list(array.shape)}


def _read_array(view: Any, _rest: list[Any]) -> Any:
    import numpy

    dtype = numpy.dtype(view["dtype"])
    if dtype.hasobject:
        raise ValueError("stored data never holds Python objects")
    flat = numpy.frombuffer(base64.b64decode(view["$array"], validate=True), dtype=dtype)
    return flat.reshape(view["shape"]).copy()


def _read_scalar(view: Any, rest: list[Any]) -> Any:
    import numpy

    return numpy.dtype(rest[0]).type(view)


CLASS_RULES.insert(0, _find_numpy)
READERS["array"] = _read_array
READERS["npvalue"] = lambda view, rest: _read_array(view, rest)[()]
READERS["npscalar"] = _read_scalar
