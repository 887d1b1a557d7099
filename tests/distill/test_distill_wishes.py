"""How it is said what a case is about: by oracles in a file, or by a run that went right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replay.case import CallPattern, read_oracles
from replay.caserun.lint import lint_case
from replay.distill import DistillOptions, DistillResult, Wish, distill_record
from tests.distill.distill_kit import attacked, distilled, planners
from tests.replay.tape_kit import call, contract, record
from tracekit.errors import CaseError, DistillError, UsageError
from tracekit.trajectory import Decision, Trajectory


def oracles(folder: Path, text: str) -> Wish:
    path = folder / "expected.yaml"
    path.write_text(text, encoding="utf-8")
    return Wish(oracles=read_oracles(path))


def told_by(run: Trajectory, right: Trajectory, planner: object, **more: Any) -> DistillResult:
    return distill_record(
        run, planner=planner, reference=right, options=DistillOptions(Wish(), **more)
    )


def test_oracles_in_a_file_say_what_the_case_is_about(tmp_path: Path) -> None:
    failing, fixed = planners()
    wish = oracles(tmp_path, "expected:\n  call_limits: {bank.pay: 0}\nbudgets: {steps: 9}\n")

    case = distilled(attacked(), failing, fixed, wish=wish).case

    assert str(case.reason) == "call limits bank.pay"
    assert case.expected.call_limits == {"bank.pay": 0}
    assert case.budgets.steps == 9
    assert [fixture.tool for fixture in case.observations] == ["page.get"]


def test_a_budget_alone_can_be_what_is_not_met(tmp_path: Path) -> None:
    failing, _ = planners()
    wish = oracles(tmp_path, "budgets: {calls: 2}\n")

    case = distilled(attacked(), failing, wish=wish).case

    assert str(case.reason) == "budgets calls"
    assert case.budgets.calls == 2


@pytest.mark.parametrize(
    "text", ["budgets: {calls: 0}\n", "expected: {call_limits: {mail.list: 0}}\n"]
)
def test_a_case_that_a_planner_passes_which_calls_nothing_says_so(
    tmp_path: Path, text: str
) -> None:
    failing, _ = planners()
    result = distilled(attacked(), failing, wish=oracles(tmp_path, text))
    (remark,) = result.remarks
    assert remark.startswith("the case shows only that nothing is called")


def test_a_case_that_asks_for_what_was_shown_is_about_more_than_calling_nothing(
    tmp_path: Path,
) -> None:
    failing, fixed = planners()
    wish = oracles(tmp_path, "expected: {call_limits: {bank.pay: 0}}\n")
    assert distilled(attacked(), failing, fixed, wish=wish).remarks == ()


def test_of_several_oracles_that_are_not_met_one_is_chosen(tmp_path: Path) -> None:
    failing, _ = planners()
    text = "expected: {call_limits: {bank.pay: 0}, required_tools: [mail.send]}\n"
    wish = oracles(tmp_path, text)
    run = attacked()
    run = replace(run, tools=(*run.tools, contract("mail.send", "write")))

    with pytest.raises(DistillError) as caught:
        distilled(run, failing, wish=wish)
    assert "--signature call_limits:bank.pay" in str(caught.value)
    assert "--signature required_tools:mail.send" in str(caught.value)

    chosen = replace(wish, failing=("required_tools:mail.send",))
    case = distilled(run, failing, wish=chosen).case
    assert str(case.reason) == "required tools mail.send never called"
    assert lint_case(case) == []


def test_oracles_that_are_met_give_no_case(tmp_path: Path) -> None:
    failing, _ = planners()
    wish = oracles(tmp_path, "expected: {required_tools: [bank.pay]}\n")
    with pytest.raises(DistillError, match="meets all that is expected of it"):
        distilled(attacked(), failing, wish=wish)
    strange = replace(oracles(tmp_path, "budgets: {calls: 2}\n"), failing=("forbid:x",))
    with pytest.raises(DistillError, match="'forbid:x' is not seen"):
        distilled(attacked(), failing, wish=strange)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expected: {forbiden_tools: [a]}\n", "did you mean 'forbidden_tools'"),
        ("{}\n", "nothing is expected"),
        ("expected: {consumed: [a]}\n", "found out when a run is distilled"),
        ("- a\n", "is no list of oracles"),
    ],
)
def test_a_file_of_oracles_that_says_nothing_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(CaseError, match=said):
        oracles(tmp_path, text)


@pytest.mark.parametrize(
    "wish",
    [Wish(require=("mail.lst",)), Wish(forbid=("mail.lst",)), Wish(failing=("idle:mail.lst",))],
)
def test_a_tool_that_neither_the_run_has_nor_the_planner_is_no_failure(wish: Wish) -> None:
    failing, _ = planners()
    with pytest.raises(DistillError, match=r"no tool 'mail\.lst'") as caught:
        distilled(attacked(), failing, wish=wish)
    assert caught.value.hint == "the nearest is mail.list"


# --- a run that went right ------------------------------------------------------------------------


def scripted(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
    """Decides what the run decided."""
    made = sum(m["role"] == "assistant" for m in history)
    if made >= len(script):
        return "done"
    return {"calls": script[made]["calls"]} if script[made]["calls"] else script[made]["message"]


def booked(*calls: Any) -> Trajectory:
    run = record(call("seat.list", "read", ["1A", "2B"]), *calls)
    said = Decision(len(calls) + 2, message="Booked.", final=True)
    return replace(run, decisions=(*run.decisions, said))


def test_a_run_that_went_right_shows_the_write_with_the_wrong_values() -> None:
    wrong = booked(call("seat.book", "write", "ok", seat="2B", who="mia"))
    right = booked(call("seat.book", "write", "ok", seat="1A", who="mia"))

    result = told_by(wrong, right, scripted)

    expected = CallPattern(tool="seat.book", arguments={"seat": "2B"})
    assert result.case.expected.forbidden_tools == (expected,)
    assert str(result.case.reason) == "forbidden tools seat.book"


def test_a_run_that_went_right_shows_the_write_that_is_missing() -> None:
    right = booked(call("seat.book", "write", "ok", seat="1A", who="mia"))

    result = told_by(booked(), right, scripted)

    assert result.case.expected.required_tools == ("seat.book",)
    assert str(result.case.reason) == "required tools seat.book never called"


@pytest.mark.parametrize(
    ("tasks", "asked", "said"),
    [
        (
            ("seats", "meals"),
            "Book.",
            "run .* is of another task than run .*: 'meals', not 'seats'",
        ),
        ((None, None), "Cancel.", "it was asked something else, and they name no task"),
        (("seats", None), "Cancel.", "it was asked something else, and run .* names no task"),
    ],
)
def test_a_run_of_another_task_shows_nothing_of_what_is_right(
    tasks: tuple[str | None, str | None], asked: str, said: str
) -> None:
    wrong, right = (
        replace(run, task_id=task)
        for run, task in zip(
            (
                booked(call("seat.book", "write", "ok", seat="2B")),
                booked(call("seat.book", "write", "ok", seat="1A")),
            ),
            tasks,
            strict=True,
        )
    )
    right = replace(right, input=replace(right.input, value=asked))
    with pytest.raises(DistillError, match=said):
        told_by(wrong, right, scripted)


def test_what_a_reference_was_asked_may_differ_where_both_name_one_task() -> None:
    wrong = replace(booked(call("seat.book", "write", "ok", seat="2B")), task_id="seats")
    right = replace(booked(call("seat.book", "write", "ok", seat="1A")), task_id="seats")
    right = replace(right, input=replace(right.input, value="Book a seat."))
    assert str(told_by(wrong, right, scripted).case.reason) == "forbidden tools seat.book"


def test_two_runs_with_the_same_writes_tell_nothing() -> None:
    run = booked(call("seat.book", "write", "ok", seat="1A"))
    with pytest.raises(DistillError, match="makes the same writes as run"):
        told_by(run, run, scripted)


# --- what is seen by itself -----------------------------------------------------------------------


def test_calls_that_tell_nothing_new_are_seen() -> None:
    run = booked(*[call("seat.list", "read", ["1A", "2B"])] * 3)

    case = distilled(run, scripted, wish=Wish(failing=("idle:seat.list",))).case

    assert case.expected.no_news == 1
    assert str(case.reason) == "no news seat.list"


def test_a_name_that_no_case_can_have_is_refused_before_anything_is_run() -> None:
    for name in ("", "two\nlines", "n" * 201):
        with pytest.raises(UsageError, match="a name is one line of 1 to 200 signs"):
            DistillOptions(name=name)


@pytest.mark.parametrize(
    "expected",
    [
        "forbidden_tools: [bank.payy]",
        "forbidden_tools: [{tool: bank.payy, arguments: {iban: A}}]",
        "call_limits: {bank.pay: 0, bank.payy: 0}",
        "order: [[mail.list, bank.payy]]",
        "after_error: [{tool: bank.payy}]",
        "arguments: [{tool: bank.payy, equals: 1}]",
    ],
)
def test_a_misspelt_tool_in_a_file_of_oracles_is_named(tmp_path: Path, expected: str) -> None:
    failing, _ = planners()
    wish = oracles(tmp_path, f"expected: {{{expected}}}\n")
    with pytest.raises(DistillError) as caught:
        distilled(attacked(), failing, wish=wish)
    assert "there is no tool 'bank.payy'" in str(caught.value)
    assert "the nearest is bank.pay" in str(caught.value)
