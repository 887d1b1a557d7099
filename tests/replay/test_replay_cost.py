"""What a replayed call costs, counted and not timed: messages, writes, and what is kept of it."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from replay import ReplayOptions, ReplayResult, session
from replay.isolation.protocol import ProtocolError
from replay.isolation.warming import warm_up
from replay.ledger import GROUP, Ledger
from replay.matching import Player
from replay.messages import announced
from replay.replayer import Replayer
from replay.session_result import trajectory_of
from tests.replay.tape_kit import again, call, contract, player, record
from tracekit import guard
from tracekit.assembly import build
from tracekit.canonical import digest
from tracekit.canonical.plain import read_plain
from tracekit.configuration import recording_to
from tracekit.errors import NotRecorded
from tracekit.events import Blob, Fact, RunBegun, ToolCallEnded
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope, load_key
from tracekit.redact.glance import Glance, glance_for
from tracekit.rows import rows_from_facts
from tracekit.settings import redaction_rules
from tracekit.sink import MemorySink
from tracekit.trajectory import Call, Trajectory

CALLS = 300
Agent = Callable[..., Any]


@tracekit.tool(effect="read")
def look(number: int, unit: str = "ms") -> dict[str, Any]:
    """Say something about a number."""
    return {"number": number, "unit": unit}


@tracekit.tool(effect="read")
def fail(number: int) -> None:
    """Fail."""
    raise TimeoutError(f"no {number}")


@tracekit.tool(effect="read")
def corner() -> tuple[int, int]:
    """Return what JSON has no word for."""
    return (1, 2)


@tracekit.tool(effect="read")
def items(count: int) -> Iterator[int]:
    """Yield numbers."""
    yield from range(count)


@tracekit.tool(effect="write")
async def put(name: str, password: str) -> str:
    """Write something, with a secret."""
    return f"put {name}"


@tracekit.tool(effect="write")
def pay(amount: int) -> str:
    """Pay, which a policy allows."""
    tracekit.policy("allow", rule="small", reason="below 50")
    return f"paid {amount}"


@tracekit.retrieval
def fetch(query: str) -> list[str]:
    """Retrieve something, by a tool."""
    return [str(look(7)["number"])]


def looking() -> Agent:
    """An agent that does nothing but look; a closure, which is replayed in this process."""

    @tracekit.agent(name="looking")
    def agent(calls: int) -> int:
        return [look(number)["number"] for number in range(calls)][-1]

    return agent


def doing_all() -> Agent:
    """An agent whose calls are of all kinds."""

    @tracekit.agent(name="doing all")
    def agent(calls: int) -> str:
        async def both() -> list[str]:
            return list(await asyncio.gather(put("a", "hunter2-1"), put("b", "hunter2-2")))

        said: list[object] = [look(1), look(number=1), corner(), list(items(2)), fetch("x")]
        said += [asyncio.run(both()), pay(42)]
        said.append(look(2, unit="hunter2-1"))
        for number in range(2):
            try:
                fail(number)
            except (TimeoutError, NotRecorded) as error:
                said.append(str(error))
        return str(said)

    return agent


def recorded_run(agent: Agent, calls: int = CALLS) -> Trajectory:
    sink = MemorySink()
    with recording_to(Recorder(sink, Redactor(Rules(), KeyedTagger(load_key())))):
        agent(calls)
    return build(rows_from_facts(sink.facts), sink.blobs.get)


class CountingSink(MemorySink):
    """Counts how often something is handed over."""

    handed = 0

    def write_all(self, lines: Sequence[bytes], at_ns: int, blobs: Sequence[Blob]) -> None:
        """Keep the facts on ``lines``."""
        self.handed += 1
        for place, line in enumerate(lines):
            self.append(line, at_ns, () if place else blobs)


class CountingIsolate:
    """Passes messages on and counts them by what they are."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ready = inner.ready
        self.messages: Counter[str] = Counter()

    def run(self, request: dict[str, Any], handle: Callable[..., Any]) -> Any:
        """Run the planner of the other."""

        def counted(message: dict[str, Any]) -> Any:
            self.messages[next(iter(message))] += 1
            return handle(message)

        return self._inner.run(request, counted)


def replayed(
    agent: Agent, recorded: Trajectory, sink: MemorySink
) -> tuple[ReplayResult, Counter[str]]:
    with Replayer(agent, ReplayOptions()) as replayer:
        counting = CountingIsolate(replayer._isolate)
        replayer._isolate = counting  # type: ignore[assignment]  # has what is used of it
        return replayer.replay(recorded, sink=sink), counting.messages


def without_chance(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """Facts without what is new in each run: ids become numbers, times begin at 0."""
    names: dict[str, int] = {}
    start = facts[0].timestamp_ns

    def plain(fact: Fact) -> dict[str, Any]:
        said = fact.model_dump()
        for name in ("run_id", "trace_id", "span_id", "parent_span_id"):
            said[name] = names.setdefault(str(said[name]), len(names))
        return {**said, "writer": "", "timestamp_ns": fact.timestamp_ns - start}

    return [plain(fact) for fact in facts]


def test_a_call_is_one_message_and_few_writes() -> None:
    agent = looking()
    sink = CountingSink()
    result, messages = replayed(agent, recorded_run(agent), sink)

    assert result.verdict.kind == "pass"
    assert messages == {"call": CALLS, "fact": 2}  # begin and end of the run
    assert len(sink.facts) == 2 * CALLS + 2
    assert sink.handed == -(-2 * CALLS // GROUP)


def test_a_call_is_digested_once_on_the_tape_once_as_it_is_asked_and_once_as_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = looking()
    counted = Counter[str]()
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda data: counted.update(["digest"]) or real(data))

    def cost(recorded: Trajectory) -> int:
        counted.clear()
        with Replayer(agent, ReplayOptions()) as replayer:
            assert replayer.replay(recorded, sink=CountingSink()).passed
        return counted["digest"]

    few, many = recorded_run(agent, 10), recorded_run(agent, CALLS + 10)
    assert cost(many) - cost(few) == 3 * CALLS


def test_a_call_that_is_spelt_as_recorded_is_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = looking()
    recorded = recorded_run(agent)
    for name in ("_looked_up", "_fault", "_serve"):
        monkeypatch.setattr(Player, name, None)  # is not come to
    result, _ = replayed(agent, recorded, CountingSink())
    assert result.shares == {"exact": CALLS}


def test_the_end_of_a_replay_is_looked_for_only_where_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = looking()
    looks = []
    monkeypatch.setattr(
        session, "trajectory_of", lambda *given: looks.append(1) or trajectory_of(*given)
    )
    with Replayer(agent, ReplayOptions(until=CALLS - 3)) as replayer:
        result = replayer.replay(recorded_run(agent))

    assert len(result.answered) == CALLS - 3
    assert len(looks) == 1


def test_a_call_told_in_one_message_is_recorded_like_one_told_fact_by_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = doing_all()
    recorded = recorded_run(agent)
    quick, slow = MemorySink(), MemorySink()
    first, messages = replayed(agent, recorded, quick)
    monkeypatch.setattr(guard, "told_by", lambda: None)
    second, more = replayed(agent, recorded, slow)

    assert messages["call"] > 5
    assert [f.policy_decision for f in quick.facts if isinstance(f, ToolCallEnded)].count(
        "allow"
    ) == 1
    assert more["call"] == 0
    assert without_chance(quick.facts) == without_chance(slow.facts)
    assert quick.blobs == slow.blobs
    assert first.verdict == second.verdict
    assert [step.answer for step in first.answered] == [step.answer for step in second.answered]


CONTRACTS = {
    "add": contract("add", "pure", "x"),
    "look": contract("look", "read", "x", touches=("orders",)),
    "peek": contract("peek", "read", "x"),
    "pay": contract("pay", "write", "x", touches=("orders",)),
}


@st.composite
def some_calls(draw: st.DrawFn) -> list[Call]:
    named = st.tuples(st.sampled_from(sorted(CONTRACTS)), st.integers(0, 3))
    return [
        replace(
            call(tool, CONTRACTS[tool].effect, f"{tool}/{x}/{number}", x=x),
            contract=CONTRACTS[tool],
        )
        for number, (tool, x) in enumerate(draw(st.lists(named, max_size=8)))
    ]


@given(some_calls(), some_calls())
def test_an_answer_at_once_is_the_answer_of_the_rungs(then: list[Call], now: list[Call]) -> None:
    tape = record(*then)
    quick, slow = player(tape), player(tape)
    for one in now:
        question = again(one)
        at_once = quick.call(replace(question, digest=digest(dict(question.arguments))))
        assert at_once == slow.call(question)
    assert quick.shares() == slow.shares()
    assert quick.unconsumed() == slow.unconsumed()


def test_what_is_kept_of_a_call_does_not_burden_the_garbage_collector() -> None:
    agent = looking()
    recorded = recorded_run(agent)
    result, _ = replayed(agent, recorded, CountingSink())
    first = result.session.facts[1:-1]

    assert len(first) == 2 * CALLS
    assert not any(gc.is_tracked(fact) for fact in first)
    assert not any(gc.is_tracked(text) for text in result.session.texts.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "llm_call"}, {"effect": "harmless"}, {"timestamp_ns": "0"}, {"span_id": None},
        {"more": 1}, {"timestamp_ns": True},
    ],
)  # fmt: skip
def test_a_call_that_is_none_is_a_fault_of_the_planners_process(changes: dict[str, Any]) -> None:
    call = {
        "kind": "tool_call", "actor": "look", "effect": "read", "span_id": "1",
        "parent_span_id": "0", "timestamp_ns": 0, "contract": "sha256:0",
    }  # fmt: skip
    announced({"call": list(call.values()), "argument": "{}"})
    with pytest.raises(ProtocolError):
        announced({"call": list({**call, **changes}.values()), "argument": "{}"})


def test_lines_that_wait_are_written_before_what_comes_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    ledger = Ledger(journal)
    begun = RunBegun(
        writer="w", seq=0, timestamp_ns=1, run_id="r", trace_id="t", span_id="0", actor="a"
    )
    ledger.put(begun, [])
    line = b'{"fact":"agent.begun","actor":"b","writer":"w","seq":1,"timestamp_ns":2,"run_id":"r",'
    line += b'"trace_id":"t","span_id":"1"}\n'
    ledger.put_later(line, 2, Blob("sha256:x", "application/json", b"1"))
    assert len(read_journal(journal.path).facts) == 1

    ledger.put(begun.model_copy(update={"seq": 2}), [])
    assert [fact.seq for fact in read_journal(journal.path).facts] == [0, 1, 2]
    ledger.flush()
    assert len(read_journal(journal.path).facts) == 3
    journal.close()


def test_what_looks_for_secrets_is_made_before_many_runs_are_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    glance_for.cache_clear()
    warm_up()
    monkeypatch.setattr(Glance, "_made", None)  # is not asked for in a run
    redactor = Redactor(redaction_rules(), KeyedTagger(load_key()))
    plain = read_plain({"number": 1, "unit": "ms"})
    assert plain is not None
    assert redactor.finds_nothing(plain, Scope())
