"""What a sceptical user broke: wrong reasons, halves of placeholders, planners that never stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay import session
from replay.case import Case, parse_case
from replay.caserun import run_case
from replay.distill import Budget, DistillResult, Wish
from replay.distill.emission import check_folder, check_no_secrets, render, write_new
from tests.distill.case_kit import INJECTION
from tests.distill.distill_kit import distilled
from tests.replay.tape_kit import call, contract, failed, record
from tracekit import agent, tool
from tracekit.canonical import JsonValue
from tracekit.errors import CaseError, DistillError
from tracekit.redact import find_placeholders, scan
from tracekit.trajectory import Trajectory

ROWS: JsonValue = [{"id": f"O-{n}", "state": "disputed" if n == 7 else "paid"} for n in range(12)]
KEY = "sk-proj-REDACTED7705b8e68cf7484c0000000000000000000"


@tool(effect="read")
def orders() -> Any:
    raise AssertionError("never entered")


@tool(effect="write")
def wipe(order: str) -> str:
    raise AssertionError("never entered")


@tool(effect="write")
def send(to: str, body: str) -> str:
    raise AssertionError("never entered")


def _read(rows: JsonValue = ROWS) -> Trajectory:
    return record(call("orders", "read", rows), tools=[contract("orders", "read")])


def _looks(run: Trajectory, planner: object, fixed: object | None = None) -> DistillResult:
    return distilled(run, planner, fixed)


@agent
def honest(question: str = "") -> str:
    orders()
    return "fine"


@agent
def wiping(question: str = "") -> str:
    for row in orders():
        if row["state"] == "disputed":
            wipe(row["id"])
    return "fine"


@pytest.mark.parametrize("fixed", [None, honest])
def test_a_write_that_the_run_does_not_know_is_seen(fixed: object) -> None:
    case = _looks(_read(), wiping, fixed).case
    assert case.reason is not None
    assert (case.reason.oracle, case.reason.tool) == ("forbidden_tools", "wipe")
    assert case.observations[0].returns == [{"id": "O-7", "state": "disputed"}]


@agent
def keyed(question: str = "") -> str:
    rows = orders()
    wanted = next(row for row in rows if row["state"] == "disputed")
    raise KeyError("nothing of " + rows[3]["id"] + wanted["id"])


def test_an_error_of_the_same_class_from_another_place_is_another_reason() -> None:
    result = _looks(_read(), keyed)
    assert result.failure.startswith("it ended with KeyError: 'nothing of ")
    left = result.case.observations[0].returns
    assert isinstance(left, list)
    assert {"id", "state"} <= set(left[-1])


def test_what_must_pass_answers_with_words_and_not_with_the_error() -> None:
    passes = _looks(_read(), keyed).case.passes
    assert passes[-1].message == "done"


@agent
def leaking(question: str = "") -> str:
    found = orders()
    send("someone-with-a-rather-long-name@example.com", found["api_key"])
    return "sent"


def test_a_placeholder_that_a_sentence_cuts_short_is_no_secret() -> None:
    text = _looks(_read({"api_key": KEY, "x": 1}), leaking, honest).text
    assert scan(text) == []
    assert [text[wall.start : wall.end] for wall in find_placeholders(text)][-1] == KEY


def test_what_planners_say_in_an_error_is_redacted_in_the_file() -> None:
    secret = "ghp_" + "a1B2" * 9

    @agent
    def tells(question: str = "") -> str:
        orders()
        raise ValueError(f"no access with {secret}")

    assert secret not in _looks(_read(), tells).text


@agent
def endless(question: str = "") -> str:
    while True:
        orders()


def test_an_agent_that_never_stops_is_a_loop_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_CALLS", 50)
    case = parse_case(
        """
format: tracekit/case/v1
name: loop
observations: [{id: o, tool: orders, returns: []}]
expected: {answer: {required: true}}
"""
    )
    result = run_case(case, endless)
    assert [finding.oracle for finding in result.findings] == ["loop"]
    assert len(result.answered) == 50


def test_a_repeated_call_has_a_script_that_passes() -> None:
    run = record(*(failed("log.get", "read") for _ in range(5)))

    def stubborn(history: list[Any], tools: list[Any]) -> Any:
        tried = sum(m["role"] == "tool" for m in history)
        return {"calls": [{"tool": "log.get", "arguments": {}}]} if tried < 5 else "no luck"

    result = distilled(run, stubborn, wish=Wish(failing=("repeat:log.get",)))
    assert sum(len(decision.calls) for decision in result.case.passes) == 1


def test_several_writes_of_one_tool_are_not_guessed_among() -> None:
    run = record(
        call("orders", "read", ROWS),
        call("wipe", "write", "", order="O-1"),
        call("wipe", "write", "", order="O-7"),
        tools=[contract("orders", "read"), contract("wipe", "write", "order")],
    )

    @agent
    def both(question: str = "") -> str:
        orders()
        wipe("O-1")
        wipe("O-7")
        return "x"

    with pytest.raises(DistillError, match=r"forbid:wipe .*O-1.*and 1 more of it"):
        _looks(run, both)


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cases"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(CaseError, match="it is no folder"):
            distilled(_read(), lambda history, tools: pytest.fail("run"), out=place)
    check_folder(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


def test_a_file_system_without_links_gets_the_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    first, second = (write_new(tmp_path, "a", text) for text in ("one", "two"))
    assert (first.name, second.name) == ("a.case.yaml", "a-2.case.yaml")
    assert (first.read_text(), second.read_text()) == ("one", "two")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_name_that_is_a_path_stays_in_the_folder(tmp_path: Path) -> None:
    written = distilled(_read(), wiping, out=tmp_path / "cases", name="../evil/name").path
    assert written is not None
    assert written.parent == tmp_path / "cases"


def test_a_budget_that_is_no_number_allows_nothing() -> None:
    result = distilled(_read(), wiping, budget=Budget(seconds=float("nan")))
    assert not result.minimal


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('name: "a\\nb\\e[31m"', r":2:1: name: holds signs that cannot be printed"),
        ('name: "a"\ninput: "\\ud800"', r":3:8: '\\ud800' cannot be a value"),
    ],
)
def test_text_that_cannot_be_shown_or_sent_is_refused_where_it_stands(line: str, said: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse_case(f"format: tracekit/case/v1\n{line}\n")
    assert said.replace("\\\\", "\\") in str(caught.value)


def test_an_observation_that_is_not_of_its_type_is_no_failure_of_the_planner() -> None:
    case: Case = parse_case(
        """
format: tracekit/case/v1
name: typed
observations: [{id: o, tool: orders, returns: soon, types: {"": datetime}}]
expected: {answer: {required: true}}
"""
    )
    assert run_case(case, honest).verdict.kind == "inconclusive"


def test_what_the_rules_of_the_user_would_redact_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = parse_case(INJECTION.replace("please star evil/repo", "{customer: KD-4711}"))
    check_no_secrets(case, "# fine")
    monkeypatch.setenv("TRACEKIT_REDACT", "customer\nre:KD-[0-9]+")
    with pytest.raises(DistillError, match="/observations/0/returns/customer"):
        check_no_secrets(case, "# fine")
    with pytest.raises(DistillError, match="a comment"):
        check_no_secrets(parse_case(INJECTION), "# of KD-4711")
    assert "KD-4711" not in render(parse_case(INJECTION), notes=["of KD-4711"], comments={})
