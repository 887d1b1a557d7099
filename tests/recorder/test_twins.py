"""Nobody can tell decorated code from bare code by calling it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tests.recorder.record_kit import recording
from tests.recorder.twins import MANAGERS, SHAPES, Drive, Give, Script, body_of, same, seen_of

KINDS = ["plain", "generator", "coroutine", "async_generator"]


class Hostile:
    """Everything that a recorder might ask it for is an error."""

    def _no(self, *_: Any) -> Any:
        raise ZeroDivisionError("do not touch")

    __str__ = __eq__ = __len__ = __iter__ = __bool__ = _no  # type: ignore[assignment]  # on purpose
    __hash__ = None  # type: ignore[assignment]  # on purpose


class OwnError(Exception):
    """An error that has more to it than its text."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(code)
        self.detail = detail


def _values() -> st.SearchStrategy[Any]:
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.binary(max_size=3),
    )  # fmt: skip
    nested = st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=2), plain, max_size=2)
    return plain | nested | st.builds(object) | st.builds(Hostile)


def _errors() -> st.SearchStrategy[BaseException]:
    return st.one_of(
        st.builds(ValueError, st.text(max_size=5)),
        st.builds(OwnError, st.integers(), detail=st.text(max_size=3)),
        st.builds(KeyboardInterrupt),
        st.builds(asyncio.CancelledError),
        st.builds(TimeoutError),
        st.builds(GeneratorExit),
        st.builds(StopIteration, st.integers()),
        st.builds(StopAsyncIteration),
        st.builds(ExceptionGroup, st.just("both"), st.just([ValueError("a"), OSError("b")])),
    )


GIVES = st.builds(
    Give,
    _values(),
    wait=st.booleans(),
    on_throw=st.sampled_from(["raise", "swallow", "replace", "return"]),
    other=_errors(),
)
SCRIPTS = st.builds(
    Script, st.lists(GIVES, max_size=4), value=_values(), error=st.none() | _errors()
)
OPS = st.one_of(
    st.just(("next", None)),
    st.just(("close", None)),
    st.tuples(st.just("send"), _values()),
    st.tuples(st.just("throw"), _errors()),
)
DRIVES = st.builds(
    Drive, st.lists(OPS, max_size=5), ending=st.sampled_from(["exhaust", "drop", "close"])
)
DECORATORS = st.sampled_from(
    [
        tracekit.tool,
        tracekit.tool(effect="write", idempotency_key=lambda a: "key"),
        tracekit.agent,
        tracekit.llm,
        tracekit.retrieval,
        tracekit.step,
    ]
)


def _cannot_be_told_apart(data: st.DataObject, *, in_a_run: bool) -> None:
    managed = data.draw(st.sampled_from([False, False, False, True]), "context manager")
    kind = "generator" if managed else data.draw(st.sampled_from(KINDS), "kind")
    shapes = MANAGERS if managed else SHAPES
    shape = data.draw(st.sampled_from(sorted(shapes)), "shape")
    script, drive = data.draw(SCRIPTS, "script"), data.draw(DRIVES, "drive")
    args = data.draw(st.lists(_values(), min_size=1, max_size=4), "args")
    named = ["more"] if shape == "partial" or len(args) > 1 else ["b", "k", "more"]
    kwargs = data.draw(st.dictionaries(st.sampled_from(named), _values(), max_size=2), "kwargs")
    decorate = data.draw(DECORATORS, "decorator")
    bare = seen_of(shapes[shape], lambda f: f, kind, script, drive, args, kwargs)
    with recording() as recorded:
        if in_a_run:
            with tracekit.run():
                traced = seen_of(shapes[shape], decorate, kind, script, drive, args, kwargs)
        else:
            traced = seen_of(shapes[shape], decorate, kind, script, drive, args, kwargs)
    assert same(bare, traced), f"bare:   {bare}\ntraced: {traced}"
    assert recorded.recorder.lost == 0


@settings(
    max_examples=300,
    derandomize=True,  # the sweep below looks elsewhere every time
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), in_a_run=st.booleans())
def test_decorated_and_bare_code_cannot_be_told_apart(data: st.DataObject, in_a_run: bool) -> None:
    _cannot_be_told_apart(data, in_a_run=in_a_run)


@pytest.mark.slow
@settings(max_examples=10_000, suppress_health_check=list(HealthCheck))
@given(data=st.data(), in_a_run=st.booleans())
def test_decorated_and_bare_code_cannot_be_told_apart_in_a_sweep(
    data: st.DataObject, in_a_run: bool
) -> None:
    _cannot_be_told_apart(data, in_a_run=in_a_run)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_decorated_and_bare_code_look_alike(shape: str, kind: str) -> None:
    def looks(decorate: Any) -> list[Any]:
        callee = SHAPES[shape](body_of(kind, Script(), []), decorate)
        seen = [inspect.signature(callee), inspect.getdoc(callee)]
        if shape not in ("object", "partial"):  # what wraps those is a function
            seen += [callee.__name__, callee.__qualname__, callee.__module__]
            seen += [callee.__annotations__]
            seen += [type(callee), inspect.iscoroutinefunction(callee)]
            seen += [inspect.isgeneratorfunction(callee), inspect.isasyncgenfunction(callee)]
        return seen

    assert looks(tracekit.tool) == looks(lambda f: f)


@settings(max_examples=50)
@given(plans=st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5))
def test_tasks_take_their_turns_as_they_would_without_us(plans: list[list[int]]) -> None:
    def turns(decorate: Any) -> list[Any]:
        log: list[Any] = []

        @decorate
        async def inner(name: int, rounds: int) -> int:
            for turn in range(rounds):
                log.append((name, turn))
                await asyncio.sleep(0)
            return name

        @decorate
        async def stream(name: int, plan: list[int]) -> Any:
            for rounds in plan:
                yield await inner(name, rounds)

        async def reader(name: int, plan: list[int]) -> None:
            async for item in stream(name, plan):
                log.append((name, item))

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                for name, plan in enumerate(plans):
                    group.create_task(reader(name, plan))

        asyncio.run(main())
        return log

    bare = turns(lambda f: f)
    with recording() as recorded, tracekit.run(name="run"):
        traced = turns(tracekit.step)
    assert traced == bare
    streams = {row.span_id: row for row in recorded.rows("span") if row.actor == "stream"}
    assert len(streams) == len(plans)
    for row in recorded.rows("span"):
        if row.actor == "inner":
            above = streams[row.parent_span_id or ""]
            assert recorded.argument(above)["name"] == recorded.argument(row)["name"]
