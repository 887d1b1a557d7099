"""Rows to decisions: who asked for which call, what was side by side, what covers what."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import tracekit
from tests.recorder.record_kit import Recorded, recording
from tracekit import conditions
from tracekit.assembly import build, trajectory_digest
from tracekit.order import in_order
from tracekit.trajectory import Trajectory


@tracekit.tool(effect="read", name="db.read")
def read(n: int, limit: int = 5) -> int:
    return n


@tracekit.tool(effect="write", name="db.write", touches=["db"])
def write(n: int) -> str:
    return "ok"


@tracekit.tool(effect="read", name="mail.list", touches=["mail"])
def mails() -> list[str]:
    return []


def _reply(*calls: tuple[str, str], content: str | None = None) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ],
    }


@tracekit.llm(model="m", name="ask")
def ask(reply: Any) -> Any:
    return reply


def _calls(trajectory: Trajectory) -> list[list[tuple[str, Any]]]:
    return [[(call.tool, call.arguments) for call in d.calls] for d in trajectory.decisions]


def test_calls_are_joined_to_the_reply_that_asked_for_them_whatever_the_spelling() -> None:
    @tracekit.agent
    def work() -> str:
        ask(_reply(("db_read", '{"n": 1}'), ("db_read", '{"n":2}'), content="both"))
        read(2)
        read(1)
        ask(_reply(("db_write", '{"n":3}')))
        write(3)
        return str(ask({"role": "assistant", "content": "fine"})["content"])

    with recording() as recorded:
        work()
    trajectory = recorded.trajectory()
    assert _calls(trajectory) == [
        [("db.read", {"n": 2, "limit": 5}), ("db.read", {"n": 1, "limit": 5})],
        [("db.write", {"n": 3})],
        [],
    ]
    assert [(d.index, d.message, d.final) for d in trajectory.decisions] == [
        (1, "both", False), (2, None, False), (3, "fine", True),
    ]  # fmt: skip
    assert [c.position for c in trajectory.decisions[0].calls] == [0, 1]
    assert all(d.model_call for d in trajectory.decisions)


def test_calls_of_glue_code_are_decisions_of_their_own() -> None:
    @tracekit.agent
    def work() -> dict[str, int]:
        read(1)
        read(2)
        return {"sum": 3}

    with recording() as recorded:
        work()
    trajectory = recorded.trajectory()
    assert [len(d.calls) for d in trajectory.decisions] == [1, 1, 0]
    assert (trajectory.decisions[-1].message, trajectory.decisions[-1].final) == ({"sum": 3}, True)
    assert trajectory.answer.value == {"sum": 3}


async def test_calls_side_by_side_are_one_decision_and_their_order_is_no_part_of_it() -> None:
    both = asyncio.Barrier(2)

    @tracekit.tool(effect="read", name="fetch")
    async def fetch(n: int) -> int:
        await both.wait()
        return n

    @tracekit.agent
    async def work(order: list[int]) -> None:
        await asyncio.gather(*(fetch(n) for n in order))

    digests = set()
    for order in ([1, 2], [2, 1]):
        with recording() as recorded:
            await work(order)
        trajectory = recorded.trajectory()
        assert [len(d.calls) for d in trajectory.decisions] == [2]
        digests.add(trajectory_digest(trajectory))
    assert len(digests) == 1


async def test_agents_side_by_side_keep_their_own_replies() -> None:
    asked = asyncio.Barrier(2)

    @tracekit.agent
    async def helper(n: int) -> None:
        ask(_reply(("db_read", f'{{"n":{n}}}'), content=f"helper {n}"))
        await asked.wait()
        read(n)

    @tracekit.agent
    async def boss() -> None:
        await asyncio.gather(helper(1), helper(2))

    with recording() as recorded:
        await boss()
    found = recorded.trajectory().decisions
    assert [(d.message, [c.arguments["n"] for c in d.calls]) for d in found] == [  # type: ignore[call-overload,index]  # an object
        ("helper 1", [1]),
        ("helper 2", [2]),
    ]


def test_a_model_asked_inside_a_step_still_explains_the_agents_calls() -> None:
    @tracekit.step
    def think(reply: Any) -> None:
        ask(reply)

    @tracekit.agent
    def work() -> None:
        think(_reply(("db_read", '{"n":1}'), ("db_write", '{"n":9}')))
        read(1)
        think(_reply(("db_write", '{"n":2}')))
        write(2)

    with recording() as recorded:
        work()
    assert _calls(recorded.trajectory()) == [
        [("db.read", {"n": 1, "limit": 5})],
        [("db.write", {"n": 2})],
    ]


def test_what_a_tool_calls_is_covered_by_it_and_a_sub_agents_calls_are_not() -> None:
    @tracekit.tool(effect="read", name="outer")
    def outer() -> int:
        ask("inside")
        return read(1)

    @tracekit.agent(name="sub")
    def sub() -> int:
        return read(2)

    @tracekit.agent
    def work() -> None:
        outer()
        sub()

    with recording() as recorded:
        work()
    trajectory = recorded.trajectory()
    outer_call, sub_call = trajectory.calls
    assert (outer_call.tool, sub_call.tool, sub_call.path) == ("outer", "db.read", ("sub",))
    (covered,) = trajectory.covered
    assert (covered.covered_by, covered.decision) == (outer_call.event_id, 0)
    assert trajectory.model_calls[0].covered_by == outer_call.event_id


def test_write_sets_hold_the_successful_writes_that_share_a_resource() -> None:
    @tracekit.tool(effect="write", name="bad", touches=["db"])
    def bad() -> None:
        raise ValueError

    @tracekit.agent
    def work() -> None:
        read(0)
        write(1)
        with contextlib.suppress(ValueError):
            bad()
        mails()
        read(2)

    with recording() as recorded:
        work()
    calls = recorded.trajectory().calls
    wrote = frozenset({calls[1].event_id})
    assert [call.write_set for call in calls] == [
        frozenset(), frozenset(), wrote, frozenset(), wrote,
    ]  # fmt: skip


def test_turns_of_the_user_stand_before_the_decision_that_followed() -> None:
    with recording() as recorded, tracekit.run():
        recorded.recorder.message("system", "Be brief.")
        recorded.recorder.message("user", "one")
        read(1)
        recorded.recorder.message("user", "two")
        read(2)
        recorded.recorder.message("agent", "bye")
    assert [(m.role, m.content, m.before_decision) for m in recorded.trajectory().messages] == [
        ("system", "Be brief.", 1),
        ("user", "one", 1),
        ("user", "two", 2),
        ("assistant", "bye", 3),
    ]


def test_a_run_that_fails_has_no_answer_and_one_under_way_is_open() -> None:
    @tracekit.agent
    def work() -> None:
        read(1)
        raise ValueError("no")

    with recording() as recorded, contextlib.suppress(ValueError):
        work()
    failed = recorded.trajectory()
    assert (failed.status, failed.answer.is_error, failed.answer.error_message) == (
        "error", True, "no",
    )  # fmt: skip
    assert not any(d.final for d in failed.decisions)
    open_rows = [replace(row, ts_end_ns=None, status="unset") for row in recorded.rows("run")]
    assert build(open_rows, recorded.sink.blobs.get).status == "open"


def _two_writers(recorded: Recorded, skew_ns: int) -> list[str]:
    rows = []
    for row in recorded.rows():
        if row.actor in ("sub", "db.read"):
            row = replace(row, writer="other", ts_start_ns=(row.ts_start_ns or 0) + skew_ns)
        rows.append(row)
    return [row.actor for row in in_order(rows[::-1])]


def test_clocks_that_disagree_put_no_step_before_its_parent_or_out_of_its_writers_order() -> None:
    @tracekit.agent(name="sub")
    def sub() -> None:
        read(1)
        read(2)

    @tracekit.agent
    def work() -> None:
        write(1)
        sub()
        write(2)

    hour = 3_600_000_000_000
    with recording() as recorded:
        work()
    assert _two_writers(recorded, 0) == [
        "work", "db.write", "sub", "db.read", "db.read", "db.write",
    ]  # fmt: skip
    assert _two_writers(recorded, -hour) == [
        "work", "sub", "db.read", "db.read", "db.write", "db.write",
    ]  # fmt: skip
    assert _two_writers(recorded, hour) == [
        "work", "db.write", "db.write", "sub", "db.read", "db.read",
    ]  # fmt: skip


def test_ids_and_times_are_no_part_of_a_trajectorys_digest_but_values_are() -> None:
    @tracekit.agent
    def work(n: int) -> int:
        return read(n)

    digests = []
    for n in (1, 1, 2):
        with recording() as recorded:
            for _ in range(len(digests)):
                conditions.new_span_id()  # other ids each time
            work(n)
        digests.append(trajectory_digest(recorded.trajectory()))
    assert digests[0] == digests[1] != digests[2]
