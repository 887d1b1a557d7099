"""Calls that agent code has under way at one time are replayed in the order they were begun in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path

import pytest

import tracekit
from replay import ReplayResult, replay_run
from replay.diff import diff


@tracekit.tool(effect="read")
async def look(number: int) -> int:
    """Look; the first that is asked comes back last."""
    for _ in range(3 - number):
        await asyncio.sleep(0)
    return number


@tracekit.tool(effect="write")
async def book(number: int) -> int:
    """Book something."""
    await asyncio.sleep(0)
    return number


@tracekit.tool(effect="read")
def ask(word: str) -> Generator[str, str, str]:
    """Talk with whoever asks."""
    said = yield f"{word}?"
    return (yield f"{said}!")


@tracekit.agent
async def pipeline(word: str) -> list[int]:
    """Book whatever is looked at, all at one time."""

    async def one(number: int) -> int:
        return await book(await look(number))

    return list(await asyncio.gather(*(one(number) for number in range(3))))


@tracekit.agent
async def together(word: str) -> list[int]:
    """Book three at one time."""
    return list(await asyncio.gather(*(book(number) for number in range(3))))


@tracekit.agent
async def talks(word: str) -> list[str]:
    """Answer what it is asked."""
    talk = ask("who")
    return [next(talk), talk.send("me")]


@pytest.fixture(params=[False, True], ids=["alone", "beside a baseline"])
def replayed(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., ReplayResult]:
    def record_and_replay(agent: Callable[[str], Coroutine[None, None, object]]) -> ReplayResult:
        tracekit.configure(store=tmp_path / "store")
        with tracekit.run(run_id="seen"):
            asyncio.run(agent("x"))
        tracekit.configure(store=tmp_path / "elsewhere")

        def unchanged(word: str) -> Coroutine[None, None, object]:
            return agent(word)  # a closure is replayed here, in no time

        baseline = unchanged if request.param else None
        return replay_run("seen", planner=unchanged, store=tmp_path / "store", baseline=baseline)

    return record_and_replay


@pytest.mark.parametrize("agent", [together, talks])
def test_an_unchanged_agent_does_the_same(
    agent: Callable[[str], Coroutine[None, None, object]],
    replayed: Callable[..., ReplayResult],
) -> None:
    found = replayed(agent)
    assert (found.verdict.kind, found.findings) == ("pass", ())
    assert found.trajectory is not None
    assert diff(found.recorded, found.trajectory).divergences == ()


def test_what_was_begun_at_one_time_is_asked_before_what_follows_from_it(
    replayed: Callable[..., ReplayResult],
) -> None:
    found = replayed(pipeline)
    assert found.trajectory is not None
    asked = [call.tool for call in found.trajectory.calls]
    assert asked == ["look"] * 3 + ["book"] * 3
    assert {answered.answer.rung for answered in found.answered} == {"exact"}
