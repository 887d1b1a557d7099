"""A decorated function is the undecorated one, in every shape, and its record is right."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from tests.recorder.record_kit import recording, redactor
from tracekit.contract import bind, binder, contract_of
from tracekit.declaring import kept_contract
from tracekit.decorators import MARK
from tracekit.errors import ContractError


class Boom(Exception):
    pass


def test_the_result_is_the_very_object_and_the_record_holds_bound_arguments() -> None:
    answer = object()

    @tracekit.tool(effect="read")
    def look(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> object:
        return answer

    with recording() as recorded:
        assert look(1, 2, 4, 5, d=6) is answer
    assert recorded.argument(recorded.row()) == {
        "a": 1, "b": 2, "rest": [4, 5], "c": 3, "more": {"d": 6},
    }  # fmt: skip


def test_the_exception_is_the_very_instance_with_its_own_traceback_and_context() -> None:
    error = Boom("no")

    def fail() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise error  # noqa: B904  # the implicit context is what is compared

    decorated = tracekit.tool(fail)
    with recording() as recorded, pytest.raises(Boom) as caught:
        decorated()
    assert caught.value is error
    assert isinstance(error.__context__, KeyError)
    assert error.__cause__ is None
    assert traceback.extract_tb(error.__traceback__)[-1].name == "fail"
    row = recorded.row()
    assert (row.status, row.error_type, row.error_message) == (
        "error", f"{__name__}.Boom", "no",
    )  # fmt: skip
    assert (row.observation_is_error, row.result_category) == (True, "fatal_error")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()])
def test_what_ends_a_program_is_recorded_and_goes_on(error: BaseException) -> None:
    @tracekit.tool
    def fail() -> None:
        raise error

    with recording() as recorded, pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    assert recorded.row().status == "error"


def test_an_error_that_cannot_be_printed_is_recorded_by_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    @tracekit.tool
    def fail() -> None:
        raise Mute

    with recording() as recorded, pytest.raises(Mute):
        fail()
    assert recorded.row().error_message == "<Mute that cannot be printed>"
    assert recorded.recorder.lost == 0


def _plain(a: int, /, b: str = "x", *c: float, d: bool, **e: Any) -> str:
    """Do it."""
    return "done"


async def _coroutine(a: int) -> int:
    """Do it."""
    return a


def _generator(a: int) -> Iterator[int]:
    """Do it."""
    yield a


async def _async_generator(a: int) -> AsyncIterator[int]:
    """Do it."""
    yield a


@pytest.mark.parametrize("function", [_plain, _coroutine, _generator, _async_generator])
def test_signature_name_docs_annotations_and_shape_are_kept(function: Callable[..., Any]) -> None:
    decorated = tracekit.tool(function)
    assert inspect.signature(decorated) == inspect.signature(function)
    assert decorated.__name__ == function.__name__
    assert decorated.__qualname__ == function.__qualname__
    assert decorated.__doc__ == function.__doc__
    assert decorated.__module__ == function.__module__
    assert decorated.__annotations__ == function.__annotations__
    for shape in (
        inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction,
        inspect.isfunction, asyncio.iscoroutinefunction,
    ):  # fmt: skip
        assert shape(decorated) == shape(function)


@tracekit.tool
def module_level(a: int) -> int:
    return a


def test_a_decorated_function_of_a_module_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level  # noqa: S301  # our own bytes


def test_methods_and_class_methods_record_whose_they_are_and_static_methods_do_not() -> None:
    class Desk:
        @tracekit.tool(name="bound")
        def bound(self, a: int) -> int:
            return a + 1

        @tracekit.tool(name="cls_below")
        @classmethod
        def below(cls, a: int) -> str:
            return cls.__name__

        @classmethod
        @tracekit.tool(name="cls_above")
        def above(cls, a: int) -> str:
            return cls.__name__

        @tracekit.tool(name="static_below")
        @staticmethod
        def static_below(a: int) -> int:
            return a

        @staticmethod
        @tracekit.tool(name="static_above")
        def static_above(a: int) -> int:
            return a

    class Sub(Desk):
        @tracekit.tool(name="override")
        def bound(self, a: int) -> int:
            return super().bound(a) * 2

    with recording() as recorded:
        assert Sub().bound(1) == 4
        assert (Sub.below(2), Sub().above(3)) == ("Sub", "Sub")
        assert (Desk.static_below(4), Sub().static_above(5)) == (4, 5)
    assert [(row.tool_name, recorded.argument(row)) for row in recorded.rows("tool_call")] == [
        ("override", {"self": {"class": "Sub"}, "a": 1}),
        ("bound", {"self": {"class": "Sub"}, "a": 1}),
        ("cls_below", {"cls": {"class": "Sub"}, "a": 2}),
        ("cls_above", {"cls": {"class": "Sub"}, "a": 3}),
        ("static_below", {"a": 4}),
        ("static_above", {"a": 5}),
    ]
    assert isinstance(vars(Desk)["static_below"], staticmethod)


def test_partials_callable_objects_and_bound_methods_can_be_tools() -> None:
    class Search:
        """Find things."""

        def __call__(self, query: str) -> str:
            return query.upper()

        def method(self, query: str) -> str:
            return query

        async def slow(self, query: str) -> str:
            return query

    class AsyncSearch:
        async def __call__(self, query: str) -> str:
            return query.lower()

    def between(low: int, high: int) -> int:
        """Count what lies between."""
        return high - low

    partial = tracekit.tool(functools.partial(between, high=9))
    with recording() as recorded:
        assert partial(4) == 5
        assert tracekit.tool(Search())("a") == "A"
        assert tracekit.tool(Search().method)("b") == "b"
        assert asyncio.run(tracekit.tool(functools.partial(Search().slow, "c"))()) == "c"
        assert asyncio.run(tracekit.tool(AsyncSearch())("D")) == "d"
    assert [(row.tool_name, recorded.argument(row)) for row in recorded.rows("tool_call")] == [
        ("between", {"low": 4, "high": 9}),
        ("Search", {"self": {"class": "Search"}, "query": "a"}),
        ("method", {"self": {"class": "Search"}, "query": "b"}),
        ("slow", {"nonlocal": {"query": "c"}, "self": {"class": "Search"}}),
        ("AsyncSearch", {"self": {"class": "AsyncSearch"}, "query": "D"}),
    ]
    assert recorded.observation(recorded.rows("tool_call")[4]) == "d"
    mark = getattr(partial, MARK)
    assert mark.contract.purpose == "Count what lies between."
    assert [p.name for p in mark.contract.parameters] == ["low", "high"]


def test_a_decorator_in_between_that_hides_the_shape_changes_nothing() -> None:
    def hiding(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    @tracekit.tool(name="leaf")
    def leaf() -> None: ...

    async def ask(a: int) -> int:
        await asyncio.sleep(0)
        leaf()
        return a

    def items(a: int) -> Iterator[int]:
        leaf()
        yield a

    async def slow_items(a: int) -> AsyncIterator[int]:
        leaf()
        yield a

    async def read() -> list[int]:
        return [item async for item in tracekit.tool(hiding(slow_items))(3)]

    with recording() as recorded:
        assert asyncio.run(tracekit.tool(hiding(ask))(1)) == 1
        assert list(tracekit.tool(hiding(items))(2)) == [2]
        assert asyncio.run(read()) == [3]
    rows = [row for row in recorded.rows("tool_call") if row.tool_name != "leaf"]
    assert [recorded.observation(row) for row in rows] == [1, [2], [3]]
    assert recorded.tree() == [["ask", "leaf"], ["items", "leaf"], ["slow_items", "leaf"]]


@pytest.mark.parametrize("thing", [property(lambda self: 1), 5, functools.cached_property(len)])
def test_what_cannot_be_called_cannot_be_a_tool(thing: Any) -> None:
    with pytest.raises(ContractError, match="cannot be called"):
        tracekit.tool(thing)


def test_an_unknown_effect_is_refused_with_the_list_of_effects() -> None:
    with pytest.raises(ContractError, match="one of pure, read, write, unknown"):
        tracekit.tool(effect="wirte")(_plain)  # type: ignore[call-overload]  # the point


def test_a_call_that_does_not_fit_raises_what_python_raises_and_is_recorded_as_tried() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(TypeError) as expected:
        add(1, 2, 3)  # type: ignore[call-arg]  # the point
    with recording() as recorded, pytest.raises(TypeError) as caught:
        tracekit.tool(add)(1, 2, 3)  # type: ignore[call-arg]  # the point
    assert str(caught.value) == str(expected.value)
    assert recorded.argument(recorded.row()) == {"args": [1, 2, 3], "kwargs": {}}
    assert recorded.row().status == "error"


# --- generators -----------------------------------------------------------------------------------


def _talk(log: list[str]) -> Generator[int, str, str]:
    """Yield 1, 2, 3; note what is sent, thrown and closed."""
    try:
        for number in (1, 2, 3):
            try:
                log.append(f"sent {(yield number)}")
            except Boom as error:
                log.append(f"thrown {error}")
    finally:
        log.append("left")
    return "all"


def _use(generator: Generator[Any, Any, Any], script: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for how, *what in script:
        try:
            match how:
                case "next":
                    seen.append(next(generator))
                case "send":
                    seen.append(generator.send(*what))
                case "throw":
                    seen.append(generator.throw(*what))
                case "close":
                    generator.close()
                    seen.append("closed")
        except StopIteration as stop:
            seen.append(("stop", stop.value))
        except BaseException as error:  # noqa: BLE001  # compared
            seen.append((type(error).__name__, str(error)))
    return seen


_SCRIPTS: dict[str, list[Any]] = {
    "to the end": [("next",)] * 5,
    "with sends": [("next",), ("send", "a"), ("send", "b"), ("send", "c"), ("next",)],
    "partly": [("next",), ("next",)],
    "never": [],
    "closed": [("next",), ("close",), ("next",)],
    "closed at once": [("close",), ("next",)],
    "closed twice": [("next",), ("close",), ("close",)],
    "thrown and handled": [("next",), ("throw", Boom("x")), ("next",), ("next",)],
    "thrown and not handled": [("next",), ("throw", KeyError("x")), ("next",)],
    "thrown at once": [("throw", Boom("early")), ("next",)],
    "stop thrown in": [("next",), ("throw", StopIteration("odd"))],
    "exit thrown in": [("next",), ("throw", GeneratorExit()), ("next",)],
    "first send": [("send", "too early"), ("next",)],
}


@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=_SCRIPTS.keys())
def test_a_generator_obeys_its_reader_as_the_undecorated_one_does(script: list[Any]) -> None:
    bare: list[str] = []
    logged: list[str] = []
    expected = _use(_talk(bare), script)
    with recording() as recorded:
        assert _use(tracekit.tool(_talk)(logged), script) == expected
    assert logged == bare
    assert recorded.recorder.lost == 0


def test_a_generator_that_swallows_its_closing_fails_as_the_undecorated_one_does() -> None:
    def stubborn() -> Iterator[int]:
        while True:
            try:
                yield 1
            except GeneratorExit:
                yield 2
                return

    script = [("next",), ("close",), ("next",)]
    expected = _use(stubborn(), script)  # type: ignore[arg-type]  # a generator
    assert expected[1] == ("RuntimeError", "generator ignored GeneratorExit")
    with recording():
        assert _use(tracekit.tool(stubborn)(), script) == expected  # type: ignore[arg-type]  # a generator


def test_a_generator_is_lazy_and_its_step_begins_with_the_first_item() -> None:
    began: list[int] = []

    @tracekit.tool
    def items() -> Iterator[int]:
        began.append(1)
        yield 1

    with recording() as recorded:
        unread = items()
        assert (began, recorded.rows()) == ([], [])
        next(unread)
        assert recorded.row().ts_end_ns is None
        unread.close()  # type: ignore[attr-defined]  # a generator


@pytest.mark.parametrize(
    ("script", "items", "partial"),
    [
        ("to the end", [1, 2, 3, "all"], False),  # what it returned stands last
        ("closed", [1], True),
        ("partly", [1, 2], True),
        ("exit thrown in", [1], True),
    ],
)
def test_what_was_read_of_a_generator_is_its_observation(
    script: str, items: list[object], *, partial: bool
) -> None:
    with recording() as recorded:
        generator = tracekit.tool(_talk)([])
        _use(generator, _SCRIPTS[script])
        del generator
    row = recorded.row()
    assert recorded.observation(row) == items
    assert ('"partial":true' in row.attributes) == partial
    assert row.status == "ok"


def test_items_are_kept_as_they_were_when_they_were_yielded() -> None:
    @tracekit.tool
    def grow() -> Iterator[list[int]]:
        items: list[int] = []
        for number in range(3):
            items.append(number)
            yield items

    with recording() as recorded:
        list(grow())
    assert recorded.observation(recorded.row()) == [[0], [0, 1], [0, 1, 2]]


def test_a_stream_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.steps.MAX_ITEMS", 3)

    @tracekit.tool
    def count() -> Iterator[int]:
        yield from range(10)

    with recording() as recorded:
        assert list(count()) == list(range(10))
    row = recorded.row()
    assert (row.observation_state, recorded.observation(row)) == ("truncated", [0, 1, 2])
    assert '"items":10' in row.attributes


async def _async_talk(log: list[str]) -> AsyncIterator[int]:
    try:
        for number in (1, 2, 3):
            try:
                log.append(f"sent {(yield number)}")
            except Boom as error:
                log.append(f"thrown {error}")
            await asyncio.sleep(0)
    finally:
        log.append("left")


async def _use_async(generator: Any, script: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for how, *what in script:
        try:
            match how:
                case "next":
                    seen.append(await anext(generator))
                case "send":
                    seen.append(await generator.asend(*what))
                case "throw":
                    seen.append(await generator.athrow(*what))
                case "close":
                    await generator.aclose()
                    seen.append("closed")
        except BaseException as error:  # noqa: BLE001  # compared
            seen.append((type(error).__name__, str(error)))
    return seen


_ASYNC_SCRIPTS = {name: script for name, script in _SCRIPTS.items() if name != "stop thrown in"}


@pytest.mark.parametrize("script", _ASYNC_SCRIPTS.values(), ids=_ASYNC_SCRIPTS.keys())
async def test_an_async_generator_obeys_its_reader_too(script: list[Any]) -> None:
    bare: list[str] = []
    logged: list[str] = []
    expected = await _use_async(_async_talk(bare), script)
    with recording() as recorded:
        assert await _use_async(tracekit.tool(_async_talk)(logged), script) == expected
    assert logged == bare
    assert recorded.recorder.lost == 0


async def test_leaving_an_async_stream_early_is_recorded_as_partial() -> None:
    with recording() as recorded:
        stream = tracekit.tool(_async_talk)([])
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator
    row = recorded.row()
    assert recorded.observation(row) == [1]
    assert '"partial":true' in row.attributes


def test_a_loop_that_ends_closes_a_stream_left_open_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left: list[Any] = []

    async def main() -> None:
        stream = tracekit.tool(_async_talk)([])
        await anext(stream)
        left.append(stream)

    with recording() as recorded:
        asyncio.run(main())
    assert caplog.records == []
    assert '"partial":true' in recorded.row().attributes


async def test_an_async_generator_with_a_tool_between_its_items_is_one_tree() -> None:
    @tracekit.tool
    async def fetch(n: int) -> int:
        return n

    @tracekit.agent
    async def stream() -> AsyncIterator[int]:
        for number in range(3):
            yield await fetch(number)

    with recording() as recorded:
        assert [item async for item in stream()] == [0, 1, 2]
    assert recorded.tree() == [["stream", "fetch", "fetch", "fetch"]]
    assert recorded.run_row().status == "ok"


async def test_a_stream_read_in_a_task_of_its_own_keeps_its_tree() -> None:
    @tracekit.tool
    def fetch(n: int) -> int:
        return n

    @tracekit.step
    async def stream() -> AsyncIterator[int]:
        for number in range(2):
            yield fetch(number)

    @tracekit.agent
    async def work() -> list[int]:
        async def read() -> list[int]:
            return [item async for item in stream()]

        return await asyncio.create_task(read())

    with recording() as recorded:
        assert await work() == [0, 1]
    assert recorded.tree() == [["work", ["stream", "fetch", "fetch"]]]


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a: None,
        lambda a, b=2, c=3: None,
        lambda self, a=1: None,
        lambda cls: None,
        lambda a, /, b: None,
        lambda a, *rest, b=1, **more: None,
        lambda args, kwargs=1: None,
    ],
)
@given(
    args=st.lists(st.integers(), max_size=4),
    kwargs=st.dictionaries(st.sampled_from(["a", "b", "c", "self", "args"]), st.integers()),
)
def test_a_prepared_binding_is_the_plain_one(
    function: Callable[..., None], args: list[int], kwargs: dict[str, int]
) -> None:
    signature = inspect.signature(function)
    quick = binder(signature)(tuple(args), kwargs)
    plain = bind(signature, tuple(args), kwargs)
    assert list(quick.items()) == list(plain.items())


def test_a_secret_default_is_in_no_contract_that_is_kept() -> None:
    key = "sk-" + "a1B2c3D4e5" * 4

    @tracekit.tool(effect="read")
    def ask(api_token: str = "hunter-2-hunter-2", note: str = f"use {key}", most: int = 5) -> None:
        """Ask."""

    contract = contract_of(ask, name="ask", effect="read")
    text = kept_contract(contract.model_dump_json(), redactor()).data.decode()
    assert "hunter" not in text
    assert key not in text
    assert '"default":5' in text
