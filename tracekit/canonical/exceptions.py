"""How exceptions become JSON, and how they come back: with what caused them.

An error carries its cause, or else the error that was being handled where it was raised. Only what
happened below the place that caught it counts: what its caller was handling meanwhile is no part of
it, and would make equal errors differ. A cause that cannot be kept is told by type and text; so is
one at the end of a long chain.
"""

from __future__ import annotations

import contextlib
from types import FrameType
from typing import Any, cast

from pydantic import JsonValue

from tracekit.canonical import classes
from tracekit.canonical.encoding import MAX_DEPTH, Encoder, Task, mark_class
from tracekit.errors import RecordedError
from tracekit.interruption import pass_on

_STEP = MAX_DEPTH // 10
"""A cause counts as so many levels, so that ten of them are kept."""
_SLOTS = BaseException.__dict__


def write_exception(encoder: Encoder, task: Task) -> JsonValue:
    """Encode an exception; no code of its class runs but ``__str__``."""
    error = cast("BaseException", task.obj)
    view: dict[str, object] = {"args": list(_SLOTS["args"].__get__(error)), **_told(error)}
    if issubclass(type(error), OSError):
        filename = cast("OSError", error).filename
        if filename is not None:
            view = {"args": view.pop("args"), "filename": filename, **view}
    attributes = classes.instance_dict(error)
    if attributes:
        view["attributes"] = attributes
    mark_class(encoder, task, "exception")
    link = _link(error)
    if link is None:
        return encoder.fill_dict(task, view)
    name, other = link
    kept = _kept(encoder, task, name, other)
    written = encoder.fill_dict(task, view)
    written[name] = kept
    return written


def _told(error: BaseException) -> dict[str, str]:
    try:
        message = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001  # an error's own __str__ may fail in any way
        pass_on(broken)
        message = f"<{type(broken).__name__} in __str__>"
    return {"message": str.__str__(message), "type": classes.name_class(type(error))}


def _link(error: BaseException) -> tuple[str, BaseException] | None:
    """Give what an error came from, as Python would print it."""
    cause = _SLOTS["__cause__"].__get__(error)
    if cause is not None:
        return "cause", cause
    context = _SLOTS["__context__"].__get__(error)
    if context is None or _SLOTS["__suppress_context__"].__get__(error):
        return None
    return ("context", context) if _came_through(error, context) else None


def _came_through(error: BaseException, context: BaseException) -> bool:
    """Tell whether ``error`` was raised below the frame that was handling ``context``."""
    trace, handled = (_SLOTS["__traceback__"].__get__(one) for one in (error, context))
    if trace is None or handled is None:
        return True
    handler: FrameType = handled.tb_frame
    while trace is not None:
        if trace.tb_frame is handler:
            return True
        trace = trace.tb_next
    return False


def _kept(encoder: Encoder, task: Task, name: str, other: BaseException) -> JsonValue:
    if task.depth + _STEP <= MAX_DEPTH:
        part = encoder.nested(other, task.depth + _STEP, within=task.obj)
        if part.replayable:
            return encoder.graft(part, f"{task.pointer}/{name}")
    return {**_told(other)}


def read_exception(view: Any, rest: list[Any]) -> object:
    """Rebuild an exception, its class's own ``__init__`` left out."""
    cls = classes.load_class(rest[0], kind="exception")
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    args = [*view["args"], view["filename"]] if "filename" in view else view["args"]
    error = builtin.__new__(cls, *args)
    if "__init__" in builtin.__dict__:
        # The C part of OSError, UnicodeError and others sets its own fields here. Where a user's
        # class changed the arguments it wants others; then there are no such fields to set.
        with contextlib.suppress(TypeError):
            builtin.__init__(error, *args)
    error.args = tuple(view["args"])
    for name, value in view.get("attributes", {}).items():
        error.__dict__[name] = value
    if "cause" in view:
        error.__cause__ = _rebuilt(view["cause"])
    elif "context" in view:
        error.__context__ = _rebuilt(view["context"])
    return error


def _rebuilt(link: Any) -> BaseException:
    if isinstance(link, BaseException):
        return link
    return RecordedError(str(link["type"]).partition(":")[2], str(link["message"]))
