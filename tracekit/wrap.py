"""The one place that knows the shapes of a call: sync, async, generator, async generator.

``wrap`` turns a function into one of the same shape and signature around which a ``Step`` is opened
and closed. Laziness is kept: a generator's step begins with its first item. Everything that a
reader sends or throws is handed on to the body, the request to close included, so that the body
alone decides how the call ends. A plain function that hands out a coroutine or a generator (a
decorator in between hid the shape) is followed to its end as well.

More than 400 lines, because the shapes must be read side by side.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tracekit.canonical import Stream
from tracekit.standing import standing_for


class Step(Protocol):
    """One call under way."""

    @property
    def answered(self) -> bool:
        """Whether the call is answered without running its body."""

    async def wait(self) -> None:
        """Let pass what passes before a coroutine is answered."""

    def answer(self) -> Any:
        """Return or raise what answers the call."""

    def active(self) -> AbstractContextManager[None]:
        """Make the step the parent of what runs inside."""

    def awaited(self, waiting: Awaitable[Any]) -> Awaitable[Any]:
        """Give what is awaited in the place of ``waiting``, which is the body."""

    def item(self, value: object) -> None:
        """A generator yielded ``value``."""

    def sent(self, value: object) -> None:
        """The reader of a generator sent or threw ``value`` in."""

    def compare_sent(self, recorded: object, position: int, value: object) -> None:
        """Behind item ``position`` of a recorded stream its reader now sent ``value``."""

    def body_changed(self, places: set[str]) -> None:
        """These fields of whose call it is its body has changed, before it ends."""

    def end(self, value: object) -> None:
        """The body returned ``value``."""

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """A generator ended with the value ``returned``, or its reader went away before."""

    def fail(self, error: BaseException) -> None:
        """The body raised ``error``."""


OpenStep = Callable[[tuple[Any, ...], Mapping[str, Any]], Step]
Off = Callable[[], bool]


def wrap(
    function: Callable[..., Any],
    open_step: OpenStep,
    *,
    guarded: Callable[[], bool],
    off: Callable[[], bool],
) -> Callable[..., Any]:
    """Return ``function`` with a step around each call, same shape, same signature.

    While ``off`` says so a call is nothing but a call of ``function``.
    ``__wrapped__`` of the result is the undecorated function only while ``guarded`` says that calls
    run for real; otherwise it leads through the step as well, so that no road around the recorder
    is a road around the guard.
    """
    wrapper = _SHAPES[shape_of(function)](function, open_step, off)
    if inspect.isfunction(function) and function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
        wrapper = types.coroutine(wrapper)

    def undecorated(*args: Any, **kwargs: Any) -> Any:
        return (wrapper if guarded() else function)(*args, **kwargs)

    undecorated = _at_home(undecorated, function)
    for made in (wrapper, undecorated):
        # What a call gives is named after the function that it enters.
        functools.update_wrapper(made, _entered(function), ("__name__", "__qualname__"), ())
        functools.update_wrapper(made, function)
        made.__signature__ = _signature(function)  # type: ignore[attr-defined]  # read by inspect
    vars(undecorated).pop("__wrapped__")  # it would lead to the body
    wrapper.__wrapped__ = undecorated  # type: ignore[attr-defined]  # read by inspect
    return standing_for(function, wrapper)


def _at_home(made: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``made`` the globals of ``function``: in them its annotations are looked up by name."""
    names = getattr(inspect.unwrap(function), "__globals__", None)
    if names is None or not isinstance(made, types.FunctionType):
        return made
    return types.FunctionType(made.__code__, names, made.__name__, None, made.__closure__)


def shape_of(function: Callable[..., Any]) -> str:
    """Say what a call of ``function`` gives: ``plain``, ``coroutine`` or one of the generators."""
    inner = _entered(function)
    if inspect.isasyncgenfunction(inner):
        return "async generator"
    if inspect.isgeneratorfunction(inner):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(inner) else "plain"


def _entered(function: Callable[..., Any]) -> Any:
    """The function that a call enters: of a partial and of a callable object, the one inside."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004  # it is asked for, not whether it is there
    return inner


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a callable without a signature keeps none


def _plain(function: Callable[..., Any], open_step: OpenStep, off: Off) -> Callable[..., Any]:
    coroutine, generator = types.CoroutineType, types.GeneratorType
    async_generator = types.AsyncGeneratorType

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if off():
            return function(*args, **kwargs)
        step = open_step(args, kwargs)
        if step.answered:
            answer = step.answer()  # it may have handed out a generator
            return _played(step, answer) if isinstance(answer, Stream) else answer
        try:
            with step.active():
                value = function(*args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        kind = type(value)  # compared by identity: a metaclass may have an __eq__ and a __hash__
        if kind is coroutine:
            return _follow(step, value)
        if kind is generator:
            return _read(step, value, _Unread(step))
        if kind is async_generator:
            return _read_async(step, value, _Unread(step))
        try:
            step.end(value)
        except BaseException as error:  # as in ``_end``
            step.fail(error)
            raise
        return value

    return wrapper


def _coroutine(function: Callable[..., Any], open_step: OpenStep, off: Off) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if off():
            return await function(*args, **kwargs)
        step = open_step(args, kwargs)
        if step.answered:
            await step.wait()
            return step.answer()
        try:
            with step.active():
                value = await step.awaited(function(*args, **kwargs))
        except BaseException as error:
            step.fail(error)
            raise
        _end(step, value)
        return value

    return wrapper


def _generator(function: Callable[..., Any], open_step: OpenStep, off: Off) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        if off():
            return (yield from function(*args, **kwargs))
        step = open_step(args, kwargs)
        if step.answered:
            return (yield from _played(step, step.answer()))
        try:
            generator = function(*args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        reading = _Reading(step, generator)
        while (given := reading.next()) is not _OVER:
            try:
                sent = yield given
            except BaseException as thrown:  # noqa: BLE001  # handed on to the body
                reading.throw(thrown)
            else:
                reading.send(sent)
        return reading.returned

    return wrapper


def _async_generator(
    function: Callable[..., Any], open_step: OpenStep, off: Off
) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        if off():
            passed = function(*args, **kwargs)
            resume = _first(passed)
            while True:
                try:
                    given = await resume
                except StopAsyncIteration:
                    return
                try:
                    sent = yield given
                except BaseException as thrown:  # noqa: BLE001  # handed on to the body
                    resume = passed.athrow(thrown)
                else:
                    resume = passed.asend(sent)
        step = open_step(args, kwargs)
        reading: _AsyncPlaying | _AsyncReading
        if step.answered:
            reading = _AsyncPlaying(step, step.answer())
            resume = reading.send(None)
        else:
            try:
                generator = function(*args, **kwargs)
            except BaseException as error:
                step.fail(error)
                raise
            reading = _AsyncReading(step, generator)
            resume = _first(generator)
        while (given := await reading.next(resume)) is not _OVER:
            try:
                sent = yield given
            except BaseException as thrown:  # noqa: BLE001  # handed on to the body
                resume = reading.throw(thrown)
            else:
                resume = reading.send(sent)

    return wrapper


def _played(step: Step, recorded: Iterable[Any]) -> Generator[Any, Any, Any]:
    """Yield recorded items and end as was recorded; what a reader did not wait for nobody knows."""
    whole = isinstance(recorded, str | Mapping)  # a reply given in one piece
    items: list[Any] = [recorded] if whole else list(recorded)
    end = recorded.end if isinstance(recorded, Stream) else "over"
    last = items.pop() if end in ("raised", "returned") else None
    known = bool(getattr(recorded, "sent", ()))
    for position, item in enumerate(items, 1):
        try:
            sent = yield item
        except GeneratorExit as leaving:
            if known:  # the recorded reader may have sent something here
                step.compare_sent(recorded, position, leaving)
            raise
        except BaseException as thrown:
            ends = position == len(items) and _raised_as(last, thrown)
            if known or not ends:  # older records hold no more of an error than how it ended
                step.compare_sent(recorded, position, thrown)
            if ends:
                raise
            continue
        if known or sent is not None:
            step.compare_sent(recorded, position, sent)
    if end == "raised":
        raise last  # type: ignore[misc]  # what a stream raised is an error
    if end == "left":
        recorded.read_on()  # type: ignore[attr-defined]  # what ends so is a stream
    return last


def _begun(recorded: Iterable[Any]) -> Iterable[Any]:
    """What is played before a reader has to wait."""
    withheld = isinstance(recorded, Stream) and recorded.withheld is not None
    if not withheld:
        return recorded
    begun = Stream(recorded[:-1], "over", recorded.sent)  # type: ignore[index,attr-defined]  # a stream
    begun.unsent = recorded.unsent  # type: ignore[attr-defined]  # likewise
    return begun


class _AsyncPlaying:
    """A recorded async generator being read."""

    def __init__(self, step: Step, recorded: Iterable[Any]) -> None:
        self._recorded = recorded
        self._playing = _played(step, _begun(recorded))

    async def send(self, sent: object) -> Any:
        """Hand on what the reader sent."""
        return await self._resume(functools.partial(self._playing.send, sent))

    async def throw(self, thrown: BaseException) -> Any:
        """Hand on what the reader threw, or that it goes away."""
        return await self._resume(functools.partial(self._playing.throw, thrown))

    async def next(self, resume: Awaitable[Any]) -> Any:
        """Give the next item; ``_OVER`` at the end."""
        return await resume

    async def _resume(self, resume: Callable[[], Any]) -> Any:
        try:
            return resume()
        except StopIteration:
            await _end_of_reading(self._recorded)
            return _OVER


def _raised_as(last: object, thrown: BaseException) -> bool:
    """Whether what is thrown in is what the recorded stream raised."""
    return type(last) is type(thrown) and str(last) == str(thrown)


async def _end_of_reading(recorded: object) -> None:
    """Wait with a reader who was cancelled behind the last item."""
    if isinstance(recorded, Stream) and recorded.withheld is not None:
        await recorded.withheld()


def _end(step: Step, value: object) -> None:
    try:
        step.end(value)
    except BaseException as error:  # a signal handler's, in the middle of it
        step.fail(error)
        raise


class _Unread:
    """Ends the step of what a call handed out and nobody came for.

    What stands for that holds it until it is begun.
    """

    __slots__ = ("begun", "coroutine", "step")

    def __init__(self, step: Step, coroutine: Coroutine[Any, Any, Any] | None = None) -> None:
        self.step = step
        self.coroutine = coroutine
        self.begun = False

    def __del__(self) -> None:
        if not self.begun:
            if self.coroutine is not None:  # the one that stands for it has had its say
                self.coroutine.close()
            self.step.end_stream(complete=False)


def _follow(step: Step, coroutine: types.CoroutineType[Any, Any, Any]) -> Any:
    followed: Any = _await(step, coroutine, _Unread(step, coroutine))
    followed.__name__, followed.__qualname__ = coroutine.__name__, coroutine.__qualname__
    return followed


async def _await(step: Step, coroutine: Coroutine[Any, Any, Any], unread: _Unread) -> Any:
    unread.begun = True
    try:
        with step.active():
            value = await step.awaited(coroutine)
    except BaseException as error:
        step.fail(error)
        raise
    _end(step, value)
    return value


class _Reading:
    """A generator being read, each item with the step as the parent of what runs for it."""

    def __init__(self, step: Step, generator: Generator[Any, Any, Any]) -> None:
        self._step = step
        self._generator = generator
        self._resume: Callable[[], Any] = functools.partial(next, generator)
        self._leaving = False
        self.returned: Any = None

    def send(self, sent: object) -> None:
        """Hand on what the reader sent."""
        if sent is not None:
            self._step.sent(sent)
        self._resume = functools.partial(self._generator.send, sent)

    def throw(self, thrown: BaseException) -> None:
        """Hand on what the reader threw, or that it goes away."""
        self._leaving = isinstance(thrown, GeneratorExit)
        if not self._leaving:
            self._step.sent(thrown)
        self._resume = functools.partial(self._generator.throw, thrown)

    def next(self) -> Any:
        """Give the next item; ``_OVER`` at the end."""
        step = self._step
        try:
            with step.active():
                item = self._resume()
            step.item(item)
        except StopIteration as stop:
            self.returned = stop.value
            step.end_stream(complete=not self._leaving, returned=stop.value)
            return _OVER
        except GeneratorExit as error:
            if self._leaving:
                step.end_stream(complete=False)
            else:
                step.fail(error)
            raise
        except BaseException as error:
            step.fail(error)
            raise
        self._leaving = False
        return item


def _read(
    step: Step, generator: Generator[Any, Any, Any], unread: _Unread
) -> Generator[Any, Any, Any]:
    unread.begun = True
    reading = _Reading(step, generator)
    while (given := reading.next()) is not _OVER:
        try:
            sent = yield given
        except BaseException as thrown:  # noqa: BLE001  # handed on to the body
            reading.throw(thrown)
        else:
            reading.send(sent)
    return reading.returned


def _first(generator: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """Ask for the first item.

    The event loop must not come to know the inner generator: at its end it would close that one
    and ours at the same time.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return anext(generator)
    finally:
        sys.set_asyncgen_hooks(*hooks)


class _AsyncReading:
    """An async generator being read, each item with the step as parent of what runs for it."""

    def __init__(self, step: Step, generator: AsyncGenerator[Any, Any]) -> None:
        self._step = step
        self._generator = generator
        self._leaving = False

    def send(self, sent: object) -> Awaitable[Any]:
        """Hand on what the reader sent."""
        if sent is not None:
            self._step.sent(sent)
        return self._generator.asend(sent)

    def throw(self, thrown: BaseException) -> Awaitable[Any]:
        """Hand on what the reader threw, or that it goes away."""
        self._leaving = isinstance(thrown, GeneratorExit)
        if not self._leaving:
            self._step.sent(thrown)
        return self._generator.athrow(thrown)

    async def next(self, resume: Awaitable[Any]) -> Any:
        """Wait for the next item; ``_OVER`` at the end."""
        step = self._step
        try:
            with step.active():
                item = await step.awaited(resume)
            step.item(item)
        except StopAsyncIteration:
            step.end_stream(complete=not self._leaving)
            return _OVER
        except GeneratorExit as error:
            if self._leaving:
                step.end_stream(complete=False)
            else:
                step.fail(error)
            raise
        except BaseException as error:
            step.fail(error)
            raise
        self._leaving = False
        return item


async def _read_async(
    step: Step, generator: AsyncGenerator[Any, Any], unread: _Unread
) -> AsyncGenerator[Any, Any]:
    unread.begun = True
    reading = _AsyncReading(step, generator)
    resume = _first(generator)
    while (given := await reading.next(resume)) is not _OVER:
        try:
            sent = yield given
        except BaseException as thrown:  # noqa: BLE001  # handed on to the body
            resume = reading.throw(thrown)
        else:
            resume = reading.send(sent)


_OVER = object()
_SHAPES: Mapping[str, Callable[[Callable[..., Any], OpenStep, Off], Callable[..., Any]]] = {
    "plain": _plain,
    "coroutine": _coroutine,
    "generator": _generator,
    "async generator": _async_generator,
}
