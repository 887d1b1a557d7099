"""Bodies of write tools are known on the stack, whatever stands between decorator and function."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult
from replay.isolation import Level, kernel_available
from replay.replayer import Replayer
from tracekit.bodies import tool_on_stack
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
    from tracekit import bodies

    gc.collect()
    before = len(bodies._known)
    tool = tracekit.tool(effect="write")(types.FunctionType(sync.__code__.replace(), globals()))
    assert len(bodies._known) == before + 1
    del tool
    gc.collect()
    assert len(bodies._known) == before


AGENT = """
import asyncio, os, socket, subprocess
import tracekit

def raw_send():
    socket.create_connection(("127.0.0.1", 9), 1)

def raw_run():
    subprocess.run(["true"])

async def raw_log():
    with open("here", "w") as file:
        file.write("x")

def raw_note():
    with open("/nowhere-at-all", "w") as file:
        file.write("x")

send = tracekit.tool(effect="write", name="send")(raw_send)
run = tracekit.tool(name="run")(raw_run)
log = tracekit.tool(effect="write", name="log")(raw_log)
note = tracekit.tool(effect="read", name="note")(raw_note)

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
    return "went on"
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
        for way in ("", "raw_send", "raw_run", "raw_log", "raw_note"):
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


def test_what_the_body_of_a_reading_tool_writes_is_ordinary_code(folder: Path) -> None:
    result = _replayed(folder, "raw_note", "process")
    assert (result.findings, len(result.refused)) == ((), 1)
