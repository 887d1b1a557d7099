"""A call that was cancelled when it was recorded waits in a replay until it is cancelled again."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path

import anyio
import pytest

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run, stirring
from replay.diff import diff
from replay.matching import Policies
from tracekit.assembly import trajectory_digest

Agent = Callable[[str], Coroutine[None, None, object]]
SOON_S = 0.01


@tracekit.tool(effect="read")
async def slow(word: str) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return word


@tracekit.tool(effect="write")
async def slow_write(word: str) -> str:
    """Never come to an end of it."""
    await asyncio.Event().wait()
    return word


@tracekit.tool(effect="read")
async def quick(word: str) -> str:
    """Answer soon."""
    await asyncio.sleep(0)
    return word


@tracekit.tool(effect="read")
async def broken(word: str) -> str:
    """Fail, a little later."""
    await asyncio.sleep(SOON_S)
    raise ValueError(word)


@tracekit.tool(effect="read")
async def gives_up(word: str) -> str:
    """Wait for something that somebody else has cancelled."""
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    return str(await other)


@tracekit.tool(effect="write")
async def pay(to: str) -> str:
    """Pay somebody."""
    return "paid"


@tracekit.tool(effect="read")
async def words(about: str) -> AsyncGenerator[str, None]:
    """Say two words, and then nothing more."""
    yield "one"
    yield "two"
    await asyncio.Event().wait()


@tracekit.llm
async def think(prompt: str) -> str:
    """Think for ever."""
    await asyncio.Event().wait()
    return prompt


async def _late(waiting: Coroutine[None, None, str], seconds: float = SOON_S) -> str:
    try:
        return await asyncio.wait_for(waiting, seconds)
    except TimeoutError:
        return "late"


@tracekit.agent
async def waits_for(word: str) -> str:
    """Give up a call by ``wait_for``."""
    return await pay(await _late(slow(word)))


@tracekit.agent
async def waits_for_a_write(word: str) -> str:
    """Give up a write."""
    return await pay(await _late(slow_write(word)))


@tracekit.agent
async def waits_for_a_model(word: str) -> str:
    """Give up a request to a model."""
    return await pay(await _late(think(word)))


@tracekit.agent
async def has_a_timeout(word: str) -> str:
    """Give up a call by ``timeout``."""
    said = "late"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SOON_S):
            said = await slow(word)
    return await pay(said)


@tracekit.agent
async def takes_the_first(word: str) -> str:
    """Take what comes first, and cancel the rest."""
    tasks = [asyncio.create_task(slow(word)), asyncio.create_task(quick(word))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return await pay(done.pop().result())


@tracekit.agent
async def cancels(word: str) -> str:
    """Begin a call, do something else, and cancel it."""
    task = asyncio.create_task(slow(word))
    said = await quick(word)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        said = await task
    return await pay(said)


@tracekit.agent
async def groups(word: str) -> str:
    """Have the group cancel what stands beside a failure."""
    said = "both"
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow(word))
            group.create_task(broken(word))
    except* ValueError:
        said = "failed"
    return await pay(said)


@tracekit.agent
async def gathers(word: str) -> str:
    """Give up two calls at a time, and take what they came to."""
    tasks = [asyncio.create_task(slow(word)), asyncio.create_task(_late(slow("other")))]
    asyncio.get_running_loop().call_later(2 * SOON_S, tasks[0].cancel)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return await pay(" ".join(type(one).__name__ for one in found))


@tracekit.agent
async def moves_on(word: str) -> str:
    """Give up a call by a cancel scope of anyio."""
    said = "late"
    with anyio.move_on_after(SOON_S):
        said = await slow(word)
    return await pay(said)


@tracekit.agent
async def scopes(word: str) -> str:
    """Cancel a scope of anyio from within."""
    async with anyio.create_task_group() as group:
        group.start_soon(slow, word)
        await quick(word)
        group.cancel_scope.cancel()
    return await pay("over")


@tracekit.agent
async def reads_words(word: str) -> str:
    """Give up a stream in the middle."""
    heard: list[str] = []

    async def listen() -> str:
        async for one in words(word):
            heard.append(one)
        return "whole"

    return await pay(await _late(listen()) + " ".join(heard))


@tracekit.agent
async def meets_a_cancellation(word: str) -> str:
    """Call a tool that is cancelled by nobody here."""
    said = "gone"
    with contextlib.suppress(asyncio.CancelledError):
        said = await gives_up(word)
    return await pay(said)


AGENTS = [
    waits_for,
    waits_for_a_write,
    waits_for_a_model,
    has_a_timeout,
    takes_the_first,
    cancels,
    groups,
    gathers,
    moves_on,
    scopes,
    reads_words,
    meets_a_cancellation,
]


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Callable[..., ReplayResult]]:
    """Record one agent; what comes back replays another one on that."""

    def record(agent: Agent) -> Callable[..., ReplayResult]:
        tracekit.configure(store=tmp_path / "store")
        with contextlib.suppress(TimeoutError), tracekit.run(run_id="seen"):
            asyncio.run(agent("x"))  # type: ignore[arg-type]  # a coroutine, as all of them
        tracekit.configure(store=tmp_path / "elsewhere")

        def replay(candidate: Agent, **options: object) -> ReplayResult:
            def planner(word: str) -> Coroutine[None, None, object]:
                return candidate(word)  # a closure is replayed here, in no time

            return replay_run("seen", planner=planner, store=tmp_path / "store", **options)  # type: ignore[arg-type]  # what it takes

        return replay

    return record


def _rungs(found: ReplayResult) -> list[tuple[str, str]]:
    return [(step.name, step.answer.rung) for step in found.answered]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_an_unchanged_agent_cancels_its_calls_again(
    agent: Agent, recorded: Callable[..., Callable[..., ReplayResult]]
) -> None:
    found = recorded(agent)(agent)
    assert (found.verdict.kind, found.verdict.reasons, found.findings) == ("pass", (), ())
    assert {rung for _, rung in _rungs(found)} == {"exact"}
    assert found.trajectory is not None
    assert diff(found.recorded, found.trajectory).divergences == ()


@tracekit.agent
async def keeps_waiting(word: str) -> str:
    """Have patience without end."""
    return await pay(await slow(word))


@tracekit.agent
async def keeps_waiting_for_a_write(word: str) -> str:
    """Have patience without end with a write."""
    return await pay(await slow_write(word))


@tracekit.agent
async def keeps_waiting_for_a_model(word: str) -> str:
    """Have patience without end with a model."""
    return await pay(await think(word))


@tracekit.agent
async def waits_longer(word: str) -> str:
    """Give the call a hundred times as long."""
    return await pay(await _late(slow(word), 100 * SOON_S))


@tracekit.agent
async def waits_less(word: str) -> str:
    """Give the call up sooner."""
    return await pay(await _late(slow(word), SOON_S / 10))


@tracekit.agent
async def keeps_reading(word: str) -> str:
    """Have patience without end with a stream."""
    return await pay(" ".join([one async for one in words(word)]))


async def _beat() -> None:
    for _ in itertools.count():
        await asyncio.sleep(SOON_S / 3)


async def _turn() -> None:
    for _ in itertools.count():
        await asyncio.sleep(0)


def _beside(busy: Callable[[], Coroutine[None, None, None]]) -> Agent:
    @tracekit.agent(name="keeps_waiting")
    async def has_company(word: str) -> str:
        task = asyncio.create_task(busy())
        try:
            return await pay(await slow(word))
        finally:
            task.cancel()
            await asyncio.wait([task])

    return has_company


NEVER = [
    (waits_for, keeps_waiting),
    (waits_for, waits_longer),
    (waits_for, _beside(_beat)),
    (waits_for, _beside(_turn)),
    (waits_for_a_write, keeps_waiting_for_a_write),
]


@pytest.mark.parametrize(("before", "now"), NEVER)
def test_who_waits_longer_than_was_recorded_is_told_that_the_record_knows_no_answer(
    before: Agent, now: Agent, recorded: Callable[..., Callable[..., ReplayResult]]
) -> None:
    found = recorded(before)(now)
    step = found.answered[0]
    assert (step.answer.rung, step.answer.tainted) == ("error", True)
    assert "but the recorded call was cancelled before it gave an answer" in step.answer.explanation
    assert found.verdict.kind == "inconclusive"
    assert step.answer.explanation in found.verdict.reasons[0]
    assert found.shares == {"error": 1}
    assert found.trajectory is not None
    (call,) = found.trajectory.calls
    assert (call.rung, call.tainted) == ("error", True)
    assert call.observation.error_type == "NotInRecording"


@pytest.mark.parametrize(
    ("before", "now"),
    [(waits_for_a_model, keeps_waiting_for_a_model), (reads_words, keeps_reading)],
)
def test_a_model_or_a_stream_that_was_given_up_ends_the_replay(
    before: Agent, now: Agent, recorded: Callable[..., Callable[..., ReplayResult]]
) -> None:
    verdict = recorded(before)(now).verdict
    name = "think" if before is waits_for_a_model else "words"
    said = f"{name}: the recorded call was cancelled before it gave an answer"
    assert (verdict.kind, verdict.reasons) == ("inconclusive", (said,))


def test_who_gives_up_sooner_than_was_recorded_knows_as_much(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    found = recorded(waits_for)(waits_less)
    assert found.verdict.kind == "pass"
    assert _rungs(found) == [("slow", "exact"), ("pay", "exact")]


_TASKS: set[asyncio.Task[str]] = set()


@tracekit.agent
async def leaves(word: str) -> str:
    """Begin a call and leave it to itself."""
    task = asyncio.create_task(slow(word))
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    return await pay(await quick(word))


@tracekit.agent
async def forgets(word: str) -> str:
    """Cancel nothing of what did not come first."""
    tasks = [asyncio.create_task(slow_write(word)), asyncio.create_task(quick(word))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    _TASKS.update(rest)
    return await pay(done.pop().result())


@tracekit.agent
async def remembers(word: str) -> str:
    """Cancel what did not come first."""
    tasks = [asyncio.create_task(slow_write(word)), asyncio.create_task(quick(word))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return await pay(done.pop().result())


def test_what_the_recorded_agent_left_behind_may_be_left(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    found = recorded(leaves)(leaves)
    assert (found.verdict.kind, found.verdict.reasons) == ("pass", ())
    assert found.trajectory is not None
    assert diff(found.recorded, found.trajectory).divergences == ()


def test_a_write_that_was_cancelled_and_now_is_left_behind_is_no_pass(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    verdict = recorded(remembers)(forgets).verdict
    left = "threads, tasks or generators were still under way: task slow_write"
    assert (verdict.kind, verdict.reasons) == ("inconclusive", (left,))


@tracekit.agent
async def gives_up_many(word: str) -> str:
    """Give up calls beside others, each after its own time."""
    calls = (_late(slow(str(place)), SOON_S + place / 1_000) for place in range(5))
    answers = (quick(str(place)) for place in range(5))
    return await pay(" ".join(await asyncio.gather(*calls, *answers)))


def test_replays_of_given_up_calls_are_one_trajectory(
    recorded: Callable[..., Callable[..., ReplayResult]], request: pytest.FixtureRequest
) -> None:
    replay = recorded(gives_up_many)
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    digests = set()
    for number in range(1, 21):
        stirring.stir(number)
        found = replay(gives_up_many)
        assert found.verdict.kind == "pass"
        assert found.trajectory is not None
        digests.add(trajectory_digest(found.trajectory))
    assert digests == {trajectory_digest(found.recorded)}


def test_what_becomes_of_a_call_that_nothing_cancels_is_for_the_user_to_say(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    policies = Policies(unmatched={"slow": "stop"})
    found = recorded(waits_for)(keeps_waiting, options=ReplayOptions(policies=policies))
    said = (
        "slow: recorded as decision 1, but the recorded call was cancelled before it gave an answer"
    )
    assert (found.verdict.kind, found.verdict.reasons) == ("inconclusive", (said,))


@pytest.mark.parametrize("now", [waits_for, keeps_waiting, _beside(_turn)])
def test_by_the_real_clock_a_call_waits_as_long(
    now: Agent, recorded: Callable[..., Callable[..., ReplayResult]]
) -> None:
    found = recorded(waits_for)(now, options=ReplayOptions(conditions="real"))
    rungs = [("slow", "exact"), ("pay", "exact")] if now is waits_for else [("slow", "error")]
    assert _rungs(found) == rungs


@tracekit.agent
async def asks_two(word: str) -> list[str]:
    """Ask two that never answer."""
    return list(await asyncio.gather(slow(word), slow_write(word)))


@tracekit.agent
async def asks_another_first(word: str) -> str:
    """Give one call up, and wait for another."""
    await _late(slow("other"))
    return await slow_write(word)


@tracekit.agent
async def stays_with_the_first(word: str) -> str:
    """Have patience with the one that was given up."""
    return await slow("other")


def _cut_off(agent: Agent) -> Agent:
    """Cancel the agent itself, as a server does whose client has gone."""

    def serve(word: str) -> Coroutine[None, None, object]:
        return asyncio.wait_for(agent(word), 15 * SOON_S)  # well after its own timeouts

    return serve


@pytest.mark.parametrize("agent", [keeps_waiting, asks_two, asks_another_first])
def test_an_agent_that_was_cancelled_from_outside_is_again(
    agent: Agent, recorded: Callable[..., Callable[..., ReplayResult]]
) -> None:
    found = recorded(_cut_off(agent))(agent)
    assert (found.verdict.kind, found.verdict.reasons, found.findings) == ("pass", (), ())
    assert {rung for _, rung in _rungs(found)} == {"exact"}
    assert found.trajectory is not None
    assert diff(found.recorded, found.trajectory).divergences == ()


def test_a_run_may_go_on_without_its_agent(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    async def serve(word: str) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(keeps_waiting(word), SOON_S)

    found = recorded(serve)(
        keeps_waiting,
        options=ReplayOptions(
            baseline=lambda word: keeps_waiting(word),
            self_test=False,  # it reads nothing that another answer could change
        ),
    )
    assert (found.recorded.status, found.verdict.kind, found.findings) == ("ok", "pass", ())
    assert found.baseline is not None
    assert found.baseline.sound


def test_only_what_was_under_way_then_is_cancelled_from_outside(
    recorded: Callable[..., Callable[..., ReplayResult]],
) -> None:
    found = recorded(_cut_off(asks_another_first))(stays_with_the_first)
    assert (found.verdict.kind, _rungs(found)) == ("inconclusive", [("slow", "error")])


@pytest.mark.slow  # each makes a process
@pytest.mark.parametrize(
    ("now", "verdict"), [(waits_for_a_write, "pass"), (keeps_waiting_for_a_write, "inconclusive")]
)
def test_in_a_process_of_its_own_a_planner_waits_as_well(
    now: Agent, verdict: str, recorded: Callable[..., Callable[..., ReplayResult]], tmp_path: Path
) -> None:
    recorded(waits_for_a_write)
    found = replay_run("seen", planner=now, store=tmp_path / "store")
    assert found.verdict.kind == verdict
    assert found.level != "guard"
