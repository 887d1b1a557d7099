"""Data in memory that has a reader's face: ``BytesIO``, ``StringIO``, views of bytes.

The one idea: unlike an open file they hold all that they will give, so they are data. Looking takes
nothing out: the place up to which they were read is kept beside the content, and told apart.
"""

from __future__ import annotations

import io
from typing import Any, cast

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.encoding import HANDLERS, Encoder, Task, describe


def _bytes_io(encoder: Encoder, task: Task) -> JsonValue:
    buffer = cast("io.BytesIO", task.obj)
    fields = {"content": buffer.getvalue(), "position": buffer.tell()}
    encoder.tag(task, "BytesIO")
    return encoder.fill_dict(task, fields)


def _string_io(encoder: Encoder, task: Task) -> JsonValue:
    buffer = cast("io.StringIO", task.obj)
    fields = {"content": buffer.getvalue(), "position": buffer.tell()}
    encoder.tag(task, "StringIO")
    return encoder.fill_dict(task, fields)


def _memoryview(encoder: Encoder, task: Task) -> JsonValue:
    view = cast("memoryview", task.obj)
    if view.format != "B" or view.ndim != 1:
        encoder.give_up(task, "a view of other values than bytes")
        return describe(view)
    encoder.tag(task, "memoryview")
    return encoder.fill_list(task, [view.tobytes()])


def _read_bytes_io(view: Any, _rest: list[Any]) -> io.BytesIO:
    buffer = io.BytesIO(view["content"])
    buffer.seek(view["position"])
    return buffer


def _read_string_io(view: Any, _rest: list[Any]) -> io.StringIO:
    buffer = io.StringIO(view["content"])
    buffer.seek(view["position"])
    return buffer


HANDLERS.update({io.BytesIO: _bytes_io, io.StringIO: _string_io, memoryview: _memoryview})
READERS.update(
    {
        "BytesIO": _read_bytes_io,
        "StringIO": _read_string_io,
        "memoryview": lambda view, _: memoryview(view[0]),
    }
)
