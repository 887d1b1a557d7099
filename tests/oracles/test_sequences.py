"""How a planner goes on after an error, and when it could learn nothing new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.case import Budgets, Expected
from replay.oracles import OracleFinding, Outcome, evaluate
from tests.oracles.runs import call, outcome
from tracekit.trajectory import Call, Message


def find(expected: dict[str, Any], run: Outcome) -> tuple[OracleFinding, ...]:
    return evaluate(Expected.model_validate(expected), Budgets(), run)


def texts(expected: dict[str, Any], run: Outcome) -> list[str]:
    return [finding.text for finding in find(expected, run)]


def write(tool: str, /, **given: Any) -> Call:
    return replace(call(tool, **given), effect="write")


FAILED = call("search", error="BadQuery", query="a:b")
ONE_RULE = {"after_error": [{"tool": "search"}]}


@pytest.mark.parametrize(
    "then",
    [
        [call("search", query="a b")],
        [call("look_up", id="1")],
        [],
        [[call("search", query="a b"), call("look_up", id="1")]],
    ],
    ids=["corrected", "another tool", "asked", "both"],
)
def test_after_an_error_a_planner_corrects_takes_another_tool_or_asks(then: list[Any]) -> None:
    assert find(ONE_RULE, outcome(FAILED, *then)) == ()


def test_the_same_call_after_an_error_is_found_where_it_is_made() -> None:
    (finding,) = find(ONE_RULE, outcome(call("look"), FAILED, FAILED))
    assert finding == OracleFinding(
        "after_error",
        "after the error of search decision 3 made the same call again;"
        " allowed: correct, other tool, ask",
        tool="search",
        error="repeat",
        decision=3,
        event_id="e3.0",
    )


def test_one_repeat_among_calls_made_together_is_a_repeat() -> None:
    run = outcome(FAILED, [call("look"), FAILED], answer=None)
    assert [finding.error for finding in find(ONE_RULE, run)] == ["repeat"]


def test_only_what_is_named_may_come_after_an_error() -> None:
    rule = {"after_error": [{"tool": "search", "then": ["correct"]}]}
    assert find(rule, outcome(FAILED, call("search", query="x"))) == ()
    assert texts(rule, outcome(FAILED, call("look"))) == [
        "after the error of search decision 2 called another tool; allowed: correct"
    ]
    assert texts(rule, outcome(FAILED)) == [
        "after the error of search decision 2 made no call; allowed: correct"
    ]
    allowed = {"after_error": [{"then": ["repeat"]}]}
    assert find(allowed, outcome(FAILED, FAILED, answer=None)) == ()


def test_a_rule_speaks_of_its_tool_and_its_error_alone() -> None:
    run = outcome(FAILED, FAILED, answer=None)
    assert find({"after_error": [{"tool": "look"}]}, run) == ()
    assert find({"after_error": [{"error": "Timeout"}]}, run) == ()
    assert len(find({"after_error": [{"error": "BadQuery"}]}, run)) == 1


def test_a_run_that_ends_with_an_error_was_given_no_chance_to_go_on() -> None:
    assert find(ONE_RULE, outcome(call("look"), FAILED, answer=None)) == ()


def test_failures_in_a_row_are_counted_and_a_success_begins_anew() -> None:
    rule = {"after_error": [{"tool": "search", "tries": 2}]}
    tries = [call("search", error="BadQuery", query=str(n)) for n in range(3)]
    (finding,) = find(rule, outcome(*tries))
    assert (finding.error, finding.decision) == ("tries", 3)
    assert finding.text == (
        "decision 3 had search fail for the 3. time in a row, at most 2 allowed"
    )
    assert find(rule, outcome(*tries[:2], call("search", query="z"), *tries[:2])) == ()


def test_a_call_that_can_tell_nothing_new_is_not_made_again() -> None:
    same = call("look", id="1")
    (finding,) = find({"no_news": True}, outcome(same, call("other"), same))
    assert finding == OracleFinding(
        "no_news",
        "decision 3 made the same call of look again, which could tell nothing new",
        tool="look",
        decision=3,
        event_id="e3.0",
    )
    assert find({"no_news": 1}, outcome(same, same)) == ()
    assert len(find({"no_news": 1}, outcome(same, same, same, same))) == 1


def test_a_write_an_error_and_the_user_are_news() -> None:
    same = call("look", id="1")
    assert find({"no_news": True}, outcome(same, write("change"), same)) == ()
    failed = call("look", error="Timeout", id="1")
    assert find({"no_news": True}, outcome(failed, failed, same)) == ()
    spoken = outcome(same, same)
    assert spoken.trajectory is not None
    turn = Message(role="user", content="and now?", before_decision=2)
    spoken = replace(spoken, trajectory=replace(spoken.trajectory, messages=(turn,)))
    assert find({"no_news": True}, spoken) == ()


def test_a_write_that_failed_is_no_news() -> None:
    same = call("look", id="1")
    failed = replace(call("change", error="Denied"), effect="write")
    assert len(find({"no_news": True}, outcome(same, failed, same))) == 1
