"""What of a record is other than it was: observations that were set, a late start, an early end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import desk
from replay import ReplayOptions, ReplayResult, replay_run
from replay.experiment import Override, overridden, parse_override
from replay.matching import Policies
from tests.replay.tape_kit import call, record
from tracekit.errors import ReplayNotPossible, UsageError
from tracekit.trajectory import Trajectory

RUN = "desk-run"
PLANNERS = '''
import uuid

import tracekit
from fixtures.agents import desk


@tracekit.tool(effect="read")
def opened(session, order):
    return {"order": order}


@tracekit.tool(effect="write")
def noted(session, text):
    return "noted"


@tracekit.agent
def tracked(order, write):
    session = str(uuid.uuid4())
    opened(session, order)
    opened(session, "another")
    if write:
        noted(session, "seen")
    return "done"


@tracekit.llm(model="m", name="ask")
def ask(question):
    return f"answer to {question}"


@tracekit.llm(model="m", name="ask")
def ask_new(question):
    raise AssertionError("never asked in a replay")


@tracekit.agent
def advised(order):
    first = ask(f"what about {order}?")
    total = desk.get_order(order)["total"]
    second = ask(f"{first}, total {total}?")
    return second


@tracekit.agent
def reworded(order):
    first = ask(f"tell me about {order}")
    total = desk.get_order(order)["total"]
    return ask(f"{first}, total {total}?")


@tracekit.agent
def cautious(order):
    total = desk.get_order(order)["total"]
    if total > 100:
        return "too much"
    desk.search("refund policy")
    desk.refund(order, total)
    return "refunded"


def decides(history, tools, script):
    """Go on with the script from wherever the history ends."""
    at = sum(message["role"] == "assistant" for message in history)
    if at >= len(script):
        return None
    assert len([m for m in history if m["role"] == "tool"]) == at
    return script[at]
'''


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "experimental.py").write_text(PLANNERS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(folder / "ledger"))
        patch.syspath_prepend(str(folder))
        import experimental  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=folder / "store")
        with tracekit.run(run_id=RUN):
            desk.desk("A-1")
        with tracekit.run(run_id="advised"):
            experimental.advised("A-1")
        for name, write in (("reading", False), ("writing", True)):
            with tracekit.run(run_id=name):
                experimental.tracked("A-1", write)
        tracekit.configure(store=folder / "elsewhere")
    return folder


def replay(store: Path, planner: str, run: str = RUN, **options: Any) -> ReplayResult:
    chosen = ReplayOptions(isolation="guard", path=(str(store),), **options)
    return replay_run(run, planner=f"experimental:{planner}", store=store / "store", options=chosen)


def rungs(result: ReplayResult) -> list[str]:
    return [step.answer.rung for step in result.answered]


# --- observations that were set -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "override"),
    [
        ("3.observation=[]", Override(3, [])),
        ('3.2.observation={"a":1}', Override(3, {"a": 1}, 2)),
        ("3.observation/total=4200", Override(3, 4200, None, "/total")),
    ],
)
def test_an_override_is_read(text: str, override: Override) -> None:
    assert parse_override(text) == override


def test_an_override_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "seen.json").write_text('{"total": 1}', "utf-8")
    assert parse_override(f"1.observation=@{tmp_path}/seen.json").value == {"total": 1}


@pytest.mark.parametrize(
    "text", ["3=1", "x.observation=1", "3.observation=hello", "3.observation=@/no/such/file"]
)
def test_an_override_that_is_none_is_misuse(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_override(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("9.observation=1", "there is no decision 9"),
        ("2.observation=1", "write 2.N"),
        ("1.observation/nothing/here=1", "no value at"),
    ],
)
def test_a_step_that_is_not_there_is_told(text: str, told: str) -> None:
    run = record(call("look", "read", {"a": 1}), [call("look", x=1), call("look", x=2)])
    with pytest.raises(UsageError) as caught:
        overridden(run, [parse_override(text)])
    assert told in str(caught.value)


def test_an_override_changes_its_observation_and_nothing_else() -> None:
    run = record(call("look", "read", {"a": 1, "b": 2}), [call("look", x=1), call("look", x=2)])
    new, changed = overridden(
        run, [parse_override("1.observation/a=7"), parse_override("2.2.observation=null")]
    )
    assert [c.observation.value for c in new.calls] == [{"a": 7, "b": 2}, "ok", None]
    assert list(changed) == ["e1", "e3"]
    assert [c.arguments for c in new.calls] == [c.arguments for c in run.calls]


def test_a_planner_is_given_what_was_set_and_the_verdict_says_so(store: Path) -> None:
    as_recorded = replay(store, "cautious")
    assert (as_recorded.verdict.kind, rungs(as_recorded)) == ("pass", ["exact"] * 3)

    result = replay(store, "cautious", overrides=(parse_override("1.observation/total=4200"),))

    assert result.trajectory is not None
    assert (result.trajectory.answer.value, rungs(result)) == ("too much", ["exact"])
    assert result.verdict.kind == "pass"
    assert result.verdict.reasons == ("1.observation/total=4200, which you set",)
    assert "set by you" in result.answered[0].answer.explanation


def test_findings_under_an_override_are_findings(store: Path) -> None:
    result = replay(store, "cautious", overrides=(parse_override("1.observation/total=50"),))
    assert result.verdict.kind == "fail"
    assert "recorded 42, asked 50" in result.verdict.reasons[0]
    assert result.verdict.reasons[-1] == "1.observation/total=50, which you set"


def test_an_override_that_was_never_asked_for_is_told(store: Path) -> None:
    result = replay(store, "cautious", overrides=(parse_override('4.observation={"order":"B"}'),))
    assert result.verdict.reasons == (
        '4.observation={"order":"B"}, which you set, was never asked for',
    )


# --- an early end ---------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["cautious", "decides"])
def test_a_replay_ends_after_the_decision_that_was_named(store: Path, planner: str) -> None:
    result = replay(store, planner, until=2)

    assert rungs(result) == ["exact", "exact"]
    assert (result.verdict.kind, result.verdict.reasons) == (
        "pass",
        ("ended after decision 2, as asked",),
    )


def test_a_finding_before_the_end_is_one(store: Path) -> None:
    early = replay(store, "cautious", until=3, overrides=(parse_override("1.observation/total=9"),))
    assert early.verdict.kind == "fail"


# --- a late start ---------------------------------------------------------------------------------


def test_a_deciding_planner_starts_with_the_recorded_history(store: Path) -> None:
    result = replay(store, "decides", start=3)

    assert rungs(result) == ["exact"] * 3
    assert [step.name for step in result.answered] == ["refund", "get_order", "close_case"]
    assert result.verdict.kind == "pass"
    assert result.verdict.reasons == ("what was before decision 3 is from the record",)
    assert result.missing == ()
    both: list[Trajectory | None] = [result.trajectory, result.recorded]
    told = [[c.tool for c in t.calls] for t in both if t is not None]
    assert told[0] == told[1]


def test_an_agent_starts_late_with_the_recorded_replies_of_its_model(store: Path) -> None:
    changed = replay(store, "reworded", run="advised")
    assert changed.verdict.kind == "inconclusive"

    late = replay(store, "reworded", run="advised", start=2)

    assert rungs(late) == ["exact", "exact", "exact"]
    assert late.verdict.kind == "pass"


def test_a_start_that_cannot_be_had_says_why(store: Path) -> None:
    with pytest.raises(ReplayNotPossible, match="no model made"):
        replay(store, "cautious", start=2)
    with pytest.raises(UsageError, match="no such decision"):
        replay(store, "decides", start=99)


@pytest.mark.parametrize(
    "options",
    [{"start": 0}, {"until": 0}, {"start": 3, "until": 2}, {"start": 2, "mode": "locked"}],
)
def test_bounds_that_are_none_are_misuse(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ReplayOptions(**options)


# --- learnt aliases -------------------------------------------------------------------------------


def test_reads_with_an_id_of_the_planners_own_are_found_where_that_is_allowed(store: Path) -> None:
    strict = replay(store, "tracked", run="reading")
    assert (strict.verdict.kind, rungs(strict)) == ("inconclusive", ["error"])

    learning = replay(store, "tracked", run="reading", policies=Policies(learn=True))

    assert (learning.verdict.kind, rungs(learning)) == ("pass", ["normalised", "normalised"])
    told = [step.answer.explanation for step in learning.answered]
    assert "learnt:" in told[0]
    assert "learnt:" not in told[1]


def test_a_write_with_such_an_id_is_refused_all_the_same(store: Path) -> None:
    result = replay(store, "tracked", run="writing", policies=Policies(learn=True))
    assert rungs(result) == ["normalised", "normalised", "error"]
    assert (result.verdict.kind, result.findings[0].kind) == ("fail", "write refused")
