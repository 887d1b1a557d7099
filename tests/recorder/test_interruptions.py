"""What a signal handler raises goes to the program, wherever in the recorder it comes up."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import json
import pkgutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit.configuration import recording_to
from tracekit.interruption import pass_on
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.rows import rows_from_facts
from tracekit.sink import MemorySink


class SoftLimit(Exception):
    """A time limit, as workers set them."""


def _over(_number: int, _frame: object) -> None:
    raise SoftLimit


class Handler:
    def __call__(self, _number: int, _frame: object) -> None:
        raise SoftLimit

    def method(self, _number: int, _frame: object) -> None:
        raise SoftLimit


@pytest.fixture(params=["function", "object", "method", "partial"])
def limit(request: pytest.FixtureRequest) -> Iterator[None]:
    handlers = {
        "function": _over,
        "object": Handler(),
        "method": Handler().method,
        "partial": functools.partial(_over),
    }
    before = signal.signal(signal.SIGUSR1, handlers[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


@tracekit.tool(effect="read")
def look(given: Any) -> dict[str, str]:
    return {"state": "running"}


PLACES = [
    "tracekit.prepared.keep_plain",
    "tracekit.canonical.plain.packb",
    "tracekit.redact.redactor.Redactor.finds_nothing",
    "tracekit.keeping.encode",
    "tracekit.sink.MemorySink.write",
    "tracekit.contract.bind",
    "tracekit.conditions.now_ns",
]


def _interrupt(patched: pytest.MonkeyPatch, place: str, *, after: bool, turn: int) -> None:
    """Let the signal come in the middle of ``place``, before or after its work."""
    module, _, name = place.rpartition(".")
    owner: Any = pkgutil.resolve_name(module)
    original = getattr(owner, name)
    turns = iter(range(1_000))

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        now = next(turns) == turn
        if now and not after:
            signal.raise_signal(signal.SIGUSR1)
        value = original(*args, **kwargs)
        if now and after:
            signal.raise_signal(signal.SIGUSR1)
        return value

    patched.setattr(owner, name, interrupted)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("value", ["plain", (1, "no JSON")], ids=["plain", "other"])
def test_a_time_limit_reaches_the_program_and_leaves_no_step_open(
    place: str, after: bool, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recording() as recorded, tracekit.run():
        came = 0
        for turn in range(4):
            with monkeypatch.context() as patched:
                _interrupt(patched, place, after=after, turn=turn)
                try:
                    look(value)
                except SoftLimit:
                    came += 1
        asked = look("once more")
    assert asked == {"state": "running"}
    assert came > 0 or place in ("tracekit.contract.bind", "tracekit.keeping.encode")
    assert recorded.recorder.lost == 0
    rows = rows_from_facts(recorded.sink.facts)
    assert [row.actor for row in rows if row.ts_end_ns is None] == []


def test_a_fault_of_a_rule_is_no_interruption_and_a_time_limit_in_it_is() -> None:
    calls: list[str] = []

    def rule(text: str) -> str:
        calls.append(text)
        if "limit" in text:
            signal.raise_signal(signal.SIGUSR1)
        if text == "a text":
            raise SoftLimit  # the rule's own fault
        return text

    before = signal.signal(signal.SIGUSR1, _over)
    try:
        own = Recorder(MemorySink(), Redactor(Rules.from_user([rule]), KeyedTagger(b"k" * 20)))
        with recording_to(own), tracekit.run():
            assert look("a text")
            with pytest.raises(SoftLimit):
                look("the limit comes")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls


def test_an_error_that_no_handler_raised_is_not_passed_on() -> None:
    try:
        raise SoftLimit
    except SoftLimit as error:
        pass_on(error)


# --- what was handed out and never begun ----------------------------------------------------------


def _generator() -> Iterator[int]:
    yield 1


async def _coroutine() -> int:
    return 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


async def _cancelled(call: Callable[[], Any]) -> None:
    task = asyncio.create_task(call())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


HANDED_OUT: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "a generator dropped": (_generator, lambda call: call() and None),
    "a generator closed": (_generator, lambda call: call().close()),
    "a coroutine closed": (_coroutine, lambda call: call().close()),
    "a coroutine thrown into": (_coroutine, lambda call: _thrown(call())),
    "a task cancelled": (_coroutine, lambda call: asyncio.run(_cancelled(call))),
    "an async generator dropped": (_async_generator, lambda call: call() and None),
}


def _thrown(handed_out: Any) -> None:
    with pytest.raises(KeyError):
        handed_out.throw(KeyError())


@pytest.mark.parametrize("how", HANDED_OUT)
def test_the_step_of_what_nobody_began_to_read_is_over(how: str) -> None:
    inner, leave = HANDED_OUT[how]
    hidden = tracekit.tool(effect="read", name="hidden")(lambda: inner())
    with recording() as recorded, tracekit.run():
        leave(hidden)
        gc.collect()
    row = recorded.row()
    assert row.ts_end_ns is not None
    assert json.loads(row.attributes or "") == {"stream": True, "partial": True}


# --- classes that are hostile to be looked at -----------------------------------------------------


class Unhashable(type):
    def __eq__(cls, _other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]  # that is the point


class Odd(metaclass=Unhashable):
    pass


class Nameless(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override]  # hostile
        raise RuntimeError("no module")


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)


class Unnamed(Exception, metaclass=Nameless):
    pass


class Lies(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, _other: Any) -> None:
        raise RuntimeError("no class")


def test_a_result_of_a_class_that_cannot_be_compared_comes_back() -> None:
    odd = Odd()
    give = tracekit.tool(effect="read", name="give")(lambda: odd)
    with recording() as recorded, tracekit.run():
        assert give() is odd
    assert recorded.row().status == "ok"


@pytest.mark.parametrize("kind", [Exits, Unnamed, Lies])
def test_an_error_that_is_hostile_to_be_read_reaches_the_agent_itself(
    kind: type[Exception],
) -> None:
    error = kind()

    def raises() -> None:
        raise error

    decorated = tracekit.tool(effect="read", name="bad")(raises)
    with recording() as recorded, tracekit.run():
        try:
            decorated()
        except BaseException as caught:  # noqa: BLE001  # that it is this one is the question
            found = caught
    assert found is error
    assert recorded.row().status == "error"


# --- wherever it comes up -------------------------------------------------------------------------


def _interrupted_at(turn: int, call: Callable[[], object], kind: type[BaseException]) -> str | None:
    """Call with a handler that raises at one of the steps; where, if that was not told."""
    place = None
    steps = itertools.count()

    def over(_number: int, _frame: object) -> None:
        raise kind

    def step(frame: FrameType, event: str, said: object) -> None:
        nonlocal place
        if next(steps) == turn:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} {event} {said!r:.80}"
            signal.raise_signal(signal.SIGUSR1)

    handler, profile = signal.signal(signal.SIGUSR1, over), sys.getprofile()
    gc.disable()  # what finalisers do is no step of ours
    try:
        try:
            sys.setprofile(step)
            call()
        finally:
            sys.setprofile(profile)
    except kind:
        return ""
    finally:
        gc.enable()
        signal.signal(signal.SIGUSR1, handler)
    return place


VALUES: dict[str, Any] = {
    "plain": {"a": 1},
    "a tuple": (1, "no JSON"),
    "a date": {"at": date(2026, 1, 2)},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", [SoftLimit, TimeoutError])
def test_a_time_limit_is_told_at_whatever_step_of_ours_it_comes_up(
    name: str, kind: type[BaseException], tmp_path: Path
) -> None:
    value = VALUES[name]
    given = tracekit.tool(effect="read", name="give")(lambda it: it)
    several = tracekit.tool(effect="read", name="several")(_one_by_one)
    own = Recorder(Journal(tmp_path / "journal"), Redactor(Rules(), KeyedTagger(b"k" * 20)))
    with recording_to(own), tracekit.run():
        for call in (lambda: given(value), lambda: [*several(value)]):
            call()
            call()
            for turn in itertools.count(0, STRIDE):
                untold = _interrupted_at(turn, call, kind)
                assert not untold, untold
                if untold is None:
                    break
            assert turn > 50, turn
    own.sink.close()
    (path,) = (tmp_path / "journal").iterdir()
    content = read_journal(path)
    assert content.damage == []
    assert own.lost == 0


def _one_by_one(value: Any) -> Iterator[Any]:
    yield value
    yield (value,)


def _answers(messages: Any) -> Any:
    return messages


async def _waits(it: Any) -> Any:
    return it


def _awaited(coroutine: Any) -> Any:
    with contextlib.suppress(StopIteration):
        coroutine.send(None)


KINDS_OF_CALLS: dict[str, Callable[[Any], object]] = {
    "tool": tracekit.tool(effect="read", name="tool")(_answers),
    "keyed": tracekit.tool(idempotency_key=lambda given: "k", name="keyed")(_answers),
    "model": tracekit.llm(name="model")(_answers),
    "step": tracekit.step(name="step")(_answers),
    "agent": tracekit.agent(name="agent")(_answers),
}
_reading = tracekit.tool(effect="read", name="reading")(_one_by_one)
_waiting = tracekit.tool(effect="read", name="waiting")(_waits)
KINDS_OF_CALLS["generator"] = lambda value: [*_reading(value)]
KINDS_OF_CALLS["coroutine"] = lambda value: _awaited(_waiting(value))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # it was interrupted
@pytest.mark.parametrize("name", ["plain", "a date"])
@pytest.mark.parametrize("kind", KINDS_OF_CALLS)
def test_a_time_limit_leaves_no_end_without_its_begin_and_hardly_a_begin_without_end(
    kind: str, name: str
) -> None:
    call, value = KINDS_OF_CALLS[kind], VALUES[name]
    tried = 0
    with recording() as recorded, tracekit.run():
        call(value)
        call(value)
        while _interrupted_at(7 * tried, lambda: call(value), SoftLimit) is not None:
            tried += 1
    rows = recorded.rows()
    assert tried > 5
    assert [row.actor for row in rows if row.ts_start_ns is None] == []
    # What stays open was interrupted as one function of ours handed over to the next.
    assert sum(row.ts_end_ns is None for row in rows) <= max(2, tried // 6)


STRIDE = 11
"""Of the steps of a call every eleventh is tried."""
