"""Faults on the steps of a real tape: how they reach the planner, and what that then proves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import reshipper
from replay import ReplayOptions, ReplayResult, replay_run
from replay.broken_replies import CannotBreak, break_reply
from replay.faults import Fault, PlacedFault
from tracekit.errors import UsageError

RUN = "reshipper-run"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reshipper")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        reshipper.careful("Where is parcel 7?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def replay(store: Path, planner: str, *faults: str, **options: Any) -> ReplayResult:
    return replay_run(
        RUN,
        planner=f"fixtures.agents.reshipper:{planner}",
        store=store,
        options=ReplayOptions(
            isolation="guard", faults=tuple(map(PlacedFault.parse, faults)), **options
        ),
    )


def steps(result: ReplayResult) -> list[tuple[str, str]]:
    return [(step.name, step.answer.rung) for step in result.answered]


REST = [("find", "exact"), ("reship", "exact"), ("think", "exact")]


@pytest.mark.parametrize("fault", ["timeout", "429:7s", "503", "reset"])
def test_a_planner_that_asks_again_gets_the_recorded_reply_and_does_not_pass(
    store: Path, fault: str
) -> None:
    result = replay(store, "careful", f"1={fault}")

    assert steps(result) == [("think", "simulate"), ("think", "exact"), *REST]
    assert result.verdict.kind == "inconclusive"
    assert f"fault 1={fault}" in result.verdict.reasons[0]
    assert result.findings == ()
    tainted = {c.tainted for c in result.trajectory.calls} if result.trajectory else set()
    assert tainted == {True}


def test_the_planner_waits_as_long_as_it_is_told_by_its_own_clock(store: Path) -> None:
    def ended(*faults: str) -> int:
        answer = replay(store, "careful", *faults).trajectory
        assert answer is not None
        return int(str(answer.answer.value).split()[-1])

    plain = ended()
    assert ended("1=429:60s") - plain == 60
    assert ended("1=timeout:300s") - plain == 301
    assert ended("find#1=timeout:30s") - plain == 31


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("1=timeout", "TimeoutError"),
        ("1=429:2s", "ModelStatusError"),
        ("1=500", "ModelStatusError"),
        ("1=reset", "ConnectionResetError"),
        ("1=malformed", "JSONDecodeError"),
        ("1=truncated", "JSONDecodeError"),
        ("1=unknown-tool:teleport", "KeyError"),
        ("find=timeout", "TimeoutError"),
        ("find#1=error:depot is closed", "RuntimeError: depot is closed"),
        ("reship=refused:not today", "CallRefused"),
        ("2=reset", "ConnectionResetError"),
    ],
)
def test_a_planner_that_ends_by_a_fault_fails_and_the_fault_is_named(
    store: Path, fault: str, error: str
) -> None:
    result = replay(store, "careless", fault)

    assert result.verdict.kind == "fail"
    assert result.verdict.reasons[0].startswith(f"with {fault}: the planner raised ")
    assert error in result.verdict.reasons[0]


@pytest.mark.parametrize("fault", ["1=malformed", "1=unknown-tool", "1=duplicate", "1=empty"])
def test_a_planner_that_copes_is_inconclusive_and_has_no_finding(store: Path, fault: str) -> None:
    result = replay(store, "careful", fault)

    assert (result.verdict.kind, result.findings) == ("inconclusive", ())
    assert steps(result)[0] == ("think", "simulate")
    assert steps(result)[-1] == ("think", "exact")


def test_a_write_that_a_duplicate_call_makes_twice_is_refused_and_told(store: Path) -> None:
    result = replay(store, "careless", "1=duplicate")

    assert (result.findings[0].kind, "reship" in result.findings[0].text) == ("write refused", True)
    assert result.verdict.kind == "inconclusive"
    assert any("reship" in reason for reason in result.verdict.reasons)


def test_every_call_of_a_tool_or_one_of_them_goes_wrong(store: Path) -> None:
    once = replay(store, "careful", "find#1=timeout")
    assert [s for s in steps(once) if s[0] == "find"] == [("find", "simulate"), ("find", "exact")]

    always = replay(store, "careful", "find=timeout")
    assert [s for s in steps(always) if s[0] == "find"] == [("find", "simulate")] * 3
    assert always.verdict.kind == "inconclusive"

    nothing = replay(store, "careful", "find=empty", "reship=empty")
    assert nothing.trajectory is not None
    assert nothing.trajectory.answer.value is not None
    assert '[[], ""]' in str(nothing.trajectory.answer.value)
    assert [call.tool for call in nothing.missing] == []


def test_a_fault_that_the_planner_never_came_to_says_nothing(store: Path) -> None:
    result = replay(store, "careful", "1=timeout", "9=timeout", "find#9=error")

    assert result.verdict.kind == "not evaluated"
    assert result.verdict.reasons[:2] == (
        "the planner never came to fault 9=timeout",
        "the planner never came to fault find#9=error",
    )


def test_a_planner_that_asks_again_for_ever_is_ended_and_fails(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.fault_answers.MAX_CALLS", 200)
    result = replay(store, "stubborn", "think=429:1s")

    assert result.verdict.kind == "fail"
    assert result.verdict.reasons[0] == (
        "with think=429:1s: the planner has not stopped after 200 requests to a model"
    )


def test_a_planner_that_decides_is_told_in_its_history(store: Path) -> None:
    told: list[Any] = []

    def decide(history: list[Any], tools: list[Any]) -> Any:
        told.extend(message["error"] for message in history if message.get("error"))
        asked = sum(message["role"] == "assistant" for message in history)
        call = {"tool": "find", "arguments": {"parcel": 7}}
        return {"calls": [call]} if asked < 2 else {"answer": "at the depot"}

    options = ReplayOptions(isolation="guard", faults=(PlacedFault.parse("find#1=timeout:9s"),))
    result = replay_run(RUN, planner=decide, store=store, options=options)

    assert told[0] == "TimeoutError: timed out after 9s"
    assert steps(result) == [("find", "simulate"), ("find", "exact")]
    assert result.verdict.kind == "inconclusive"

    options = ReplayOptions(isolation="guard", faults=(PlacedFault.parse("1=timeout"),))
    result = replay_run(RUN, planner=decide, store=store, options=options)
    assert result.verdict.reasons[0] == (
        "the planner never came to fault 1=timeout; it asked no model"
    )


def test_a_fault_that_the_reply_has_no_place_for_ends_the_replay(store: Path) -> None:
    result = replay(store, "careful", "2=duplicate")

    assert result.verdict.kind == "inconclusive"
    assert result.stopped == "the fault duplicate cannot be put in: the reply asks for no tool"


def test_by_position_the_next_request_gets_the_reply_that_was_broken(store: Path) -> None:
    result = replay(store, "careless", "1=empty", model="positional")

    assert result.trajectory is not None
    assert "tool_calls" in str(result.trajectory.answer.value)


def test_faults_are_for_planners_that_drive(store: Path) -> None:
    with pytest.raises(UsageError, match="faults are for --mode free"):
        replay(store, "careful", "1=timeout", mode="locked")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timeout", "is not understood"),
        ("1=", "is not known"),
        ("1=exploded", "fault 'exploded' is not known"),
        ("1=error:x", "error does not happen to a model"),
        ("1=429:soon", "time 'soon' is not understood"),
        ("0=timeout", "fault 0=timeout: steps are counted from 1"),
        ("search#0=timeout", "fault search#0=timeout: steps are counted from 1"),
    ],
)
def test_a_fault_that_is_none_is_refused_with_what_there_is(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PlacedFault.parse(text)


@pytest.mark.parametrize(
    "text", ["3=429:2s", "plan#2=timeout", "search=error:a=b: c", "1=unknown-tool:x", "2=503"]
)
def test_a_fault_is_written_as_it_was_read(text: str) -> None:
    assert str(PlacedFault.parse(text)) == text


def test_what_is_no_reply_of_a_model_cannot_be_broken() -> None:
    for reply in (17, None, {"score": 3}):
        with pytest.raises(CannotBreak):
            break_reply("truncated", reply)
    with pytest.raises(CannotBreak, match="its text is no JSON"):
        break_reply("malformed", "plain words")
    assert break_reply("malformed", '{"a": 1}') == '{"a": 1'
    assert break_reply("unknown-tool", "words")["tool_calls"][0]["function"] == {
        "arguments": "{}",
        "name": "no_such_tool",
    }
    assert Fault.parse("refusal:No.").detail == "No."
