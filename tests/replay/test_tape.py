"""The index of a run's observations."""

from __future__ import annotations

from dataclasses import replace

from replay.tape import Tape, is_servable
from tests.replay.tape_kit import SECOND, call, contract, failed, record, seen
from tracekit.contract import Contract
from tracekit.trajectory import Call, Decision, Mint, ModelCall, Observation, Trajectory


def test_a_tape_spells_the_recorded_calls_by_their_contract() -> None:
    query = contract("query", "read", "expr", defaults={"window": "5m"})
    tape = Tape.of(record(replace(call("query", expr="rate"), contract=query)))
    assert tape.calls[0].arguments == {"expr": "rate", "window": "5m"}
    assert tape.by_key == {("query", tape.calls[0].key): (0,)}


def test_the_contract_of_a_tool_is_taken_from_its_calls_before_what_was_offered() -> None:
    called = Contract(name="query", purpose="called")
    offered = [Contract(name="query", purpose="offered"), Contract(name="other", purpose="offered")]
    tape = Tape.of(record(replace(call("query", q=1), contract=called), tools=offered))
    assert {name: c.purpose for name, c in tape.contracts.items()} == {
        "query": "called",
        "other": "offered",
    }


def test_the_effect_of_a_tool_is_the_most_harmful_one_recorded() -> None:
    tape = Tape.of(
        record(
            call("a", "read", x=1),
            call("a", "write", x=2),
            call("a", "pure", x=3),
            call("b", "pure"),
        )
    )
    assert (tape.effect("a"), tape.effect("b"), tape.effect("c")) == ("write", "pure", None)


def test_what_lies_beneath_a_call_is_known_at_any_depth() -> None:
    outer = replace(call("mid"), event_id="c1", covered_by="e1")
    inner = replace(call("leaf"), event_id="c2", covered_by="c1")
    prompt = ModelCall("m1", "", "p", None, seen("r"), covered_by="c1")
    tape = Tape.of(record(call("top"), covered=[outer, inner], prompts=[prompt]))
    assert tape.beneath == {"e1": (1, 2), "c1": (2,)}
    assert tape.prompts_beneath == {"e1": (0,), "c1": (0,)}


def test_a_record_whose_coverage_runs_in_a_circle_can_be_read() -> None:
    first = replace(call("a"), event_id="c1", covered_by="c2")
    second = replace(call("b"), event_id="c2", covered_by="c1")
    tape = Tape.of(record(covered=[first, second]))
    assert set(tape.beneath) == {"c1", "c2"}


def test_only_successful_writes_count() -> None:
    denied = replace(call("c", "write"), policy_decision="deny")
    tape = Tape.of(record(call("a", "write"), failed("b", "write"), denied, call("d", "unknown")))
    assert tape.counted_writes == {"e1", "e4"}


def test_writes_that_overlapped_a_call_are_its_rivals() -> None:
    def at(one: Call, start: float, end: float) -> Call:
        return replace(one, ts_start_ns=int(start * SECOND), ts_end_ns=int(end * SECOND))

    calls = (
        at(replace(call("w", "write"), event_id="w"), 0, 2),
        at(replace(call("r1"), event_id="r1"), 1, 3),
        at(replace(call("r2"), event_id="r2", write_set=frozenset({"w"})), 2, 4),
    )
    tape = Tape.of(replace(record(), decisions=(Decision(1, calls=calls),)))
    assert [sorted(c.racing) for c in tape.calls] == [[], ["w"], []]


def test_an_error_and_none_can_be_served_and_what_is_not_there_cannot() -> None:
    assert is_servable(seen(None))
    assert is_servable(Observation(is_error=True, error_type="ValueError"))
    assert not is_servable(Observation())
    assert not is_servable(Observation(value="<5 MB>", state="truncated"))
    assert not is_servable(Observation(is_error=True))


def test_a_tape_finds_calls_and_mints() -> None:
    tape = Tape.of(record(call("a"), mints=[Mint("id", "s", 0, "x")]))
    found = tape.find("e1")
    assert found is not None
    assert found.call.tool == "a"
    assert tape.find("e9") is None
    assert tape.mint("id", "s", 0) == "x"
    assert tape.mint("id", "s", 1) is None


def test_an_empty_run_makes_an_empty_tape() -> None:
    empty = Trajectory("r", "a", seen(None), (), Observation(), "open")
    tape = Tape.of(empty)
    assert (tape.calls, tape.prompts, tape.counted_writes) == ((), (), frozenset())
