"""Whose child a step is: nested agents, tasks, threads, callbacks, runs opened by hand."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit.recorder import current


@tracekit.tool(effect="read")
def look(n: int) -> int:
    return n * 10


def test_nested_agents_tools_and_steps_make_one_tree() -> None:
    @tracekit.agent
    def helper(n: int) -> int:
        return look(n)

    @tracekit.step
    def prepare(n: int) -> int:
        return look(n) + helper(n)

    @tracekit.agent(tags=["t"])
    def boss(n: int) -> int:
        return prepare(n) + look(n)

    with recording() as recorded:
        assert boss(1) == 30
    assert recorded.tree() == [["boss", ["prepare", "look", ["helper", "look"]], "look"]]
    assert [row.event_type for row in recorded.rows()] == [
        "run", "span", "tool_call", "agent", "tool_call", "tool_call",
    ]  # fmt: skip
    line = recorded.run_row()
    assert (line.agent, line.status, line.tags, line.tool_calls) == ("boss", "ok", ("t",), 3)
    assert line.versions == '{"code":"1"}'


async def test_calls_gathered_keep_their_own_observations_and_parents() -> None:
    gate = asyncio.Event()

    @tracekit.tool(name="inner")
    async def inner(n: int) -> int:
        return -n

    @tracekit.tool(name="fetch")
    async def fetch(n: int) -> int:
        if n == 3:
            gate.set()
        await gate.wait()
        await inner(n)
        return n

    @tracekit.agent
    async def work() -> list[int]:
        return await asyncio.gather(*(fetch(n) for n in (1, 2, 3)))

    with recording() as recorded:
        assert await work() == [1, 2, 3]
    rows = recorded.rows("tool_call")
    fetches = {row.span_id: recorded.argument(row)["n"] for row in rows if row.actor == "fetch"}
    assert [recorded.observation(row) for row in rows if row.actor == "fetch"] == [1, 2, 3]
    inners = [row for row in rows if row.actor == "inner"]
    assert len(inners) == 3
    for row in inners:
        assert fetches[row.parent_span_id] == recorded.argument(row)["n"]


async def test_a_task_group_and_an_executor_that_carries_context_are_children() -> None:
    @tracekit.agent
    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(look, 1))
            group.create_task(asyncio.to_thread(look, 2))

    with recording() as recorded:
        await work()
    assert recorded.tree() == [["work", "look", "look"]]


def _in_a_thread(call: Callable[[], Any]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def _in_a_pool(call: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def _in_a_callback(call: Callable[[], Any]) -> None:
    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: (call(), done.set()), context=contextvars.Context())
        await done.wait()

    asyncio.run(main())


@pytest.mark.parametrize("road", [_in_a_thread, _in_a_pool, _in_a_callback])
def test_without_our_context_a_call_belongs_to_the_only_run(
    road: Callable[[Callable[[], Any]], None],
) -> None:
    @tracekit.agent
    def work() -> None:
        road(lambda: look(1))

    with recording() as recorded:
        work()
    assert recorded.tree() == [["work", "look"]]


def test_without_our_context_and_with_two_runs_open_nothing_is_guessed() -> None:
    inside = threading.Barrier(3)
    leave = threading.Event()

    @tracekit.agent
    def work(name: str) -> None:
        inside.wait()
        leave.wait()

    with recording() as recorded:
        agents = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in agents:
            thread.start()
        inside.wait()
        _in_a_thread(lambda: look(1))
        leave.set()
        for thread in agents:
            thread.join()
    assert sorted(map(str, recorded.tree())) == ["look", "work", "work"]


def test_agents_in_threads_of_a_server_are_runs_of_their_own() -> None:
    both = threading.Barrier(2)

    @tracekit.agent
    def serve(n: int) -> int:
        both.wait()
        return look(n)

    with recording() as recorded:
        threads = [threading.Thread(target=serve, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    runs = recorded.rows("run")
    assert len({row.run_id for row in runs}) == len({row.trace_id for row in runs}) == 2
    assert recorded.tree() == [["serve", "look"], ["serve", "look"]]


def test_an_agent_in_a_thread_that_an_agent_started_is_its_sub_agent() -> None:
    @tracekit.agent
    def serve(n: int) -> int:
        if n:
            _in_a_thread(lambda: serve(n - 1))
        return n

    with recording() as recorded:
        serve(1)
    assert recorded.tree() == [["serve", "serve"]]


async def test_an_agent_begun_in_what_a_finished_run_left_behind_is_a_run_of_its_own() -> None:
    @tracekit.agent
    def later() -> int:
        return look(1)

    @tracekit.agent
    async def first() -> asyncio.Task[int]:
        async def wait() -> int:
            await asyncio.sleep(0)
            return later()

        return asyncio.create_task(wait())

    with recording() as recorded:
        await (await first())
    assert [row.actor for row in recorded.rows("run")] == ["first", "later"]
    assert recorded.tree() == ["first", ["later", "look"]]


def test_a_tool_outside_any_run_is_recorded_in_one_of_its_own() -> None:
    @tracekit.tool
    def outer() -> int:
        return look(1)

    with recording() as recorded:
        outer()
    assert recorded.tree() == [["outer", "look"]]
    assert recorded.run_row().status == "ok"
    assert recorded.trajectory().decisions[0].calls[0].tool == "outer"


def test_a_run_opened_by_hand_names_who_and_what() -> None:
    with (
        recording() as recorded,
        tracekit.run(
            name="nightly", task="T-1", request="R-2", tenant="acme", operator="op-7",
            tags=["a", "b"], versions={"prompt": "v3"}, run_id="run.of-mine_1",
        ) as opened,
    ):  # fmt: skip
        assert opened.run_id == "run.of-mine_1"
        look(1)
    row = recorded.row("run")
    assert (row.actor, row.task_id, row.request_id, row.tenant, row.operator) == (
        "nightly", "T-1", "R-2", "acme", "op-7",
    )  # fmt: skip
    line = recorded.run_row()
    assert (line.run_id, line.tags, line.versions) == (
        "run.of-mine_1", ("a", "b"), '{"code":"1","prompt":"v3"}',
    )  # fmt: skip
    assert recorded.tree() == [["nightly", "look"]]


def test_a_run_inside_a_run_names_its_parent() -> None:
    with recording() as recorded, tracekit.run(name="outer"), tracekit.run(name="inner"):
        look(1)
    outer, inner = recorded.rows("run")
    assert inner.trace_id == outer.trace_id
    assert f'"parent_run_id":"{outer.run_id}"' in inner.attributes


def test_a_run_that_fails_says_so_and_raises_the_same_error() -> None:
    error = ValueError("no")
    with recording() as recorded, pytest.raises(ValueError) as caught, tracekit.run():
        raise error
    assert caught.value is error
    assert recorded.run_row().status == "error"


def test_a_run_id_that_could_not_travel_is_replaced_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with recording() as recorded, tracekit.run(run_id="../../etc") as opened:
        pass
    assert opened.run_id == recorded.row("run").run_id == "run-000001"
    assert "A-Za-z0-9._-" in caplog.text


def test_notes_are_folded_into_the_step_under_way() -> None:
    @tracekit.tool(effect="write")
    def refund(amount: int) -> str:
        tracekit.policy("deny", rule="R1", reason="too much")
        tracekit.evidence("doc-1", "doc-2")
        tracekit.evidence("doc-2", "doc-3")
        tracekit.state({"n": 0}, {"n": 1})
        tracekit.state({"n": 1}, {"n": 2})
        return "no"

    with recording() as recorded:
        refund(5)
    row = recorded.row()
    assert (row.policy_decision, row.policy_id, row.policy_reason) == ("deny", "R1", "too much")
    assert row.evidence_ids == ("doc-1", "doc-2", "doc-3")
    first, second = recorded.rows("state")
    assert (row.state_before, row.state_after) == (first.state_before, second.state_after)
    assert recorded.argument(first) == {"n": 0}
    assert recorded.run_row().refusals == 1
    (call,) = recorded.trajectory().calls
    assert call.refused
    assert call.evidence == ("doc-1", "doc-2", "doc-3")


def test_a_note_outside_any_run_is_dropped_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with recording() as recorded:
        tracekit.evidence("doc-1")
    assert recorded.rows() == []
    assert "outside any run" in caplog.text


# --- contexts that are not what they seem ---------------------------------------------------------


def test_a_coroutine_driven_in_two_contexts_is_not_disturbed() -> None:
    @tracekit.tool
    async def wait() -> str:
        await asyncio.sleep(0)
        return "done"

    with recording() as recorded:
        coroutine = wait()
        contextvars.copy_context().run(coroutine.send, None)
        with pytest.raises(StopIteration) as stop:
            contextvars.copy_context().run(coroutine.send, None)
        assert stop.value.value == "done"
        assert current() is None
    assert recorded.row().status == "ok"


def test_a_coroutine_thrown_away_half_way_is_recorded_and_nothing_is_said(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    @tracekit.tool
    async def wait() -> None:
        await asyncio.sleep(0)

    with recording() as recorded:
        coroutine = wait()
        contextvars.copy_context().run(coroutine.send, None)
        del coroutine
        gc.collect()
    assert recorded.row().error_type == "GeneratorExit"
    assert (caplog.records, capsys.readouterr().err) == ([], "")


def test_a_run_held_open_by_a_generator_may_be_closed_elsewhere() -> None:
    def holding() -> Iterator[None]:
        with tracekit.run(name="held"):
            yield

    with recording() as recorded:
        generator = holding()
        contextvars.copy_context().run(next, generator)
        generator.close()  # type: ignore[attr-defined]  # a generator
        assert current() is None
    assert recorded.row("run").ts_end_ns is not None


def test_garbage_collected_in_the_middle_of_a_write_a_generator_ends_its_step(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracekit.journal import Journal
    from tracekit.journal_file import JournalFile
    from tracekit.journal_reading import read_journal

    @tracekit.tool(name="items")
    def items() -> Iterator[int]:
        yield 1
        yield 2

    armed: list[bool] = []
    write = JournalFile.write

    def collecting(file: JournalFile, *said: Any) -> None:
        if armed:
            armed.clear()
            gc.collect()
        write(file, *said)

    monkeypatch.setattr(JournalFile, "write", collecting)
    journal = Journal(tmp_path)
    with recording(journal):
        cycle: list[Any] = [items()]
        cycle.append(cycle)
        next(cycle[0])
        del cycle
        armed.append(True)
        look(1)
    assert not armed
    journal.close()
    (path,) = tmp_path.iterdir()
    content = read_journal(path)
    assert content.damage == []
    assert sorted(f"{fact.fact}" for fact in content.facts) == [
        "tool_call.begun", "tool_call.begun", "tool_call.ended", "tool_call.ended",
    ]  # fmt: skip


def test_recursion_to_the_limit_ends_as_it_would_without_us() -> None:
    @tracekit.tool
    def down(n: int) -> int:
        return down(n + 1)

    limit = sys.getrecursionlimit()
    with recording() as recorded, pytest.raises(RecursionError):
        down(0)
    assert sys.getrecursionlimit() == limit
    assert current() is None
    assert len(recorded.rows("tool_call")) > 100
