"""Idempotency keys: a case tells another attempt from another payment, whatever the keys are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from replay.case import CallPattern, Case, Expected, parse_case
from replay.caserun import CaseResult, run_case
from replay.caserun.lint import lint_case
from replay.caserun.wording import describe_case, describe_result
from replay.distill import DistillResult, Wish
from replay.distill.sightings import told_apart
from tests.distill.distill_kit import Planner, distilled
from tests.replay.tape_kit import call, contract, record
from tracekit.errors import DistillError
from tracekit.trajectory import Decision, Observation, Trajectory

PAY = contract("bank.pay", "write", "iban", "key", idempotency_field="/key")
LATE = Observation(None, "captured", is_error=True, error_type="TimeoutError")


def payer(*payments: tuple[str, str], prefix: str = "") -> Planner:
    """One that looks up whom to pay, makes these payments, each with its key, and answers."""

    def decide(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        done = sum(m["role"] == "tool" for m in history) - 1
        if done < 0:
            return {"calls": [{"tool": "bill.get", "arguments": {}}]}
        if done < len(payments):
            iban, key = payments[done]
            wanted = {"iban": iban, "key": prefix + key if prefix else key}
            return {"calls": [{"tool": "bank.pay", "arguments": wanted}]}
        return {"answer": "paid"}

    return decide


def incident(*payments: tuple[str, str], late: int = 0) -> Trajectory:
    """A run that made these payments; the first ``late`` of them came back with an error."""
    calls = [call("bill.get", "read", {"iban": "A", "note": "Thanks."})]
    for at, (iban, key) in enumerate(payments):
        made = call("bank.pay", "write", {"paid": True}, iban=iban, key=key)
        calls.append(replace(made, observation=LATE) if at < late else made)
    run = record(*calls, tools=[contract("bill.get", "read"), PAY])
    said = Decision(len(calls) + 1, message="paid", final=True)
    return replace(run, decisions=(*run.decisions, said))


TWICE = (("A", "k1"), ("A", "k2"))
RETRY = (("A", "k1"), ("A", "k1"))
ONCE = (("A", "k1"),)
SWAPPED = (("A", "k1"), ("B", "k1"))


def seen(found: DistillResult | Case, planner: Planner) -> CaseResult:
    case = found if isinstance(found, Case) else parse_case(found.text)
    return run_case(case, planner)


def test_a_retry_with_another_key_is_told_from_one_with_the_same_key() -> None:
    found = distilled(incident(*TWICE, late=1), payer(*TWICE), payer(*RETRY))

    assert found.case.expected.forbidden_tools == (CallPattern(tool="bank.pay", key="another"),)
    assert found.case.minimal
    assert found.failure.endswith("once more, with another idempotency key, which is forbidden")
    assert seen(found, payer(*TWICE, prefix="x")).verdict.kind == "fail"
    assert seen(found, payer(*RETRY, prefix="x")).passed
    assert seen(found, payer(*ONCE, prefix="x")).passed


def test_two_payments_with_one_key_are_told_from_two_payments() -> None:
    found = distilled(incident(*RETRY), payer(*RETRY), payer(*TWICE))

    assert found.case.expected.forbidden_tools == (CallPattern(tool="bank.pay", key="again"),)
    assert seen(found, payer(*RETRY, prefix="x")).verdict.kind == "fail"
    assert seen(found, payer(*TWICE, prefix="x")).passed


@pytest.mark.slow
def test_a_recorded_run_that_went_right_tells_them_apart_as_well() -> None:
    right = incident(*RETRY, late=1)
    found = distilled_against(right, incident(*TWICE, late=1), payer(*TWICE))

    assert found.case.fix == "unproven"
    assert seen(found, payer(*TWICE, prefix="x")).verdict.kind == "fail"
    assert seen(found, payer(*RETRY, prefix="x")).passed


def distilled_against(right: Trajectory, run: Trajectory, planner: Planner) -> DistillResult:
    from replay.distill import DistillOptions, distill_record

    return distill_record(run, planner=planner, reference=right, options=DistillOptions())


@pytest.mark.slow
def test_a_retry_that_was_left_out_is_asked_for_by_its_key() -> None:
    run = incident(*ONCE, late=1)
    found = distilled_against(incident(*RETRY, late=1), run, payer(*ONCE))

    assert found.case.expected.required_tools == (CallPattern(tool="bank.pay", key="again"),)
    assert seen(found, payer(*RETRY, prefix="x")).passed
    assert seen(found, payer(*TWICE, prefix="x")).verdict.kind == "fail"


@pytest.mark.slow  # each reduces a run; the patterns themselves are asked about above
@pytest.mark.parametrize(
    ("payments", "late", "key"), [(TWICE, 1, "another"), (SWAPPED, 0, "taken")]
)
def test_a_key_that_cannot_be_meant_is_seen_without_being_told(
    payments: Sequence[tuple[str, str]], late: int, key: str
) -> None:
    found = distilled(incident(*payments, late=late), payer(*payments))
    assert [p.key for p in found.case.expected.forbidden_tools if isinstance(p, CallPattern)] == [
        key
    ]


@pytest.mark.slow
def test_a_failure_of_keys_has_a_name() -> None:
    wish = Wish(failing=("key:bank.pay",))
    found = distilled(incident(*TWICE), payer(*TWICE), wish=wish)
    assert seen(found, payer(*RETRY)).passed
    with pytest.raises(DistillError, match="does not fail so"):
        distilled(incident(*RETRY), payer(*RETRY), wish=wish)


def test_which_key_a_payment_carries_is_no_difference() -> None:
    with pytest.raises(DistillError, match="make the same writes"):
        distilled(incident(*ONCE), payer(*ONCE), payer(*ONCE, prefix="other-"))


def test_a_write_that_is_made_once_too_often_is_told_from_the_right_number() -> None:
    pay = contract("bank.pay", "write", "iban", "key")
    twice = (("A", ""), ("A", ""))
    run = replace(incident(*twice), tools=(contract("bill.get", "read"), pay))
    found = distilled(run, payer(*twice), payer(("A", "")))

    assert found.case.expected.call_limits == {"bank.pay": 1}
    assert seen(found, payer(*twice)).verdict.kind == "fail"
    assert seen(found, payer(("A", ""))).passed
    with pytest.raises(DistillError, match="how often is right, a run that went right tells"):
        distilled(run, payer(*twice), wish=Wish(failing=("often:bank.pay",)))


CASE = """\
format: tracekit/case/v1
name: pays-once
input: Pay the bill.
tools:
- {name: bill.get, effect: read}
- {name: bank.pay, effect: write, idempotency_field: key}
observations:
- {id: bill, tool: bill.get, returns: {iban: A}}
- {id: late, tool: bank.pay, error: {type: TimeoutError}}
- {id: paid, tool: bank.pay, returns: true}
expected:
  forbidden_tools: [{tool: bank.pay, key: another}]
  no_repeat: 1
  answer: {required: true}
  consumed: [bill]
"""


def test_a_case_that_a_person_writes_says_what_keys_have_to_be() -> None:
    case = parse_case(CASE)
    failed = seen(case, payer(*TWICE))

    assert "never call bank.pay once more, with another idempotency key" in describe_case(case)
    assert "✗" in describe_result(failed)
    assert [str(f.signature) for f in failed.findings] == ["forbidden tools bank.pay another key"]
    assert seen(case, payer(*RETRY)).passed


def test_a_second_payment_without_a_key_is_said_to_have_none() -> None:
    def forgetful(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        action = payer(*TWICE)(history, tools, script)
        for wanted in action.get("calls", ()):
            if wanted["arguments"].get("key") == "k2":
                del wanted["arguments"]["key"]
        return action

    (found,) = seen(parse_case(CASE), forgetful).findings
    assert found.text.endswith("once more, without an idempotency key, which is forbidden")
    assert str(found.signature) == "forbidden tools bank.pay another key"


@pytest.mark.parametrize("key", ["", " ", None])
def test_an_empty_key_is_none(key: Any) -> None:
    text = CASE.replace("no_repeat: 1", "call_limits: {bank.pay: 1}")
    findings = seen(parse_case(text), payer(("A", key), ("A", key))).findings
    assert [str(f.signature) for f in findings] == [
        "forbidden tools bank.pay another key",
        "call limits bank.pay",
    ]
    assert "once more, without an idempotency key" in findings[0].text


def test_another_key_makes_no_other_call_of_one_that_failed() -> None:
    text = CASE.replace("  forbidden_tools: [{tool: bank.pay, key: another}]\n", "")
    never = parse_case(text.replace("no_repeat: 1", "no_repeat: true"))
    ask = parse_case(text.replace("no_repeat: 1", "after_error: [{tool: bank.pay}]"))
    for case in (never, ask):
        assert [f.tool for f in seen(case, payer(*TWICE)).findings] == ["bank.pay"]
        assert seen(case, payer(*ONCE)).passed


def test_without_a_declared_key_nobody_says_that_it_is_the_same() -> None:
    case = parse_case(CASE.replace(", idempotency_field: key", ""))
    verdict = seen(case, payer(*TWICE)).verdict
    assert verdict.kind == "inconclusive"
    assert "bank.pay declares no idempotency_field" in str(verdict)


def test_lint_lets_a_retry_be_required_where_another_key_is_forbidden() -> None:
    wanted = "  required_tools: [{tool: bank.pay, key: %s}]\n  no_repeat"
    again = parse_case(CASE.replace("  no_repeat", wanted % "again"))
    another = parse_case(CASE.replace("  no_repeat", wanted % "another"))
    assert lint_case(again) == []
    assert [line.partition(":")[0] for line in lint_case(another)] == ["no planner can pass"]


def test_another_attempt_under_the_same_key_is_no_write_too_many() -> None:
    thrice = (("A", "k1"), ("A", "k2"), ("A", "k3"))
    retried = (("A", "k1"), ("A", "k1"), ("A", "k2"), ("A", "k2"))
    paid = "{id: paid, tool: bank.pay, returns: true"
    text = CASE.replace("- {id: late, tool: bank.pay, error: {type: TimeoutError}}\n", "")
    case = parse_case(text.replace(paid, f"{paid}, times: every"))
    case = case.model_copy(update={"expected": Expected()})
    (found, *_) = told_apart(
        seen(case, payer(*thrice)),
        incident(*retried).calls,
        frozenset({"bank.pay"}),
        right_name="the fixed one",
    )
    case = case.model_copy(update={"expected": found.expected})

    assert (found.name, found.expected.call_limits) == ("often:bank.pay", {"bank.pay": 2})
    assert seen(case, payer(*thrice)).verdict.reasons == (
        "bank.pay was called 3 times, at most 2 allowed",
    )
    assert seen(case, payer(*retried)).passed
