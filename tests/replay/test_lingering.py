"""What a planner has begun and not ended when it comes back: waited for, answered, or told."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult
from replay.lingering import Lingering, describe_left
from replay.replayer import Replayer
from tracekit.errors import NotRecorded
from tracekit.store import open_store

MOMENT_S = 0.03
"""A little longer than a planner needs to come back."""
Work = Callable[[], object]
pools: list[ThreadPoolExecutor] = []
tasks: list[asyncio.Task[None]] = []


@tracekit.tool(effect="read")
def find_order(order: str) -> dict[str, Any]:
    return {"order": order, "total": 42}


@tracekit.tool(effect="write")
def refund(order: str, amount: int) -> str:
    return f"refunded {amount}"


def attempt(order: str, amount: int) -> None:
    with suppress(NotRecorded):
        refund(order, amount)


def after_a_moment(work: Work) -> None:
    threading.Event().wait(MOMENT_S)
    work()


def by_timer(work: Work) -> None:
    threading.Timer(MOMENT_S, work).start()


def by_thread(work: Work) -> None:
    threading.Thread(target=after_a_moment, args=(work,)).start()


def by_thread_of_a_thread(work: Work) -> None:
    threading.Thread(target=by_thread, args=(work,)).start()


def by_pool(work: Work) -> None:
    pools.append(ThreadPoolExecutor(1))
    pools[-1].submit(after_a_moment, lambda: None)
    pools[-1].submit(work)


WAYS = [by_timer, by_thread, by_thread_of_a_thread, by_pool]


def desk(way: Callable[[Work], None] | None, amount: int) -> Callable[[str], str]:
    @tracekit.agent(name="desk")
    def agent(order: str) -> str:
        find_order(order)
        if way is not None:
            way(lambda: attempt(order, amount))
        return "refunded"

    return agent


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    tracekit.configure(store=tmp_path / "store")
    before = set(threading.enumerate())
    yield tmp_path / "store"
    for pool in pools:
        pool.shutdown()
    pools.clear()
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join()


def record(store: Path, agent: Callable[[str], str]) -> str:
    beside = Lingering()
    with tracekit.run(run_id="run-1"):
        agent("A-17")
    assert beside.wait() == []
    return "run-1"


def replay(store: Path, run_id: str, planner: object) -> ReplayResult:
    recorded = open_store(store).trajectory(run_id)
    with Replayer(planner, ReplayOptions()) as replayer:
        return replayer.replay(recorded)


@pytest.mark.parametrize("way", WAYS)
def test_a_write_that_comes_after_the_planner_is_seen(
    store: Path, way: Callable[[Work], None]
) -> None:
    run_id = record(store, desk(None, 0))
    result = replay(store, run_id, desk(way, 999))
    assert result.verdict.kind == "fail"
    assert [finding.kind for finding in result.findings] == ["write refused"]


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_writes_after_its_return_does_in_a_replay_what_it_did(
    store: Path, way: Callable[[Work], None]
) -> None:
    run_id = record(store, desk(way, 42))
    result = replay(store, run_id, desk(way, 42))
    assert (result.verdict.kind, result.shares, result.missing) == ("pass", {"exact": 2}, ())
    other = replay(store, run_id, desk(way, 4200))
    assert other.verdict.kind == "fail"


def test_a_child_waits_as_well(store: Path, tmp_path: Path) -> None:
    run_id = record(store, desk(None, 0))
    (tmp_path / "later.py").write_text(
        "import tracekit\n"
        "from tests.replay import test_lingering as kit\n"
        "agent = kit.desk(kit.by_timer, 999)\n",
        encoding="utf-8",
    )
    recorded = open_store(store).trajectory(run_id)
    options = ReplayOptions(isolation="process", path=(str(tmp_path),))
    with Replayer("later:agent", options) as replayer:
        result = replayer.replay(recorded)
    assert [finding.kind for finding in result.findings] == ["write refused"]


async def _later(order: str) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    refund(order, 999)


async def leaves_a_task(order: str) -> str:
    find_order(order)
    tasks.append(asyncio.create_task(_later(order)))
    return "refunded"


async def leaves_a_callback(order: str) -> str:
    find_order(order)
    asyncio.get_running_loop().call_later(9, refund, order, 999)
    return "refunded"


async def leaves_nothing(order: str) -> str:
    find_order(order)
    task = asyncio.create_task(asyncio.sleep(0))
    asyncio.get_running_loop().call_later(9, refund, order, 999).cancel()
    await task
    return "refunded"


@pytest.mark.parametrize(
    ("planner", "left"),
    [
        (leaves_a_task, "task _later"),
        (leaves_a_callback, "callback refund"),
        (leaves_nothing, None),
    ],
)
def test_what_a_loop_had_still_to_do_is_told_and_proves_nothing(
    store: Path, planner: Callable[[str], Coroutine[Any, Any, str]], left: str | None
) -> None:
    run_id = record(store, desk(None, 0))
    result = replay(store, run_id, tracekit.agent(name="desk")(lambda order: planner(order)))
    if left is None:
        assert result.verdict.kind == "pass"
        return
    assert str(result.verdict) == (
        f"inconclusive: threads, tasks or generators were still under way: {left}"
    )


def test_a_daemon_thread_with_code_of_the_planner_is_told(store: Path) -> None:
    over = threading.Event()

    def by_daemon(_: Work) -> None:
        threading.Thread(target=lambda: over.wait(), name="mailer", daemon=True).start()

    run_id = record(store, desk(None, 0))
    result = replay(store, run_id, desk(by_daemon, 0))
    over.set()
    assert result.verdict.kind == "inconclusive"
    assert "still under way: daemon thread mailer" in str(result.verdict)


def test_the_threads_of_libraries_and_idle_pools_hold_nothing_up(store: Path) -> None:
    work: queue.Queue[None] = queue.Queue()

    def by_library(_: Work) -> None:
        threading.Thread(target=work.get, daemon=True).start()
        pools.append(ThreadPoolExecutor(2))
        pools[-1].submit(int).result()

    run_id = record(store, desk(None, 0))
    result = replay(store, run_id, desk(by_library, 0))
    work.put(None)
    assert result.verdict.kind == "pass"


def test_a_thread_that_never_ends_is_waited_for_no_longer_than_is_allowed() -> None:
    over = threading.Event()
    beside = Lingering(patience_s=MOMENT_S)
    threading.Thread(target=over.wait, name="for ever").start()
    left = beside.wait()
    over.set()
    assert left == ["thread for ever"]


def test_many_that_are_left_are_counted() -> None:
    left = [f"task t{number}" for number in range(5)]
    assert describe_left(left) == (
        "threads, tasks or generators were still under way: task t0, task t1, task t2 and 2 more"
    )
