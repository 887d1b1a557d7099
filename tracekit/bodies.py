"""The code of tools that may write: whoever sees it run in a replay knows whose it is.

No such body is entered in a replay, unless by a road that leads around the guard; the stack of an
attempt then shows the tool. A body is known by its code object, so that a copy of the function is
known as well. What a tool shares with others (a partial, an object that is called) is not known.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_known: dict[int, tuple[weakref.ref[CodeType], str]] = {}
"""By identity, since code objects of equal text are equal."""
ENTRANCE = "undecorated"
"""Name of the function by which ``tracekit.wrap`` leads to what it wraps."""


def note_body(function: Any, tool: str) -> None:
    """Know what ``function`` runs as the body of ``tool``."""
    method = isinstance(function, (staticmethod, classmethod))
    code = _code_of(function.__func__ if method else function)
    if code is None:
        return
    at = id(code)
    _known[at] = weakref.ref(code, lambda _: _known.pop(at, None)), tool


def tool_on_stack(frame: FrameType | None) -> str | None:
    """Name the tool whose body runs in ``frame`` or has called it, if there is one."""
    while frame is not None:
        known = _known.get(id(frame.f_code))
        if known is not None and known[0]() is frame.f_code:
            return known[1]
        frame = frame.f_back
    return None


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code of the innermost function, behind what other decorators put around it."""
    inner: Any = inspect.unwrap(function)
    while inspect.isfunction(inner) and _leads_on(inner):
        names, cells = inner.__code__.co_freevars, inner.__closure__ or ()
        inner = inspect.unwrap(dict(zip(names, cells, strict=True))["function"].cell_contents)
    return inner.__code__ if inspect.isfunction(inner) else None


def _leads_on(function: Any) -> bool:
    code: CodeType = function.__code__
    return code.co_name == ENTRANCE and code.co_filename.endswith("wrap.py")
