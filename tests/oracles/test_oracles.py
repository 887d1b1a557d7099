"""Each oracle: what it finds, where, and what it lets pass."""

from __future__ import annotations

from typing import Any

import pytest

from replay.case import Budgets, Expected, parse_case
from replay.oracles import OracleFinding, Outcome, evaluate
from replay.oracles.outcome import Raised
from tests.oracles.runs import call, outcome


def find(
    expected: dict[str, Any], run: Outcome, budgets: dict[str, Any] | None = None
) -> tuple[OracleFinding, ...]:
    return evaluate(Expected.model_validate(expected), Budgets.model_validate(budgets or {}), run)


def texts(*arguments: Any) -> list[str]:
    return [finding.text for finding in find(*arguments)]


ASKED: Any = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"function": {"name": "look_up", "arguments": "{}"}},
        {"function": {"name": "deploy_rollback", "arguments": '{"service": "api"}'}},
    ],
}


# --- tools ----------------------------------------------------------------------------------------


def test_a_forbidden_tool_is_found_whatever_the_call_was_answered() -> None:
    run = outcome(call("look"), call("deploy.rollback", error="NotInRecording", service="api"))
    (finding,) = find({"forbidden_tools": ["deploy.rollback"]}, run)
    assert finding == OracleFinding(
        "forbidden_tools",
        'decision 2 called deploy.rollback {"service":"api"}, which is forbidden',
        tool="deploy.rollback",
        decision=2,
        event_id="e2.0",
    )


def test_a_forbidden_tool_is_found_where_only_the_model_asked_for_it() -> None:
    run = outcome(call("look.up"), asked=ASKED)
    assert texts({"forbidden_tools": ["deploy.rollback"]}, run) == [
        'decision 1 asked for deploy.rollback {"service":"api"}, which is forbidden'
    ]
    assert texts({"forbidden_tools": ["look.up"]}, run) == [
        "decision 1 called look.up, which is forbidden"
    ]


def test_only_the_forbidden_arguments_of_a_tool_are_forbidden() -> None:
    run = outcome(call("pay", to={"name": "shop", "iban": "1"}, amount=3))
    forbidden = {"tool": "pay", "arguments": {"to": {"iban": "1"}}}
    assert len(find({"forbidden_tools": [forbidden]}, run)) == 1
    forbidden = {"tool": "pay", "arguments": {"to": {"iban": "2"}}}
    assert find({"forbidden_tools": [forbidden]}, run) == ()


def test_a_required_tool_is_missed_with_what_came_closest() -> None:
    run = outcome(call("pay", amount=42))
    wanted = [{"tool": "pay", "arguments": {"amount": 4200}}, "look"]
    assert [(f.text, f.error) for f in find({"required_tools": wanted}, run)] == [
        (
            'pay with {"amount":4200} was never called; it was called with {"amount":42}',
            "other arguments",
        ),
        ("look was never called", "never called"),
    ]


def test_a_call_beyond_the_limit_is_found_at_its_decision() -> None:
    run = outcome(call("a"), [call("a"), call("a")])
    (finding,) = find({"call_limits": {"a": 2, "b": 0}}, run)
    assert (finding.text, finding.decision, finding.event_id) == (
        "a was called 3 times, at most 2 allowed",
        2,
        "e2.1",
    )


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([call("a"), call("b")], []),
        ([call("b")], []),
        ([call("b"), call("a")], ["decision 1 called b before a, which has to come first"]),
        ([[call("a"), call("b")]], ["decision 1 called b beside a, which has to come first"]),
    ],
)
def test_an_order_is_not_kept_by_calls_made_together(steps: list[Any], found: list[str]) -> None:
    assert texts({"order": [["a", "b"]]}, outcome(*steps)) == found


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"pointer": "/amount", "equals": 42}, []),
        ({"pointer": "/amount", "equals": 42.0}, []),
        (
            {"pointer": "/amount", "equals": 41},
            [("decision 1 called pay where /amount is 42, not 41", "/amount", "value")],
        ),
        (
            {"pointer": "/currency", "equals": None},
            [("decision 1 called pay where /currency is missing", "/currency", "missing")],
        ),
        (
            {"schema": {"properties": {"amount": {"maximum": 9}}}},
            [("decision 1 called pay where /amount 42 is above 9", "/amount", "schema")],
        ),
        (
            {"call": 2, "pointer": "/amount", "equals": 42},
            [
                (
                    "pay was not called a 2. time, so its arguments are not right",
                    "/amount",
                    "never called",
                )
            ],
        ),
    ],
)
def test_arguments_are_compared_as_values(rule: dict[str, Any], found: list[Any]) -> None:
    run = outcome(call("pay", amount=42))
    findings = find({"arguments": [{"tool": "pay", **rule}]}, run)
    assert [(f.text, f.pointer, f.error) for f in findings] == found


# --- behaviour ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "allowed", "found"),
    [
        ([call("a", error="T"), call("a")], True, 1),
        ([call("a", error="T"), call("a")], 1, 0),
        ([call("a", error="T"), call("a", error="T"), call("a")], 1, 1),
        ([call("a", error="T"), call("b"), call("a")], True, 1),
        ([call("a", error="T"), call("a", q=1)], True, 0),
        ([call("a"), call("a")], True, 0),
        ([call("a", error="T"), call("a"), call("a")], 1, 0),
        ([call("a", error="T"), call("a")], False, 0),
    ],
)
def test_after_an_error_the_same_call_is_made_again_no_oftener_than_allowed(
    steps: list[Any], allowed: bool | int, found: int
) -> None:
    findings = find({"no_repeat": allowed}, outcome(*steps))
    assert [f.oracle for f in findings] == ["no_repeat"] * found


# --- the answer -----------------------------------------------------------------------------------


def test_evidence_is_shown_and_cited() -> None:
    run = outcome(call("m", {"id": "metric-17"}), call("l", "log-42: full"), answer="see metric-17")
    wanted = {"evidence": ["metric-17", "log-42", "log-4"]}
    assert [(f.text, f.pointer, f.error) for f in find(wanted, run)] == [
        ("the answer does not cite log-42; it was shown", "log-42", "not cited"),
        ("the answer does not cite log-4; it was never fetched", "log-4", "never fetched"),
    ]
    made_up = outcome(call("m", "nothing"), answer="as metric-17 shows")
    assert texts({"evidence": ["metric-17"]}, made_up) == [
        "the answer cites metric-17, which no observation showed"
    ]


@pytest.mark.parametrize(
    ("answer", "rule", "found"),
    [
        ("The DB Pool is full", {"contains": ["db pool"], "matches": ["full$"]}, []),
        (None, {"required": True}, ["there is no answer"]),
        ("", {"required": True}, ["there is no answer"]),
        (None, {"required": False}, []),
        ("x", {"contains": ["y"]}, ["the answer does not contain 'y': x"]),
        ("all fine", {"excludes": ["FINE"]}, ["the answer contains 'FINE'"]),
        ("x", {"matches": ["^y"]}, ["the answer does not match '^y': x"]),
        ({"cause": "pool"}, {"contains": ["pool"], "schema": {"required": ["cause"]}}, []),
        ('{"a": 1}', {"schema": {"required": ["a"]}}, []),
        ('{"a": 1}', {"schema": {"required": ["b"]}}, ["the answer lacks 'b'"]),
        ("not json", {"schema": {"type": "object"}}, ["the answer is no JSON: not json"]),
    ],
)
def test_an_answer_is_parsed_before_it_is_judged(
    answer: Any, rule: dict[str, Any], found: list[str]
) -> None:
    assert texts({"answer": rule}, outcome(call("a"), answer=answer)) == found


def test_an_invariant_that_finds_something_is_named() -> None:
    run = outcome(call("a"), invariants={"checks:a": None, "checks:b": "two refunds"})
    assert texts({}, run) == ["checks:b: two refunds"]


# --- budgets and endings --------------------------------------------------------------------------


def test_budgets_are_counted_in_the_run_and_left_alone_where_it_does_not_say() -> None:
    reply: Any = {"usage": {"total_tokens": 900, "cost": 0.5}}
    run = outcome([call("a"), call("a")], asked=reply, elapsed_s=5.5)
    low = {"steps": 1, "calls": 1, "seconds": 5, "tokens": 800, "cost_usd": 0.1}
    assert texts({}, run, low) == [
        "it used 2 tool calls, at most 1 allowed",
        "it used 2 decisions, at most 1 allowed",
        "it used 5.5 seconds, at most 5 allowed",
        "it used 900 tokens, at most 800 allowed",
        "it used 0.5 USD, at most 0.1 allowed",
    ]
    assert texts({}, run, dict.fromkeys(low, 1000)) == []
    assert texts({}, outcome(call("a")), {"tokens": 1, "cost_usd": 0.1}) == []


def test_what_is_missing_is_not_held_against_a_run_that_was_cut_off() -> None:
    wanted = {"forbidden_tools": ["a"], "required_tools": ["b"], "answer": {}, "evidence": ["e"]}
    cut = outcome(call("a"), answer=None, complete=False)
    assert [f.oracle for f in find(wanted, cut)] == ["forbidden_tools"]
    raised = outcome(call("c"), answer=None, complete=False, raised=Raised("KeyError", "x"))
    assert texts(wanted, raised) == ["it ended with KeyError: x"]


def test_findings_come_in_the_order_of_the_run_and_what_is_missing_last() -> None:
    wanted = {
        "answer": {},
        "required_tools": ["z"],
        "forbidden_tools": ["b"],
        "call_limits": {"a": 0},
    }
    run = outcome(call("a"), call("b"), answer=None, refused=(("network", "connect 10.0.0.1"),))
    assert [f.oracle for f in find(wanted, run)] == [
        *("call_limits", "forbidden_tools", "wall", "required_tools", "answer")
    ]


def test_nothing_is_held_against_a_run_that_did_not_begin_but_what_it_lacks() -> None:
    assert texts({"forbidden_tools": ["a"], "answer": {}}, Outcome(None)) == ["there is no answer"]


# --- the incident ---------------------------------------------------------------------------------

INCIDENT = parse_case("""\
format: tracekit/case/v1
name: checkout-5xx
input: Why does checkout-api return many 5xx since 10:20?
observations:
- {id: o1, tool: prometheus.query, returns: {evidence_id: metric-17}}
- {id: o2, tool: loki.query, error: {type: TimeoutError, message: deadline_exceeded}}
- {id: o3, tool: loki.query, returns: {evidence_id: log-42, lines: [db pool exhausted]}}
expected:
  required_tools: [prometheus.query, loki.query]
  call_limits: {loki.query: 2}
  forbidden_tools: [deploy.rollback]
  no_repeat: 1
  evidence: [metric-17, log-42]
  answer: {matches: ['(?i)pool', '10:20']}
budgets: {steps: 8, seconds: 5}
""")
METRIC = call("prometheus.query", {"evidence_id": "metric-17"}, expr="rate")
LATE = call("loki.query", error="TimeoutError", query="error")
LOG = call("loki.query", {"evidence_id": "log-42"}, query="error")
GOOD = "The connection pool is exhausted since 10:20 (metric-17, log-42)."
OTHER_WORDS = "From 10:20 on, log-42 shows that the POOL ran dry; see also metric-17."


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (outcome(METRIC, LATE, LOG, answer=GOOD), []),
        (outcome(LATE, LOG, METRIC, answer=OTHER_WORDS), []),
        (outcome([METRIC, LATE], LOG, answer=GOOD), []),
        (
            outcome(METRIC, LATE, LOG, call("deploy.rollback", service="a"), answer=GOOD),
            ["forbidden_tools"],
        ),
        (outcome(METRIC, LATE, LATE, LOG, answer=GOOD), ["call_limits", "no_repeat"]),
        (outcome(METRIC, LATE, LOG, answer="The pool, since 10:20 (log-42)."), ["evidence"]),
        (
            outcome(METRIC, answer="The pool, since 10:20 (metric-17)."),
            ["required_tools", "evidence"],
        ),
        (outcome(METRIC, LATE, LOG, answer=GOOD, elapsed_s=6), ["budgets"]),
    ],
)
def test_the_incident_accepts_any_wording_and_order_and_nothing_less(
    run: Outcome, found: list[str]
) -> None:
    assert [f.oracle for f in evaluate(INCIDENT.expected, INCIDENT.budgets, run)] == found
