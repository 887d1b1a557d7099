"""What a reader sends or throws into a generator tool belongs to the call, and is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import tracekit
from replay import diff_runs, replay_run
from replay.diff.content import identical
from tracekit.assembly import trajectory_digest
from tracekit.canonical import Stream
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
    assert "still under way" not in found.verdict.reasons[0]


@tracekit.tool(effect="write")
def transfer(account: str) -> Generator[str]:
    """Pay in three steps, undone by an error that is thrown in; it fails by itself in the end."""
    done = 0
    for done in range(3):
        try:
            yield f"step {done}"
        except KeyError as error:
            yield f"undone {done}"
            raise error from None
    raise ValueError("x")


@tracekit.tool(effect="write")
async def atransfer(account: str) -> AsyncGenerator[str]:
    """Pay in three steps, undone by an error that is thrown in; it fails by itself in the end."""
    for done in range(3):
        try:
            yield f"step {done}"
        except KeyError as error:
            yield f"undone {done}"
            raise error from None
    raise ValueError("x")


def _throwing(steps: int, error: Exception | None) -> Agent:
    @tracekit.agent
    async def agent(word: str) -> list[str]:
        paying = transfer("bob")
        said = [next(paying) for _ in range(steps)]
        try:
            if error is not None:
                said.append(paying.throw(error))
            said += paying
        except (ValueError, KeyError) as met:
            said.append(repr(met))
        return said

    return agent


def _athrowing(steps: int, error: Exception | None) -> Agent:
    @tracekit.agent
    async def agent(word: str) -> list[str]:
        paying = atransfer("bob")
        said = [await anext(paying) for _ in range(steps)]
        try:
            if error is not None:
                said.append(await paying.athrow(error))
            said += [one async for one in paying]
        except (ValueError, KeyError) as met:
            said.append(repr(met))
        return said

    return agent


@pytest.mark.parametrize("made", [_throwing, _athrowing])
@pytest.mark.parametrize(
    ("recorded", "asked", "verdict"),
    [
        ((2, ValueError("x")), (2, ValueError("x")), "pass"),
        ((2, KeyError("x")), (2, KeyError("x")), "pass"),
        ((2, ValueError("x")), (1, ValueError("x")), "fail"),
        ((2, KeyError("x")), (1, KeyError("x")), "fail"),
        ((2, ValueError("x")), (2, None), "fail"),
        ((3, None), (3, None), "pass"),
        ((3, None), (1, ValueError("x")), "inconclusive"),
    ],
    ids=["through", "raised again", "early", "again early", "not thrown", "itself", "itself early"],
)
def test_an_error_thrown_in_is_what_was_sent_and_then_what_comes_out(
    made: Callable[..., Agent],
    recorded: tuple[object, ...],
    asked: tuple[object, ...],
    verdict: str,
    tmp_path: Path,
) -> None:
    store = _recorded(made(*recorded), tmp_path)

    found = replay_run("seen", planner=made(*asked), store=store)

    assert found.verdict.kind == verdict, found.verdict.reasons


def test_an_error_in_the_body_of_a_context_that_a_tool_opens_replays(tmp_path: Path) -> None:
    @contextmanager
    @tracekit.tool(effect="write")
    def transaction(account: str) -> Generator[str]:
        yield "open"

    @tracekit.agent
    async def agent(word: str) -> str:
        try:
            with transaction("bob"):
                raise ValueError("x")
        except ValueError:
            return "rolled back"

    store = _recorded(agent, tmp_path)

    assert replay_run("seen", planner=agent, store=store).verdict.kind == "pass"


def test_what_cannot_be_taken_as_it_is_sent_never_reaches_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(value: object) -> None:
        raise OSError("cannot be taken")

    agent = _sync(10)
    with monkeypatch.context() as patch:
        patch.setattr("tracekit.steps.encode_sent", broken)
        store = _recorded(agent, tmp_path)

    found = replay_run("seen", planner=agent, store=store)

    assert found.verdict.kind == "inconclusive"
    assert "behind item 1" in found.verdict.reasons[0]


def test_what_a_reader_has_not_sent_is_found_by_its_place() -> None:
    entries = [{"behind": place, "value": place} for place in (1, 2, 5)]

    assert Stream(["a"] * 5, "over", entries).unsent == {e["behind"]: e for e in entries}


def test_a_reader_left_over_from_one_replay_does_not_end_the_next(tmp_path: Path) -> None:
    kept: list[Generator[str, int | None, None]] = []

    @tracekit.agent
    async def keeping(word: str) -> str:
        kept.append(session("bob"))
        return next(kept[0])

    @tracekit.agent
    async def closing(word: str) -> list[str]:
        if kept:
            kept.pop().close()
        paying = session("eve")
        said = [next(paying)]
        paying.close()
        return said

    store = _recorded(_sync(10), tmp_path / "one")
    assert replay_run("seen", planner=keeping, store=store).verdict.kind != "pass"
    (left,) = kept
    kept.clear()
    store = _recorded(closing, tmp_path / "two")
    kept.append(left)

    found = replay_run("seen", planner=closing, store=store)

    assert (found.verdict.kind, kept) == ("pass", [])
