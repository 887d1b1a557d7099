"""What a reader sends or throws into a generator tool belongs to the call, and is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import suppress
from pathlib import Path

import pytest

import tracekit
from replay import diff_runs, replay_run
from replay.diff.content import identical
from tracekit.assembly import trajectory_digest
from tracekit.store import open_store

Agent = Callable[[str], Coroutine[None, None, object]]


@tracekit.tool(effect="write")
def session(account: str) -> Generator[str, int | None, None]:
    """Pay what is sent in."""
    said = "ready"
    while True:
        try:
            amount = yield said
        except ValueError as error:
            said = f"refused {error}"
        else:
            said = f"paid {amount}"


@tracekit.tool(effect="write")
async def asession(account: str) -> AsyncGenerator[str, int | None]:
    """Pay what is sent in."""
    said = "ready"
    while True:
        try:
            amount = yield said
        except ValueError as error:
            said = f"refused {error}"
        else:
            said = f"paid {amount}"


def _sync(*given: object) -> Agent:
    @tracekit.agent
    async def agent(word: str) -> list[str]:
        paying = session("bob")
        said = [next(paying)]
        for one in given:
            said.append(paying.throw(one) if isinstance(one, ValueError) else paying.send(one))  # type: ignore[arg-type]  # numbers and None
        paying.close()
        return said

    return agent


def _async(*given: object) -> Agent:
    @tracekit.agent
    async def agent(word: str) -> list[str]:
        paying = asession("bob")
        said = [await anext(paying)]
        for one in given:
            if isinstance(one, ValueError):
                said.append(await paying.athrow(one))
            else:
                said.append(await paying.asend(one))  # type: ignore[arg-type]  # numbers and None
        await paying.aclose()
        return said

    return agent


@pytest.mark.parametrize("made", [_sync, _async])
@pytest.mark.parametrize(
    ("recorded", "asked", "verdict"),
    [
        ((10, 20), (10, 20), "pass"),
        ((10, 20), (10, 999), "fail"),
        ((10, 20), (20, 10), "fail"),
        ((10, 20), (10, None), "fail"),
        ((10, 20), (10,), "inconclusive"),
        ((None, None), (None, 10), "inconclusive"),
        ((None, None), (None, None), "pass"),
        ((ValueError("x"),), (ValueError("x"),), "pass"),
        ((ValueError("x"),), (ValueError("y"),), "inconclusive"),
        ((ValueError("x"),), (10,), "fail"),
    ],
)
def test_only_what_was_sent_in_passes(
    made: Callable[..., Agent],
    recorded: tuple[object, ...],
    asked: tuple[object, ...],
    verdict: str,
    tmp_path: Path,
) -> None:
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="seen"):
        asyncio.run(made(*recorded)("x"))
    tracekit.configure(store=tmp_path / "elsewhere")

    found = replay_run("seen", planner=made(*asked), store=tmp_path / "store")

    assert found.verdict.kind == verdict, found.verdict.reasons
    if verdict != "pass":
        assert "behind item" in found.verdict.reasons[0]


@pytest.mark.parametrize("made", [_sync, _async])
def test_two_runs_that_sent_other_values_differ_in_what_they_asked(
    made: Callable[..., Agent], tmp_path: Path
) -> None:
    tracekit.configure(store=tmp_path / "store")
    for run_id, amount in (("one", 10), ("same", 10), ("other", 999)):
        with tracekit.run(run_id=run_id):
            asyncio.run(made(amount)("x"))
    store = tmp_path / "store"

    assert diff_runs("one", "same", store).divergences == ()
    assert "/(sent in)/0" in str(diff_runs("one", "other", store).divergences)


def _quietly(*given: int) -> Agent:
    @tracekit.tool(name="session", effect="write")
    def quiet(account: str) -> Generator[str, int | None, None]:
        """Pay what is sent in, and say nothing of it."""
        while True:
            yield "ok"

    @tracekit.agent
    async def agent(word: str) -> str:
        paying = quiet("bob")
        next(paying)
        for one in given:
            paying.send(one)
        paying.close()
        return "done"

    return agent


def test_what_was_sent_in_is_part_of_what_a_run_is_known_by(
    tmp_path: Path,
) -> None:
    """Its items are equal: only what was sent in tells the runs apart."""
    tracekit.configure(store=tmp_path / "store")
    for run_id, given in (("one", (10, 20)), ("same", (10, 20)), ("other", (10, 999))):
        with tracekit.run(run_id=run_id):
            asyncio.run(_quietly(*given)("x"))
    store = open_store(tmp_path / "store")
    one, same, other = (store.trajectory(run_id) for run_id in ("one", "same", "other"))

    assert trajectory_digest(one) == trajectory_digest(same)
    assert trajectory_digest(one) != trajectory_digest(other)
    assert identical(one, same)
    assert not identical(one, other)


def _recorded(agent: Agent, path: Path) -> Path:
    tracekit.configure(store=path / "store")
    with tracekit.run(run_id="seen"), suppress(ValueError):
        asyncio.run(agent("x"))
    tracekit.configure(store=path / "elsewhere")
    return path / "store"


def test_another_value_sent_into_a_write_is_a_write_refused_told_in_texts(tmp_path: Path) -> None:
    store = _recorded(_sync(10, 20), tmp_path)

    found = replay_run("seen", planner=_sync(10, 999), store=store)

    (finding,) = found.findings
    assert finding.kind == "write refused"
    assert "session: behind item 2 something else was sent in" in finding.text
    assert "recorded 20, asked 999" in finding.text


def test_another_value_sent_into_a_read_is_no_finding(tmp_path: Path) -> None:
    def asking(*given: int) -> Agent:
        @tracekit.tool(effect="read")
        def look(account: str) -> Generator[str, int | None, None]:
            while True:
                yield "ok"

        @tracekit.agent
        async def agent(word: str) -> str:
            looking = look("bob")
            next(looking)
            for one in given:
                looking.send(one)
            looking.close()
            return "done"

        return agent

    store = _recorded(asking(10), tmp_path)

    found = replay_run("seen", planner=asking(999), store=store)

    assert (found.verdict.kind, found.findings) == ("inconclusive", ())


@pytest.mark.parametrize("holds", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "raises"])
def test_a_reader_that_never_sends_what_was_recorded_is_told_at_the_end(
    holds: bool, fails: bool, tmp_path: Path
) -> None:
    """The recorded one sent 10 and ended in the same way."""
    kept: list[object] = []

    @tracekit.agent
    async def sending(word: str) -> list[str]:
        paying = session("bob")
        said = [next(paying), paying.send(10)]
        paying.close()
        if fails:
            raise ValueError("no")
        return said

    @tracekit.agent
    async def keeping(word: str) -> list[str]:
        paying = session("bob")
        if holds:
            kept.append(paying)
        said = [next(paying)]
        if fails:
            raise ValueError("no")
        return said

    store = _recorded(sending, tmp_path)

    found = replay_run("seen", planner=keeping, store=store)

    assert found.verdict.kind == "inconclusive"
    assert "behind item 1" in found.verdict.reasons[0]
    assert "recorded 10" in found.verdict.reasons[0]
