"""Bodies of write tools are known on the stack, whatever stands between decorator and function."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import sys
import textwrap
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult
from replay.isolation import Level, kernel_available
from replay.replayer import Replayer
from tracekit import bodies
from tracekit.bodies import tool_on_stack
from tracekit.errors import WriteBlocked
from tracekit.store import open_store

seen: list[str | None] = []


def look() -> None:
    seen.append(tool_on_stack(sys._getframe(1)))


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def both(*args: Any) -> Any:
        look()
        return function(*args)

    return both


def sync() -> None:
    look()


async def coroutine() -> None:
    look()


def generator() -> Iterator[None]:
    yield look()


async def async_generator() -> AsyncIterator[None]:
    yield look()


def nested() -> None:
    sorted([1], key=lambda _: look() or 0)


async def _read(items: AsyncIterator[None]) -> None:
    async for _ in items:
        pass


@pytest.mark.parametrize("effect", ["write", "unknown", "read"])
@pytest.mark.parametrize(
    ("function", "finish"),
    [
        (sync, lambda _: None),
        (nested, lambda _: None),
        (coroutine, asyncio.run),
        (generator, list),
        (async_generator, lambda items: asyncio.run(_read(items))),
    ],
)
def test_a_body_of_any_shape_is_known_where_its_tool_may_write(
    function: types.FunctionType, finish: Callable[[Any], Any], effect: Any
) -> None:
    own = types.FunctionType(function.__code__.replace(), function.__globals__)
    tracekit.tool(effect=effect, name="mine")(own)
    seen.clear()
    finish(own())
    assert seen == [None if effect == "read" else "mine"]


def test_the_body_of_a_static_method_is_known() -> None:
    class Till:
        @tracekit.tool(effect="write", name="mine")
        @staticmethod
        def spend() -> None:
            look()

        raw = staticmethod(vars()["spend"].__func__.__wrapped__.__closure__[0].cell_contents)

    seen.clear()
    Till.raw()
    assert seen == ["mine"]


def test_what_other_decorators_share_is_no_body() -> None:
    def plain() -> None:
        look()

    tool = tracekit.tool(effect="write", name="outer")(twice(tracekit.step(plain)))
    seen.clear()
    twice(lambda: None)()
    assert seen == [None]
    plain()
    assert seen == [None, "outer"]
    assert tool is not plain


def test_a_body_that_is_gone_is_forgotten() -> None:
    gc.collect()
    before = len(bodies._known)
    tool = tracekit.tool(effect="write")(types.FunctionType(sync.__code__.replace(), globals()))
    assert len(bodies._known) == before + 1
    del tool
    gc.collect()
    assert len(bodies._known) == before


AGENT = """
import asyncio, os, socket, subprocess, types
import tracekit

def plain_send():
    socket.create_connection(("127.0.0.1", 9), 1)

def plain_run():
    subprocess.run(["true"])

async def plain_log():
    with open("here", "w") as file:
        file.write("x")

def plain_note():
    with open("/nowhere-at-all", "w") as file:
        file.write("x")

done = []

def plain_count():
    done.append(1)

def copied(function):
    return types.FunctionType(function.__code__, globals())

# Taken before there was a tool.
raw_send, raw_run, raw_log = copied(plain_send), copied(plain_run), copied(plain_log)
raw_note = copied(plain_note)

send = tracekit.tool(effect="write", name="send")(plain_send)
run = tracekit.tool(name="run")(plain_run)
log = tracekit.tool(effect="write", name="log")(plain_log)
note = tracekit.tool(effect="read", name="note")(plain_note)
count = tracekit.tool(effect="write", name="count")(plain_count)

@tracekit.tool(effect="read")
def look():
    return "seen"

@tracekit.agent
def shop(way):
    look()
    if way:
        try:
            done = globals()[way]()
            if way == "raw_log":
                asyncio.run(done)
        except OSError:
            pass
    return f"went on after {globals()['done']}"
"""

KERNEL = pytest.param(
    "kernel",
    marks=pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bodies")
    (made / "bodily.py").write_text(AGENT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made))
        import bodily  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=made / "store")
        for way in ("", "plain_count", "raw_send", "raw_run", "raw_log", "raw_note"):
            with tracekit.run(run_id=f"r{way}"), patch.context() as calm:
                calm.setattr(bodily, way or "look", bodily.look)
                calm.setattr(bodily.asyncio, "run", lambda done: done)
                bodily.shop(way)
        tracekit.configure(store=made / "elsewhere")
    return made


def _replayed(folder: Path, way: str, level: Level) -> ReplayResult:
    recorded = open_store(folder / "store").trajectory(f"r{way}")
    options = ReplayOptions(isolation=level, path=(str(folder),))
    with Replayer("bodily:shop", options) as replayer:
        return replayer.replay(recorded)


@pytest.mark.parametrize("level", ["process", KERNEL])
@pytest.mark.parametrize(
    ("way", "tool", "kind"),
    [
        ("raw_send", "send", "network"),
        ("raw_run", "run", "process"),
        ("raw_log", "log", "file"),
    ],
)
def test_an_attempt_of_a_body_names_its_tool(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, tool: str, kind: str,
    level: Level,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)  # at level kernel a write in here would be let through
    result = _replayed(folder, way, level)
    assert result.verdict.kind == "fail"
    (finding,) = (f for f in result.findings if "around the guard" in f.text)
    assert finding.kind == "write refused"
    assert finding.text.startswith(f"the body of {tool} ran around the guard: {kind} refused: ")
    assert result.incidental == ()


@pytest.mark.parametrize("level", ["process", KERNEL])
def test_a_body_that_does_what_no_wall_hears_is_not_even_begun(folder: Path, level: Level) -> None:
    result = _replayed(folder, "plain_count", level)
    assert (result.exit.result or {})["answer"] == "went on after []"
    (finding,) = result.findings
    text = "the body of count ran around the guard: tool refused: the body, before its first line"
    assert (finding.kind, finding.text.startswith(f"{text} at {folder}/bodily.py:")) == (
        "write refused",
        True,
    )


def one(first: int, /, second: int = 2, *more: int, third: int = 3, **rest: int) -> object:
    return first


async def two(*, only: object) -> object:
    return only


def three() -> Iterator[int]:
    yield 1


async def four(last: int) -> AsyncIterator[int]:
    yield last


def enclosed(inner: int) -> Callable[..., Any]:
    return lambda outer: (inner, outer)


@types.coroutine
def five() -> Iterator[int]:
    yield 1


class Base:
    def spend(self) -> str:
        return "spent"


class Till(Base):
    def spend(self) -> str:
        return super().spend()


SHAPES = [
    (one, lambda: one(1)),
    (two, lambda: asyncio.run(two(only=1))),
    (three, lambda: list(three())),
    (four, lambda: asyncio.run(_read(four(1)))),
    (five, lambda: five().send(None)),
    (INNER := enclosed(1), lambda: INNER(2)),
    (Till.spend, lambda: Till().spend()),
]


@pytest.fixture
def closed() -> Iterator[None]:
    bodies.close_bodies()
    yield
    bodies.open_bodies()


@pytest.mark.parametrize(("function", "call"), SHAPES)
def test_a_closed_body_keeps_its_shape_and_comes_back_as_it_was(
    function: types.FunctionType, call: Callable[[], Any]
) -> None:
    def looked() -> Any:
        tests = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
        return (
            inspect.signature(function), inspect.getsource(function), function.__code__.co_qualname,
            [test(function) for test in tests], function.__code__.co_freevars,
        )  # fmt: skip

    before, code, gives = looked(), function.__code__, call()
    bodies.note_body(function, "mine")
    bodies.close_bodies()
    try:
        assert looked() == before
        with pytest.raises(WriteBlocked, match=r"^mine \(effect write\) is not executed"):
            call()
    finally:
        bodies.open_bodies()
    assert function.__code__ is code
    assert call() == gives


@pytest.mark.usefixtures("closed")
def test_what_is_made_a_tool_while_bodies_are_closed_is_closed_at_once() -> None:
    def plain() -> None:
        raise AssertionError

    tracekit.tool(effect="write", name="mine")(plain)
    with pytest.raises(WriteBlocked):
        plain()


@pytest.mark.usefixtures("closed")
def test_a_function_of_a_library_stays_open_where_another_makes_a_tool_of_it() -> None:
    tracekit.tool(name="mine")(textwrap.dedent)
    assert textwrap.dedent(" x") == "x"


def test_what_the_body_of_a_reading_tool_writes_is_ordinary_code(folder: Path) -> None:
    result = _replayed(folder, "raw_note", "process")
    assert (result.findings, len(result.refused)) == ((), 1)
