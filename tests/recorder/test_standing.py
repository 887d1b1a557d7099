"""Decorated callables that are no functions are bound, called and asked as they would be bare."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording


def search(index: str, query: str) -> str:
    return f"{index}:{query}"


class Asked:
    """A callable object with more to it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, query: str) -> str:
        self.asked.append(query)
        return query.upper()

    def reset(self, *given: Any) -> tuple[Any, ...]:
        self.asked.clear()
        return given


@functools.lru_cache
def cached(query: str) -> str:
    return query * 2


CALLABLES: dict[str, Callable[[], Any]] = {
    "a partial": lambda: functools.partial(search, "ix"),
    "an object": Asked,
    "a builtin": lambda: len,
    "a bound method": lambda: Asked().reset,
    "a cached function": lambda: cached,
    "a method of a type": lambda: str.upper,
}


def _as_attribute(call: Any, *args: Any) -> Any:
    holder = type("Holder", (str,), {"call": call})("text")
    try:
        return holder.call(*args)
    except TypeError as error:
        return type(error)


@pytest.mark.parametrize("kind", CALLABLES)
@pytest.mark.parametrize("args", [(), ("q",)])
def test_as_an_attribute_of_a_class_it_is_bound_as_it_would_be(
    kind: str, args: tuple[Any, ...]
) -> None:
    make = CALLABLES[kind]
    with recording(), tracekit.run():
        decorated = tracekit.tool(effect="read", name="t")(make())
        assert _as_attribute(decorated, *args) == _as_attribute(make(), *args)


def test_what_else_it_offers_is_still_there() -> None:
    decorated = tracekit.tool(effect="read")(cached)
    with recording() as recorded, tracekit.run():
        assert decorated("ab") == "abab"
    assert decorated.cache_info().currsize >= 1
    decorated.cache_clear()
    assert cached.cache_info().currsize == 0
    asked = tracekit.tool(effect="read", name="asked")(Asked())
    with recording(), tracekit.run():
        asked("x")
    assert asked.asked == ["x"]
    assert recorded.row().actor == "cached"


async def _ask() -> int:
    return 1


@pytest.mark.parametrize("make", [lambda: functools.partial(_ask), Asked])
def test_what_it_is_can_be_asked(make: Callable[[], Any]) -> None:
    bare, decorated = make(), tracekit.tool(effect="read", name="t")(make())
    assert inspect.iscoroutinefunction(decorated) == inspect.iscoroutinefunction(bare)
    assert inspect.signature(decorated) == inspect.signature(bare)


def test_a_generator_that_is_a_coroutine_can_be_awaited() -> None:
    @tracekit.tool(effect="read")
    @types.coroutine
    def old() -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return 7  # what awaiting it gives

    async def ask() -> Any:
        return await old()  # type: ignore[misc]  # types.coroutine

    with recording() as recorded, tracekit.run():
        assert asyncio.run(ask()) == 7
    assert recorded.row().status == "ok"
