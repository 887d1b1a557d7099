"""A call that another thread cancelled when it was recorded waits in a replay for that thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

import tracekit
from replay import ReplayResult, replay_run

Planner = Callable[[str], object]
AWHILE_S = 0.08
"""Longer than a loop waits for a thread of which it knows nothing."""
LONG_S = 30.0


@tracekit.tool(effect="read")
async def slow(word: str) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return word


@tracekit.tool(effect="write")
async def pay(to: str) -> str:
    """Pay somebody."""
    return "paid"


def _timed(*, daemon: bool, limit_s: float | None = None) -> Planner:
    @tracekit.agent(name="timed")
    async def timed(word: str) -> str:
        loop, call = asyncio.get_running_loop(), asyncio.ensure_future(slow(word))
        timer = threading.Timer(AWHILE_S, lambda: loop.call_soon_threadsafe(call.cancel))
        timer.daemon = daemon
        timer.start()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(call, limit_s)
        return await pay("thread")

    return timed


@tracekit.agent
def from_outside(word: str) -> str:
    """Have a loop in another thread, and lose patience with it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asked = asyncio.run_coroutine_threadsafe(slow(word), loop)
    with contextlib.suppress(TimeoutError):
        asked.result(timeout=AWHILE_S)
    asked.cancel()
    said = asyncio.run_coroutine_threadsafe(pay("main"), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    return said


@tracekit.agent
async def from_another_loop(word: str) -> str:
    """Be cancelled by a loop that sleeps now and then."""
    here, call = asyncio.get_running_loop(), asyncio.ensure_future(slow(word))

    async def counts() -> None:
        for _ in range(4):
            await asyncio.sleep(AWHILE_S / 4)
        here.call_soon_threadsafe(call.cancel)

    other = threading.Thread(target=lambda: asyncio.run(counts()))
    other.start()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    other.join()
    return await pay("loop")


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[Planner], Callable[[Planner], ReplayResult]]:
    """Record one agent; what comes back replays another one on that."""

    def record(agent: Planner) -> Callable[[Planner], ReplayResult]:
        tracekit.configure(store=tmp_path / "store")
        with tracekit.run(run_id="seen"):
            made = agent("x")
            if isinstance(made, Coroutine):
                asyncio.run(made)
        tracekit.configure(store=tmp_path / "elsewhere")
        return lambda now: replay_run(
            "seen", planner=lambda word: now(word), store=tmp_path / "store"
        )

    return record


@pytest.mark.parametrize(
    "agent",
    [
        _timed(daemon=False),
        _timed(daemon=True),
        _timed(daemon=False, limit_s=LONG_S),
        from_outside,
        from_another_loop,
    ],
    ids=["timer", "daemon timer", "timer before a timeout", "main thread", "other loop"],
)
def test_an_unchanged_agent_whose_calls_are_cancelled_by_a_thread_cancels_them_again(
    agent: Planner, recorded: Callable[[Planner], Callable[[Planner], ReplayResult]]
) -> None:
    found = recorded(agent)(agent)
    assert (found.verdict.kind, found.verdict.reasons, found.findings) == ("pass", (), ())
    assert [step.answer.rung for step in found.answered] == ["exact", "exact"]


@tracekit.agent(name="timed")
async def in_company(word: str) -> str:
    """Have patience without end beside a thread that looks up now and then, and calls."""
    loop, over = asyncio.get_running_loop(), threading.Event()

    def look() -> None:
        while not over.wait(AWHILE_S / 4):
            loop.call_soon_threadsafe(str)

    beside = threading.Thread(target=look)
    beside.start()
    try:
        return await pay(await slow(word))
    finally:
        over.set()
        beside.join()


def test_a_thread_that_cancels_nothing_is_not_waited_for_longer_than_was_recorded(
    recorded: Callable[[Planner], Callable[[Planner], ReplayResult]],
) -> None:
    found = recorded(_timed(daemon=False))(in_company)
    assert found.verdict.kind == "inconclusive"
    assert "cancelled before it gave an answer" in found.verdict.reasons[0]
