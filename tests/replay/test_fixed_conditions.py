"""Clock, ids, chance and order of a planner that takes them from the standard library."""

from __future__ import annotations

import asyncio
import datetime
import json
import random
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import restless
from replay import ReplayOptions, ReplayResult, replay_run
from replay.replayer import Replayer
from tracekit.assembly import trajectory_digest
from tracekit.store import open_store

RUN = "restless-run"
AGENTS = "fixtures.agents.restless"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of the restless agent, of which nothing can be found again."""
    folder = tmp_path_factory.mktemp("restless")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        restless.restless("again?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def replay(store: Path, planner: Any, **options: Any) -> ReplayResult:
    return replay_run(RUN, planner=planner, store=store, options=ReplayOptions(**options))


def answer(result: ReplayResult) -> Any:
    assert result.trajectory is not None
    assert result.exit.kind == "done", result.exit.detail
    return result.trajectory.answer.value


def noted(result: ReplayResult) -> dict[str, Any]:
    """What the planner told its tools."""
    told = [step.arguments for step in result.answered if step.name == "note"]
    return {call["what"]: call["value"] for call in told if isinstance(call, dict)}


def digests(*results: ReplayResult) -> set[str]:
    return {trajectory_digest(r.trajectory) for r in results if r.trajectory is not None}


@pytest.mark.parametrize("isolation", ["guard", "process", None])
def test_a_planner_that_asks_the_standard_library_replays_to_one_trajectory(
    store: Path, isolation: Any
) -> None:
    first, second = (replay(store, f"{AGENTS}:restless", isolation=isolation) for _ in range(2))

    assert noted(first) == noted(second)
    assert set(noted(first)) == {
        "question", "at import", "clock", "calendar", "ids", "chance", "order", "arrays", "tasks",
    }  # fmt: skip
    assert len(digests(first, second)) == 1


def test_the_clock_begins_where_the_record_began(store: Path) -> None:
    result = replay(store, f"{AGENTS}:restless", isolation="guard")

    began = (result.recorded.ts_start_ns or 0) / 1e9
    assert noted(result)["clock"][0] == pytest.approx(began, abs=1)
    assert noted(result)["at import"][0] < began
    second = str(datetime.datetime.fromtimestamp(began, datetime.UTC))[:19]
    assert noted(result)["calendar"][1][:19] == second


def test_a_sleep_moves_the_clock_and_costs_no_time(store: Path) -> None:
    before = time.monotonic()
    result = replay(store, f"{AGENTS}:sleepy", isolation="guard")

    assert answer(result) == [3600, 3600, "soon", "later", "late", "timed out"]
    assert time.monotonic() - before < 60


def test_what_waits_for_threads_still_waits_for_them(store: Path) -> None:
    result = replay(store, f"{AGENTS}:waits_for_threads", isolation="guard")

    assert answer(result) == ["from a thread", "nothing more", "from an executor", "deadline"]


def test_in_this_process_it_is_the_same_and_afterwards_all_is_as_it_was(store: Path) -> None:
    random.seed(5)
    state = random.getstate()

    def closure(question: str) -> list[Any]:
        now = str(datetime.datetime.now())  # noqa: DTZ005  # as planners do
        chance = [str(uuid.uuid4()), random.random(), random.Random().random()]
        return [time.time(), now, *chance, asyncio.run(_slept())]

    first, second = answer(replay(store, closure)), answer(replay(store, closure))

    assert first == second
    assert random.getstate() == state
    assert type(datetime.datetime.now).__name__ == "builtin_function_or_method"
    assert uuid.uuid4() != uuid.uuid4()
    assert abs(time.time() - datetime.datetime.now(datetime.UTC).timestamp()) < 5
    assert {f.__module__ for f in (time.time, time.sleep, random.Random.seed)} == {"time", "random"}


async def _slept() -> float:
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(1000)
    return round(loop.time() - before)


def test_other_threads_of_this_process_keep_the_real_clock(store: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.time).result()  # its thread is there before the replay

        def closure(question: str) -> list[float]:
            return [time.time(), pool.submit(_clock).result()]

        made, real = answer(replay(store, closure, isolation="guard"))
    assert abs(real - time.time()) < 60
    assert made != pytest.approx(real, abs=1e-7)


def _clock() -> float:
    return time.time()


@pytest.mark.parametrize("times", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_what_is_asked_at_once_in_any_order_is_one_trajectory(tmp_path: Path, times: int) -> None:
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id=RUN):
        restless.crowd("in any order?")
    tracekit.configure(store=tmp_path / "elsewhere")
    recorded = open_store(tmp_path / "store").trajectory(RUN)

    options = ReplayOptions(isolation="guard", conditions="real")
    with Replayer(f"{AGENTS}:crowd", options) as replayer:
        results = [replayer.replay(recorded) for _ in range(times)]

    orders = {str([step.arguments for step in r.answered]) for r in results}
    assert len(orders) > 1
    assert digests(*results) == {trajectory_digest(recorded)}
    assert {r.verdict.kind for r in results} == {"pass"}


def test_conditions_may_be_left_as_the_machine_has_them(store: Path) -> None:
    made = [
        noted(replay(store, f"{AGENTS}:restless", isolation="guard", conditions="real"))
        for _ in range(2)
    ]

    assert made[0]["ids"] != made[1]["ids"]
    assert json.dumps(made[0]["order"][0]) == json.dumps(made[1]["order"][0])
