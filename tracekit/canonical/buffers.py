"""Data in memory that has a reader's face: ``BytesIO``, ``StringIO``, views of bytes.

The one idea: unlike an open file they hold all that they will give, so they are data. Looking takes
nothing out: the place up to which they were read is kept beside the content, and told apart. What
it takes to rebuild them besides, and that place again, is in the tag, where nothing is redacted.
They come back as a pickled copy would: which ends of lines a text buffer has met is forgotten.
"""

from __future__ import annotations

import io
from typing import Any, cast

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.encoding import HANDLERS, Encoder, Task, describe

_NEWLINE = "\n"
"""What ``StringIO`` takes for the end of a line where nothing else is said."""


def _bytes_io(encoder: Encoder, task: Task) -> JsonValue:
    buffer: Any = task.obj
    content, position, own = buffer.__getstate__()
    encoder.tag(task, ["BytesIO", position])
    return _described(encoder, task, content, position, own)


def _string_io(encoder: Encoder, task: Task) -> JsonValue:
    buffer: Any = task.obj
    content, newline, position, own = buffer.__getstate__()
    encoder.tag(task, ["StringIO", position, newline])
    more = {} if newline == _NEWLINE else {"newline": newline}
    return _described(encoder, task, content, position, own, **more)


def _described(
    encoder: Encoder, task: Task, content: object, position: int, own: object, **more: object
) -> JsonValue:
    fields: dict[str, object] = {"content": content, "position": position, **more}
    if own:  # a name, say, as those have that are to be sent
        fields["attributes"] = own
    return encoder.fill_dict(task, fields)


def _memoryview(encoder: Encoder, task: Task) -> JsonValue:
    view = cast("memoryview", task.obj)
    if view.format != "B" or view.ndim != 1:
        encoder.give_up(task, "a view of other values than bytes")
        return describe(view)
    encoder.tag(task, "memoryview" if view.readonly else ["memoryview", "writable"])
    return encoder.fill_list(task, [view.tobytes()])


def _read_bytes_io(view: Any, rest: list[Any]) -> object:
    buffer: Any = io.BytesIO()
    buffer.__setstate__((view["content"], rest[0], view.get("attributes")))
    return buffer


def _read_string_io(view: Any, rest: list[Any]) -> object:
    buffer: Any = io.StringIO()
    position, newline = rest
    buffer.__setstate__((view["content"], newline, position, view.get("attributes")))
    return buffer


def _read_memoryview(view: Any, rest: list[Any]) -> memoryview:
    return memoryview(bytearray(view[0]) if rest else view[0])


HANDLERS.update({io.BytesIO: _bytes_io, io.StringIO: _string_io, memoryview: _memoryview})
READERS.update(
    {"BytesIO": _read_bytes_io, "StringIO": _read_string_io, "memoryview": _read_memoryview}
)
