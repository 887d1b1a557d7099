"""One program in two twins, decorated and not, and all that can be seen of a call of either.

A script says what the body does each time it gives something out and how it ends; a drive says what
its caller does. Both twins are given the very same objects, so that identity can be compared.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

Decorate = Callable[[Any], Any]
Log = list[Any]


@dataclass(frozen=True)
class Give:
    """What a body hands out, and what it does when something is thrown in there."""

    value: Any
    wait: bool = False
    on_throw: str = "raise"
    other: BaseException = field(default_factory=lambda: KeyError("other"))


@dataclass(frozen=True)
class Script:
    """What a body does."""

    gives: Sequence[Give] = ()
    value: Any = None
    error: BaseException | None = None

    def finish(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def errors(self) -> list[BaseException]:
        return [give.other for give in self.gives] + ([self.error] if self.error else [])


@dataclass(frozen=True)
class Drive:
    """What a caller does."""

    ops: Sequence[tuple[str, Any]] = ()
    """``next``, ``send``, ``throw`` or ``close``, one for each time that it has the turn."""
    ending: str = "exhaust"
    """``exhaust``, ``drop`` or ``close``."""

    def errors(self) -> list[BaseException]:
        return [what for op, what in self.ops if op == "throw"]


class Wait:
    """Suspends whoever awaits it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Iterator[Any]:
        return (yield self.value)  # type: ignore[return-value]  # a generator with a value


def body_of(kind: str, script: Script, log: Log) -> Callable[..., Any]:  # noqa: C901  # four kinds of one body
    """Make a function of some kind that follows ``script`` and tells ``log``."""

    def react(give: Give, error: BaseException) -> None:
        log.append(("thrown", error))
        if give.on_throw == "replace":
            raise give.other
        if give.on_throw == "raise":
            raise error

    def begin(*given: Any) -> None:
        log.append(("begun", *given))

    def plain(a: Any, /, b: Any = 1, *rest: Any, k: Any = None, **more: Any) -> Any:
        """Do as the script says."""
        begin(a, b, *rest, k, *more.values())
        return script.finish()

    def generator(a: Any, /, b: Any = 1, *rest: Any, k: Any = None, **more: Any) -> Any:
        """Do as the script says."""
        begin(a, b, *rest, k, *more.values())
        for give in script.gives:
            try:
                log.append(("got", (yield give.value)))
            except BaseException as error:  # as the script says
                react(give, error)
                if isinstance(error, GeneratorExit):
                    raise  # Python tells of one that goes on while it is closed, but only late
                if give.on_throw == "return":
                    return give.value
        return script.finish()

    async def coroutine(a: Any, /, b: Any = 1, *rest: Any, k: Any = None, **more: Any) -> Any:
        """Do as the script says."""
        begin(a, b, *rest, k, *more.values())
        for give in script.gives:
            try:
                log.append(("got", await Wait(give.value)))
            except BaseException as error:  # as the script says
                react(give, error)
                if isinstance(error, GeneratorExit):
                    raise  # Python itself tells late of one that awaits on while it is closed
                if give.on_throw == "return":
                    return give.value
        return script.finish()

    async def async_generator(a: Any, /, b: Any = 1, *rest: Any, k: Any = None, **more: Any) -> Any:
        """Do as the script says."""
        begin(a, b, *rest, k, *more.values())
        for give in script.gives:
            try:
                if give.wait:
                    log.append(("waited", await Wait(give.value)))
                log.append(("got", (yield give.value)))
            except BaseException as error:  # as the script says
                react(give, error)
                if isinstance(error, GeneratorExit):
                    raise  # Python tells of one that goes on while it is closed, but only late
                if give.on_throw == "return":
                    return
        script.finish()

    kinds = (plain, generator, coroutine, async_generator)
    return {function.__name__: function for function in kinds}[kind]


def _method(function: Any) -> Any:
    """The function as one that is given ``self`` or ``cls`` first, of the same kind."""
    if inspect.isasyncgenfunction(function):

        async def async_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
            inner = function(*args, **kwargs)
            resume = anext(inner)
            while True:
                try:
                    item = await resume
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except BaseException as error:  # noqa: BLE001  # handed on
                    resume = inner.athrow(error)
                else:
                    resume = inner.asend(sent)

        return async_generator
    if inspect.isgeneratorfunction(function):

        def generator(self: Any, *args: Any, **kwargs: Any) -> Any:
            return (yield from function(*args, **kwargs))

        return generator
    if inspect.iscoroutinefunction(function):

        async def coroutine(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return coroutine

    def plain(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return plain


def _chained(function: Any) -> Any:
    @functools.wraps(function)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return outer


class _Callable:
    """A callable object with nothing else to it."""


def _object(function: Any) -> Any:
    return type("Callable", (_Callable,), {"__call__": _method(function)})()


def _bound(make: Callable[[Any], Any]) -> Any:
    return type("Owner", (), {"call": make(None)})().call


def _override(function: Any, decorate: Decorate) -> Any:
    base = type("Base", (), {"call": decorate(_method(function))})
    child = type("Child", (base,), {})

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return super(child, self).call(*args, **kwargs)  # type: ignore[misc]  # of Base

    child.call = decorate(call)  # type: ignore[attr-defined]  # overridden
    return child().call


SHAPES: Mapping[str, Callable[[Any, Decorate], Any]] = {
    "function": lambda f, decorate: decorate(f),
    "method": lambda f, decorate: _bound(lambda _: decorate(_method(f))),
    "static above": lambda f, decorate: _bound(lambda _: decorate(staticmethod(f))),
    "static below": lambda f, decorate: _bound(lambda _: staticmethod(decorate(f))),
    "class above": lambda f, decorate: _bound(lambda _: decorate(classmethod(_method(f)))),
    "class below": lambda f, decorate: _bound(lambda _: classmethod(decorate(_method(f)))),
    "override": _override,
    "object": lambda f, decorate: decorate(_object(f)),
    "partial": lambda f, decorate: functools.partial(decorate(functools.partial(f, k=None)), k=2),
    "wraps below": lambda f, decorate: decorate(_chained(f)),
    "wraps above": lambda f, decorate: _chained(decorate(f)),
    "wraps both": lambda f, decorate: _chained(decorate(_chained(_chained(f)))),
    "twice": lambda f, decorate: decorate(decorate(f)),
}
MANAGERS: Mapping[str, Callable[[Any, Decorate], Any]] = {
    "manager above": lambda f, decorate: decorate(contextlib.contextmanager(f)),
    "manager below": lambda f, decorate: contextlib.contextmanager(decorate(f)),
}


# --- what can be seen -----------------------------------------------------------------------------


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What a call does: the object itself that it returns or raises."""
    try:
        return ("value", call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001  # that is what is looked at
        told = (_said(error), _frames(error), _chain(error))
        _let_go(error)
        return ("raised", error, type(error), *told)


def _let_go(error: BaseException | None) -> None:
    """Free the frames that an error holds, so that what is dropped goes at once."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        _let_go(error.__cause__)
        error = error.__context__


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except ZeroDivisionError:
        return "what cannot be asked"


def _frames(error: BaseException) -> list[str]:
    """The program's own frames: those of the recorder stand between them."""
    names: list[str] = []
    if isinstance(error, GeneratorExit):
        return names  # an `await` closes what it is thrown into, so its frames are not shown
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == __file__:
            names.append(code.co_name)
        traceback = traceback.tb_next
    return names


def _chain(error: BaseException) -> tuple[Any, ...]:
    return (type(error.__cause__), type(error.__context__), error.__suppress_context__)


def drive_generator(generator: Any, drive: Drive) -> Log:
    seen: Log = []
    for op, what in drive.ops:
        if op == "next":
            seen.append(outcome(next, generator))
        else:
            seen.append(outcome(getattr(generator, op), *([] if op == "close" else [what])))
    _end(generator, drive, seen, lambda: outcome(next, generator))
    return seen


def _end(
    thing: Any, drive: Drive, seen: Log, more: Callable[[], tuple[Any, ...]], limit: int = 12
) -> None:
    if drive.ending == "close":
        seen.append(outcome(thing.close))
    while drive.ending == "exhaust" and limit:
        seen.append(more())
        limit = limit - 1 if seen[-1][0] == "value" else 0


def drive_coroutine(coroutine: Any, drive: Drive) -> Log:
    seen: Log = []
    started = False
    for op, what in drive.ops:
        if op in ("next", "send"):
            seen.append(outcome(coroutine.send, what if started and op == "send" else None))
            started = True
        else:
            seen.append(outcome(getattr(coroutine, op), *([] if op == "close" else [what])))
    _end(coroutine, drive, seen, lambda: outcome(coroutine.send, None))
    return seen


def drive_async_generator(generator: Any, drive: Drive) -> Log:
    seen: Log = []

    def await_(awaitable: Any) -> bool:
        """Drive one step to its end; what it waits for is answered with its own value."""
        found = outcome(awaitable.send, None)
        while found[0] == "value":
            seen.append(("waits", found[1]))
            found = outcome(awaitable.send, found[1])
        seen.append(found if found[2] is not StopIteration else ("item", found[1].value))
        return found[2] is StopIteration

    for op, what in drive.ops:
        match op:
            case "next":
                await_(anext(generator))
            case "send":
                await_(generator.asend(what))
            case "throw":
                await_(generator.athrow(what))
            case _:
                await_(generator.aclose())
    limit = 12
    while drive.ending == "exhaust" and limit:
        limit = limit - 1 if await_(anext(generator)) else 0
    if drive.ending == "close":
        await_(generator.aclose())
    return seen


def drive_manager(manager: Any, drive: Drive) -> Log:
    def block() -> Any:
        with manager as entered:
            for op, what in drive.ops:
                if op == "throw":
                    raise what
            return entered

    return [outcome(block)]


def seen_of(
    make: Callable[[Any, Decorate], Any],
    decorate: Decorate,
    kind: str,
    script: Script,
    drive: Drive,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Log:
    """All that can be seen of one call of one twin."""
    for error in (*script.errors(), *drive.errors()):
        error.__traceback__ = error.__context__ = error.__cause__ = None
        error.__suppress_context__ = False
    log: Log = []
    ignored: Log = []
    with warnings.catch_warnings(record=True) as warned, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda told: ignored.append(told.exc_type))
        warnings.simplefilter("always")
        callee = make(body_of(kind, script, log), decorate)
        made = outcome(callee, *args, **kwargs)
        begun = len(log)
        log.append("called")
        if made[0] == "raised" or kind == "plain":
            log.append(made)
        else:
            log.append(type(made[1]))
            managed = hasattr(type(made[1]), "__exit__")
            drivers = {
                "generator": drive_generator,
                "coroutine": drive_coroutine,
                "async_generator": drive_async_generator,
            }
            seen = (drive_manager if managed else drivers[kind])(made[1], drive)
            # What is thrown into a body that has not begun stands at its door, which is not ours.
            log += seen if len(log) > begun + 2 else [found[:4] for found in seen]
        del made, callee
    log += [str(warning.message).partition(" 0x")[0] for warning in warned]
    return log + ignored


def same(left: Any, right: Any) -> bool:
    """Whether two things are seen as one: the very object, or made alike by Python itself."""
    if left is right:
        return True
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, BaseException):
        return type(left) is type(right) and same(left.args, right.args)
    return type(left) is type(right) and isinstance(left, (str, int, bool)) and left == right
