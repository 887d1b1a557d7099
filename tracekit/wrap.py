"""The one place that knows the shapes of a call: sync, async, generator, async generator.

``wrap`` turns a function into one of the same shape and signature around which a ``Step`` is opened
and closed. Laziness is kept: a generator's step begins with its first item.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Step(Protocol):
    """One call under way."""

    @property
    def answered(self) -> bool:
        """Whether the call is answered without running its body."""

    def answer(self) -> Any:
        """Return or raise what answers the call."""

    def active(self) -> AbstractContextManager[None]:
        """Make the step the parent of what runs inside."""

    def item(self, value: object) -> None:
        """A generator yielded ``value``."""

    def end(self, value: object) -> None:
        """The body returned ``value``."""

    def end_stream(self, *, complete: bool) -> None:
        """A generator ended, or its reader went away before the end."""

    def fail(self, error: BaseException) -> None:
        """The body raised ``error``."""


OpenStep = Callable[[tuple[Any, ...], Mapping[str, Any]], Step]


def wrap(
    function: Callable[..., Any], open_step: OpenStep, *, guarded: Callable[[], bool]
) -> Callable[..., Any]:
    """Return ``function`` with a step around each call, same shape, same signature.

    ``__wrapped__`` of the result is the undecorated function only while ``guarded`` says that calls
    run for real; otherwise it leads through the step as well, so that no road around the recorder
    is a road around the guard.
    """
    if inspect.isasyncgenfunction(function):
        wrapper = _async_generator(function, open_step)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(function, open_step)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, open_step)
    else:
        wrapper = _plain(function, open_step)

    def undecorated(*args: Any, **kwargs: Any) -> Any:
        return (wrapper if guarded() else function)(*args, **kwargs)

    for made in (wrapper, undecorated):
        functools.update_wrapper(made, function)
        made.__signature__ = _signature(function)  # type: ignore[attr-defined]  # read by inspect
    vars(undecorated).pop("__wrapped__")  # it would lead to the body
    wrapper.__wrapped__ = undecorated  # type: ignore[attr-defined]  # read by inspect
    return wrapper


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a callable without a signature keeps none


def _plain(function: Callable[..., Any], open_step: OpenStep) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        step = open_step(args, kwargs)
        if step.answered:
            return step.answer()
        try:
            with step.active():
                value = function(*args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        step.end(value)
        return value

    return wrapper


def _coroutine(function: Callable[..., Any], open_step: OpenStep) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        step = open_step(args, kwargs)
        if step.answered:
            return step.answer()
        try:
            with step.active():
                value = await function(*args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        step.end(value)
        return value

    return wrapper


def _generator(function: Callable[..., Any], open_step: OpenStep) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = open_step(args, kwargs)
        if step.answered:
            yield from step.answer()
            return None
        generator = function(*args, **kwargs)
        try:
            with step.active():
                item = next(generator)
            while True:
                step.item(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as thrown:  # noqa: BLE001  # handed on to the body
                    with step.active():
                        item = generator.throw(thrown)
                else:
                    with step.active():
                        item = generator.send(sent)
        except StopIteration as stop:
            step.end_stream(complete=True)
            return stop.value
        except GeneratorExit:
            with step.active():
                generator.close()
            step.end_stream(complete=False)
            raise
        except BaseException as error:
            step.fail(error)
            raise

    return wrapper


def _async_generator(function: Callable[..., Any], open_step: OpenStep) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        step = open_step(args, kwargs)
        if step.answered:
            for item in step.answer():
                yield item
            return
        generator = function(*args, **kwargs)
        try:
            with step.active():
                item = await anext(generator)
            while True:
                step.item(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as thrown:  # noqa: BLE001  # handed on to the body
                    with step.active():
                        item = await generator.athrow(thrown)
                else:
                    with step.active():
                        item = await generator.asend(sent)
        except StopAsyncIteration:
            step.end_stream(complete=True)
        except GeneratorExit:
            with step.active():
                await generator.aclose()
            step.end_stream(complete=False)
            raise
        except BaseException as error:
            step.fail(error)
            raise

    return wrapper
