"""While recording is off, a decorated call is one look at a switch and the call itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit import configuration, guard
from tracekit.errors import WriteBlocked


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "off", True)
    yield
    assert list(tmp_path.iterdir()) == []


def plain(n: int) -> int:
    return n


async def coroutine(n: int) -> int:
    return n


def generator(n: int) -> Iterator[int]:
    yield n


async def async_generator(n: int) -> AsyncIterator[int]:
    yield n


PACKAGE = str(Path(tracekit.__file__).parent)
DECORATORS = {
    "tool": tracekit.tool(effect="write"),
    "agent": tracekit.agent,
    "llm": tracekit.llm(model="m"),
    "retrieval": tracekit.retrieval,
    "step": tracekit.step,
}


async def _read(items: AsyncIterator[int]) -> list[int]:
    return [item async for item in items]


def _driven(waiting: Coroutine[Any, Any, Any]) -> Any:
    """Run what waits for nothing without a loop, at whose doors others stand."""
    try:
        waiting.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


DRIVES: dict[Callable[..., Any], Callable[[Any], Any]] = {
    plain: lambda call: call(3),
    coroutine: lambda call: _driven(call(3)),
    generator: lambda call: list(call(3)),
    async_generator: lambda call: _driven(_read(call(3))),
}


def _entered(drive: Callable[[], Any]) -> tuple[Any, int]:
    """What ``drive`` gives, and how many functions of ours were entered for it."""
    ours = 0

    def watch(frame: Any, event: str, _argument: Any) -> None:
        nonlocal ours
        ours += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(watch)
    try:
        return drive(), ours
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("body", DRIVES, ids=lambda body: body.__name__)
def test_a_call_enters_the_wrapper_and_asks_the_switch(
    body: Callable[..., Any], decorator: str
) -> None:
    decorated = DECORATORS[decorator](body)
    value, entered = _entered(lambda: DRIVES[body](decorated))
    assert value == DRIVES[body](body)
    # The wrapper, resumed for each item, and two switches; an async one asks for its first item.
    assert entered <= {plain: 3, coroutine: 3, generator: 4, async_generator: 5}[body]


def test_what_a_reader_sends_and_throws_reaches_the_body() -> None:
    @tracekit.tool(effect="read")
    async def echo() -> Any:
        heard = None
        while True:
            try:
                heard = yield heard
            except ValueError as error:
                heard = str(error)

    async def talk() -> list[Any]:
        stream = echo()
        said = [await anext(stream), await stream.asend(1), await stream.athrow(ValueError("no"))]
        await stream.aclose()
        return said

    assert asyncio.run(talk()) == [None, 1, "no"]


def test_a_replay_answers_although_recording_is_off() -> None:
    class Refuses:
        def answer(self, question: guard.Question) -> guard.Outcome:
            raise WriteBlocked("deploy", "write", reason="a replay")

    deploy = tracekit.tool(effect="write")(plain)
    with recording(), guard.answering(Refuses()), pytest.raises(WriteBlocked):
        deploy(3)
    with recording(), guard.answering(Refuses()):
        configuration.off = True  # whatever the switch says, the guard is asked first
        with pytest.raises(WriteBlocked):
            deploy(3)
