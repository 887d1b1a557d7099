"""The code of tools that may write: whoever sees it run in a replay knows whose it is.

No such body is entered in a replay, unless by a road that leads around the guard. While bodies are
closed their functions hold other code: it says that the body began, and whoever hears it refuses.
Code that was taken from the function before is known on the stack of what it attempts. What a tool
shares with others (a partial, an object that is called, a library's function) is not closed.
"""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from tracekit.errors import WriteBlocked

BEGUN = "tracekit.bodies.begun"
"""Audit event: a closed body was entered; on the stack is the code that stands for it."""
ENTRANCE = "undecorated"
"""Name of the function by which ``tracekit.wrap`` leads to what it wraps."""


class _Body(NamedTuple):
    tool: str
    code: CodeType
    closed: CodeType


_known: dict[int, tuple[weakref.ref[CodeType], str]] = {}
"""By identity, since code objects of equal text are equal."""
_open: weakref.WeakKeyDictionary[FunctionType, str] = weakref.WeakKeyDictionary()
"""Functions that hold their own code, with their tools."""
_bodies: weakref.WeakKeyDictionary[FunctionType, _Body] = weakref.WeakKeyDictionary()
"""Functions that were closed once."""
_closed = False


def note_body(function: Any, tool: str) -> None:
    """Know what ``function`` runs as the body of ``tool``."""
    method = isinstance(function, (staticmethod, classmethod))
    inner = _innermost(function.__func__ if method else function)
    if inner is None:
        return
    body = _bodies.get(inner)
    _know(inner.__code__ if body is None else body.code, tool)
    if body is None and not _is_shared(inner):
        _open[inner] = tool
        if _closed:
            _close(inner, tool)


def close_bodies() -> None:
    """From now on enter no body in this process, by whatever road."""
    global _closed  # a mode of the whole process, as the guard is
    if _closed:
        return
    _closed = True
    for function, tool in list(_open.items()):
        _close(function, tool)


def open_bodies() -> None:
    """Let bodies run again."""
    global _closed  # a mode of the whole process, as the guard is
    _closed = False
    for function, body in list(_bodies.items()):
        function.__code__ = body.code


def tool_on_stack(frame: FrameType | None) -> str | None:
    """Name the tool whose body runs in ``frame`` or has called it, if there is one."""
    while frame is not None:
        known = _known.get(id(frame.f_code))
        if known is not None and known[0]() is frame.f_code:
            return known[1]
        frame = frame.f_back
    return None


def body_begun() -> None:
    """Say that the caller, which stands for a body, was entered.

    Raises:
        WriteBlocked: nobody listened.
    """
    sys.audit(BEGUN)
    tool = tool_on_stack(sys._getframe(1)) or "a tool"
    raise WriteBlocked(tool, "write", reason="it was called while a replay was under way")


def _know(code: CodeType, tool: str) -> None:
    at = id(code)
    _known[at] = weakref.ref(code, lambda _: _known.pop(at, None)), tool


def _close(function: FunctionType, tool: str) -> None:
    body = _bodies.get(function)
    if body is None:
        code = function.__code__
        body = _bodies[function] = _Body(tool, code, _closed_like(code))
        _know(body.closed, tool)
    function.__code__ = body.closed


def _closed_like(code: CodeType) -> CodeType:
    """Code with the parameters, the shape and the place of ``code`` that runs ``body_begun``."""
    names, plain = code.co_varnames, code.co_argcount
    first, named = code.co_posonlyargcount, plain + code.co_kwonlyargcount
    rest, more = code.co_flags & inspect.CO_VARARGS, code.co_flags & inspect.CO_VARKEYWORDS
    given = [*names[:first], *(["/"] if first else []), *names[first:plain]]
    given += [f"*{names[named]}"] if rest else (["*"] if code.co_kwonlyargcount else [])
    given += [*names[plain:named], *([f"**{names[named + bool(rest)]}"] if more else [])]
    shape = code.co_flags
    waits = shape & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    yields = shape & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    source = (
        f"def around({', '.join(code.co_freevars)}):\n"
        f" {'async ' if waits else ''}def body({', '.join(given)}):\n"
        "  from tracekit.bodies import body_begun as __tracekit_body_begun__\n"
        "  __tracekit_body_begun__()\n"
        f"  return{''.join(f'; {name}' for name in code.co_freevars)}\n"
        f"{'  yield' if yields else ''}\n"
    )
    module = compile(source, code.co_filename, "exec", dont_inherit=True)
    return _inside(_inside(module)).replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_flags=_inside(_inside(module)).co_flags | shape & inspect.CO_ITERABLE_COROUTINE,
    )


def _inside(code: CodeType) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType))


def _innermost(function: Callable[..., Any]) -> FunctionType | None:
    """The innermost function, behind what other decorators put around it."""
    inner: Any = inspect.unwrap(function)
    while inspect.isfunction(inner) and _leads_on(inner):
        names, cells = inner.__code__.co_freevars, inner.__closure__ or ()
        inner = inspect.unwrap(dict(zip(names, cells, strict=True))["function"].cell_contents)
    return inner if isinstance(inner, FunctionType) else None


def _leads_on(function: Any) -> bool:
    code: CodeType = function.__code__
    return code.co_name == ENTRANCE and code.co_filename.endswith("wrap.py")


def _is_shared(function: FunctionType) -> bool:
    """Whether a function is a library's, made a tool of by code that is not of that library."""
    name = function.__code__.co_filename
    if not ("-packages" in name or name.startswith((_STDLIB, "<frozen "))):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame.f_globals.get("__name__")) == "tracekit":
        frame = frame.f_back
    maker = None if frame is None else frame.f_globals.get("__name__")
    return _package(maker) != _package(function.__module__)


def _package(module: Any) -> str:
    return str(module).partition(".")[0]


_STDLIB = os.path.dirname(os.__file__) + os.sep
