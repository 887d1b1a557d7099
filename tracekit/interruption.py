"""What a signal handler of the program raises while code of ours happens to run.

A time limit set with ``signal.alarm``, or a worker's soft limit, is an exception that comes up
between any two steps of whatever runs. It is no fault of that code, and belongs to the program:
wherever a fault is kept from the program, this is asked first. Such an exception is known by its
traceback, in which a handler stands that the process has installed.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
from types import CodeType, TracebackType
from typing import Any

_log = logging.getLogger("tracekit")


def pass_on(error: BaseException) -> None:
    """Raise what a signal handler raised, if ``error`` is that or came up while that was handled.

    A ``KeyboardInterrupt`` is the user's, whoever raised it. All else that functions of the program
    raise while something is recorded is kept from it, whatever its class.

    Raises:
        BaseException: what the handler raised.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    handlers: set[CodeType] | None = None
    known: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in known:
        known.add(id(link))
        place = link.__traceback__
        while place is not None:
            if handlers is None:
                handlers = _handlers()
            if place.tb_frame.f_code in handlers:
                raise link
            place = place.tb_next
        link = link.__context__


class Suppressed(contextlib.suppress):
    """Keeps exceptions of some kinds from the program, but not what a signal handler raised.

    A time limit is a ``TimeoutError`` more often than not, and that is an ``OSError``.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> bool:
        """Pass on what is the program's."""
        if error is not None:
            pass_on(error)
        return super().__exit__(kind, error, place)


def warn(what: str, *about: object) -> None:
    """Say in the log what could not be done; what a handler of the program's raises stays there."""
    with Suppressed(BaseException):  # or there is no room on the stack
        _log.warning(what, *about)


_warned: set[str] = set()
_MOST_WARNINGS = 1_000


def warn_once(what: str) -> None:
    """Say in the log, once a process, what the program did that could not be used."""
    if what in _warned or len(_warned) >= _MOST_WARNINGS:
        return
    _warned.add(what)
    warn("tracekit: %s", what)


def _handlers() -> set[CodeType]:
    """The code of the handlers that the process has installed."""
    found = set()
    for number in signal.valid_signals():
        code = _code_of(signal.getsignal(number))
        if code is not None:
            found.add(code)
    return found


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = getattr(handler, "__func__", handler)
    code = getattr(handler, "__code__", None)
    if code is None and callable(handler):
        code = getattr(getattr(type(handler), "__call__", None), "__code__", None)  # noqa: B004  # it is read, not asked for
    return code if isinstance(code, CodeType) else None
