"""Patterns that can take for ever are told from those that only look so, and given up."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from replay.case import Budgets, Expected, parse_case, searching
from replay.case.searching import is_found
from replay.case.slowness import may_hang
from replay.caserun import run_case
from replay.caserun.lint import lint_case
from replay.oracles import evaluate
from tests.oracles.runs import call, outcome


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        r"(\w+\s?)+$",
        "(a*)*b",
        "(?:(a|b+))*c",
        r"(\s*\w+)*!",
        "x((y)?z*){3,}",
        "(?i:a+)+?b",
        "(?=(a+)+b)",
        "(?P<n>.+)+x",
    ],
)
def test_a_repetition_of_a_repetition_may_take_for_ever(pattern: str) -> None:
    assert may_hang(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)pool",
        r"(\d+,)*\d+",
        "(ab?)+",
        "(a+b+)+",
        "(a+)?b",
        "(a+){2,5}",
        "(?>a+)+",
        "(a++)+",
        r"(\ba+\b)+x",
        "[(a+)+]",
        r"^\w+(\.\w+)*$",
        "(a|b)*",
    ],
)
def test_what_ends_each_round_with_something_else_does_not(pattern: str) -> None:
    assert not may_hang(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("pool.*exhausted", "the pool is exhausted", True),
        (r"^(\w+\s?)+$", "one two three", True),
        ("(?i)(a|b)*C$", "ABA" * 20 + "c", True),
        ("(ü+)+$", "ü" * 20 + "\ud800", False),
    ],
)
def test_where_a_pattern_is_looked_for_does_not_change_what_is_found(
    pattern: str, text: str, found: bool
) -> None:
    assert is_found(pattern, text) is found


@pytest.mark.parametrize("pattern", ["(?i)pool", "pool.*exhausted", r"\d{4}-\d{2}", "a|b|c"])
def test_what_takes_a_moment_starts_no_process(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "subprocess", None)
    assert not is_found(pattern, "-" * 1000)


def test_an_address_is_looked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "subprocess", None)
    address = r"^[\w.+-]+@[\w-]+\.[\w.]+$"
    assert is_found(address, "firstname.lastname@department.example.org")
    assert not is_found(address, "a." * 80)


def test_a_process_is_asked_once_for_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: started.append(a) or run(*a, **k))
    monkeypatch.setattr(searching, "SECONDS", 0.11)
    for _ in range(3):
        with pytest.raises(searching.Undecided):
            is_found("^(a|a)+$", "a" * 40 + "!")
    assert len(started) == 1


def test_looking_for_a_pattern_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SECONDS", 0.1)
    with pytest.raises(searching.Undecided, match=r"33 letters did not end within 0\.1 s"):
        is_found("^(a|a)+$", "a" * 32 + "!")


SLOW = """
format: tracekit/case/v1
name: slow
input: Say it.
tools: [{name: look, effect: read}]
expected: {answer: {matches: ['^(a+)+$']}}
"""


def says(*calls: str) -> Callable[..., Any]:
    def planner(history: list[Any], tools: list[Any]) -> Any:
        if len(history) == 1 and calls:
            return {"calls": [{"tool": tool, "arguments": {}} for tool in calls]}
        return {"answer": "a" * 40 + "!"}

    return planner


def test_a_pattern_that_cannot_be_judged_makes_a_case_inconclusive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "SECONDS", 0.1)
    verdict = run_case(parse_case(SLOW), says()).verdict

    assert str(verdict) == (
        "inconclusive: expected.answer cannot be judged: looking for '^(a+)+$' in 41 letters did "
        "not end within 0.1 s"
    )


def test_what_else_speaks_against_the_planner_is_found_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "SECONDS", 0.1)
    case = parse_case(SLOW.replace("{answer:", "{forbidden_tools: [look], answer:"))
    result = run_case(case, says("look"))

    assert result.verdict.kind == "fail"
    assert [one.oracle for one in result.findings] == ["forbidden_tools"]


def test_a_pattern_of_a_schema_is_looked_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SECONDS", 0.1)
    rule = "{arguments: [{tool: look, schema: {patternProperties: {'^(a+)+$': {}}}}]}"
    expected = Expected.model_validate(yaml.safe_load(rule))
    (found,) = evaluate(expected, Budgets(), outcome(call("look", **{"a" * 40 + "!": 1})))

    assert found.undecided
    assert found.text.startswith("expected.arguments cannot be judged: looking for '^(a+)+$'")


MANY_WAYS = "answer: {matches: ['(a|a)*b', '(.*)(.*)(.*)(.*)x', 'foo.*bar.*baz', '(ab|cd)*e']}"
IN_SCHEMAS = """
  answer: {schema: {properties: {pattern: {pattern: '(a+)+b'}}}}
  arguments: [{tool: t, schema: {patternProperties: {'^(b+)+$': {}}}}]
"""


def test_lint_names_what_would_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SECONDS", 0.4)
    text = "format: tracekit/case/v1\nname: x\ninput: hi\nexpected: {%s, required_tools: [t]}"
    found = [line for line in lint_case(parse_case(text % MANY_WAYS)) if "matches has" in line]
    assert [line.split(",")[0] for line in found] == [
        "expected.answer.matches has '(a|a)*b'",
        "expected.answer.matches has '(.*)(.*)(.*)(.*)x'",
    ]


def test_lint_looks_at_the_patterns_of_schemas() -> None:
    text = f"format: tracekit/case/v1\nname: x\ninput: hi\nexpected:{IN_SCHEMAS}"
    found = [line.split(",")[0] for line in lint_case(parse_case(text)) if "repetition" in line]
    assert found == [
        "expected.answer.schema has '(a+)+b'",
        "expected.arguments has '^(b+)+$'",
    ]
