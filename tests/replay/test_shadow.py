"""Shadow: on live input the planner plans and the guard judges; nothing executes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracekit
from fixtures.agents import desk
from replay.shadow import ShadowOptions, ShadowResult, shadow_run
from replay.workers import Bindings
from tracekit.cli import main
from tracekit.errors import PlannerSignatureError, UsageError
from tracekit.store import open_store

CODE = '''
import os
import tracekit
from fixtures.agents import desk


@tracekit.agent
def handles(order):
    """Go on whatever comes back."""
    seen = []
    for call in (
        lambda: desk.get_order(order),
        lambda: desk.refund(order, 4200),
        lambda: desk.refund(order),
        lambda: desk.notify("customer"),
    ):
        try:
            seen.append(call())
        except Exception as error:
            seen.append(type(error).__name__)
    return seen


@tracekit.agent
def writes_beside(order):
    open(os.environ["OUTSIDE"], "w").close()


@tracekit.llm(model="m")
def ask(question):
    return "never asked"


@tracekit.agent
def asks(order):
    return ask("what now?")


def decides(history, tools):
    if len(history) > 1:
        return {"answer": [tool["name"] for tool in tools]}
    return {"tool": "refund", "arguments": {"order": history[0]["content"], "amount": 7}}


def replies(request):
    return "refund it"


def order_of(order, fields):
    return {"order": order, "total": 7}


def limits(tool, arguments, effect):
    if tool == "refund" and arguments["amount"] > 1000:
        return {"decision": "deny", "rule": "limit", "reason": "more than 1000"}
    if effect == "unknown":
        return {"decision": "ask", "rule": "undeclared tools"}
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shadows")
    (made / "shadows.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(made / "production"))
        tracekit.configure(store=made / "store")
        with tracekit.run(run_id="desk-run"):
            desk.desk("A-1")
        tracekit.configure(store=made / "elsewhere")
    return made


def shadow(folder: Path, planner: str, given: Any = "A-1", **options: Any) -> ShadowResult:
    before = (folder / "production").read_text()
    chosen = ShadowOptions(isolation="process", path=(str(folder),), **options)
    result = shadow_run(given, planner=f"shadows:{planner}", store=folder / "store", options=chosen)
    assert (folder / "production").read_text() == before
    return result


def would(result: ShadowResult) -> list[tuple[str, str]]:
    return [(call.tool, call.would) for call in result.calls]


def test_what_a_planner_would_do_is_listed_and_nothing_is_done(folder: Path) -> None:
    result = shadow(folder, "handles")

    assert would(result) == [
        ("get_order", "run"),
        ("refund", "run"),
        ("refund", "fail"),
        ("notify", "run"),
    ]
    assert result.answer == ["NotRecorded", "NotRecorded", "TypeError", "NotRecorded"]
    assert [call.answered for call in result.calls] == ["not executed"] * 4
    assert not result.found


def test_the_guard_judges_every_call(folder: Path) -> None:
    result = shadow(folder, "handles", bindings=Bindings(guard="shadows:limits"))

    assert would(result)[1] == ("refund", "be refused")
    assert (result.calls[1].rule, result.calls[1].reason) == ("limit", "more than 1000")
    assert (would(result)[3], result.calls[3].decision) == (("notify", "be refused"), "ask")
    assert result.found
    assert result.answer == ["NotRecorded", "CallRefused", "TypeError", "CallRefused"]


def test_simulations_and_listed_reads_answer_the_planner(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"get_order": "shadows:order_of"}})
    result = shadow(folder, "handles", bindings=bindings)

    assert isinstance(result.answer, list)
    assert result.answer[0] == {"order": "A-1", "total": 7}
    assert [call.answered for call in result.calls][:2] == ["simulate", "not executed"]


def test_a_write_is_never_made_live(folder: Path) -> None:
    bindings = Bindings(functions={"live": {"refund": "fixtures.agents.desk:refund"}})
    with pytest.raises(UsageError, match="--live refund: its effect is write"):
        shadow(folder, "handles", bindings=bindings)
    with pytest.raises(UsageError, match="not even in a sandbox"):
        ShadowOptions(bindings=Bindings(functions={"sandbox": {"refund": "shadows:order_of"}}))


def test_a_function_for_a_tool_that_nobody_knows_is_refused(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"refnud": "shadows:order_of"}})
    with pytest.raises(UsageError, match="--simulate names the tool 'refnud'") as caught:
        shadow(folder, "handles", bindings=bindings)
    assert "the nearest is refund" in str(caught.value)


def test_a_planner_that_decides_is_told_the_tools_of_a_recorded_run(folder: Path) -> None:
    result = shadow(folder, "decides", like="desk-run")

    assert would(result) == [("refund", "run")]
    assert result.calls[0].effect == "write"
    assert isinstance(result.answer, list)
    assert {"refund", "get_order"} <= set(result.answer)
    unknown = shadow(folder, "decides")
    assert unknown.calls[0].effect == "unknown"


def test_what_a_wall_refuses_is_a_finding(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    result = shadow(folder, "writes_beside", environment={"OUTSIDE": str(outside)})
    assert not outside.exists()
    assert result.stopped is not None
    assert "Refused" in result.stopped


def test_a_model_answers_only_where_one_was_given(folder: Path) -> None:
    without = shadow(folder, "asks")
    assert without.stopped is not None
    assert "there is none in this shadow run" in without.stopped
    scripted = shadow(folder, "asks", model="scripted", model_script="shadows:replies")
    assert scripted.answer == "refund it"


def test_a_shadow_run_is_recorded(folder: Path) -> None:
    result = shadow(folder, "handles", bindings=Bindings(guard="shadows:limits"))

    store = open_store(folder / "store")
    row = next(row for row in store.runs() if row.run_id == result.run_id)
    assert (row.verdict, row.replay_of, row.planner) == ("shadow", None, "shadows:handles")
    calls = store.trajectory(result.run_id).calls
    assert [call.policy_decision for call in calls] == ["allow", "deny", None, "ask"]


def test_an_input_that_does_not_fit_is_misuse(folder: Path) -> None:
    with pytest.raises(PlannerSignatureError, match="cannot be called"):
        shadow(folder, "handles", {"somebody": "else"})


def test_the_command_lists_and_exits_by_what_was_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (tmp_path / "input.json").write_text('{"order": "A-1"}', "utf-8")
    common = ["shadow", "--planner", "shadows:handles", "--store", str(tmp_path / "store")]
    common += ["--isolation", "process"]

    plain = CliRunner().invoke(main, [*common, "--input", f"@{tmp_path}/input.json"])
    assert plain.exit_code == 0, plain.output
    assert "4 calls planned, none executed" in plain.output
    guarded = CliRunner().invoke(
        main, [*common, "--input", '"A-1"', "--guard", "shadows:limits", "--json"]
    )
    assert guarded.exit_code == 1
    assert json.loads(guarded.stdout)["calls"][1]["rule"] == "limit"
    wrong = CliRunner().invoke(main, [*common, "--input", "A-1"])
    assert wrong.exit_code == 2
    assert "--input" in wrong.output
