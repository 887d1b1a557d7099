"""Calls that no tool would take fail as they would have, and are not looked up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from replay.matching import Answer
from tests.replay.tape_kit import again, asked, call, contract, failed, player, record, value
from tracekit.canonical import Encoded, decode
from tracekit.contract import bind, contract_of
from tracekit.errors import CallRefused

SCHEMA: Any = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number", "maximum": 50}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}


def error_of(answer: Answer) -> object:
    seen = answer.observation
    assert seen is not None
    return decode(Encoded(seen.value, seen.types))


def one(order: str) -> None: ...
def two(order: str, amount: int) -> None: ...
def optional(order: str, amount: int = 1, *, reason: str = "") -> None: ...
def keyword(*, order: str, amount: int) -> None: ...
def three(a: int, b: int, c: int) -> None: ...
def placed(order: str, /) -> None: ...
def anything(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("tool", "args", "kwargs"),
    [
        (one, (), {}),
        (two, (), {}),
        (three, (), {}),
        (two, ("A",), {}),
        (two, ("A", 1, 2), {}),
        (one, ("A", 1), {}),
        (optional, ("A", 1, "late"), {}),
        (two, ("A",), {"order": "B", "amount": 1}),
        (two, ("A", 1), {"note": "x"}),
        (keyword, (), {"order": "A"}),
        (keyword, (), {}),
    ],
)
def test_a_wrong_call_fails_in_pythons_own_words(
    tool: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError) as real:
        tool(*args, **kwargs)
    declared = contract_of(tool, effect="write")
    made = bind(inspect.signature(tool), args, kwargs)
    replay = player(record(call("other")))

    question = replace(asked(declared.name, "write", **made), contract=declared)
    answer = replay.call(question)

    assert (answer.rung, answer.tainted) == ("invalid", False)
    rebuilt = error_of(answer)
    assert isinstance(rebuilt, TypeError)
    assert str(rebuilt) == str(real.value)


@pytest.mark.parametrize(
    ("tool", "args", "kwargs"),
    [
        (optional, ("A",), {}),
        (optional, (), {"order": "A", "reason": "x"}),
        (placed, ("A",), {}),
        (anything, (1, 2), {"x": 3}),
        (anything, (), {}),
    ],
)
def test_a_call_that_fits_is_looked_up(
    tool: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    declared = contract_of(tool, effect="read")
    made = bind(inspect.signature(tool), args, kwargs)
    known = replace(call(declared.name, **made), contract=declared)
    assert player(record(known)).call(again(known)).rung == "exact"


def test_a_planner_without_code_is_held_to_the_recorded_signature() -> None:
    known = replace(
        call("refund", "write", order="A", amount=1),
        contract=contract("refund", "write", "order", "amount"),
    )
    answer = player(record(known)).call(asked("refund", "write", order="A", sum=1))
    assert (answer.rung, answer.explanation) == (
        "invalid",
        "refund: got an unexpected keyword argument 'sum'",
    )


def test_a_call_that_the_schema_forbids_is_refused_with_its_places_and_taints() -> None:
    declared = contract("refund", "write", "order", "amount", argument_schema=SCHEMA)
    known = replace(call("refund", "write", order="A", amount=42), contract=declared)
    replay = player(record(known))

    answer = replay.call(again(known, arguments={"order": 7, "amount": 4200}))

    assert (answer.rung, answer.tainted) == ("invalid", True)
    refusal = error_of(answer)
    assert isinstance(refusal, CallRefused)
    assert (refusal.tool, refusal.rule) == ("refund", "its argument schema")
    places = value(answer)["attributes"]["problems"]  # type: ignore[call-overload, index]  # a JSON object
    assert [problem["at"] for problem in places] == ["/order", "/amount"]
    assert replay.call(again(known)).rung == "exact"


def test_a_schema_that_the_record_shows_to_be_unchecked_refuses_nothing() -> None:
    declared = contract("refund", "write", "order", "amount", argument_schema=SCHEMA)
    known = replace(call("refund", "write", order="A", amount=4200), contract=declared)
    replay = player(record(known))

    assert replay.call(again(known)).rung == "exact"
    assert replay.call(again(known, arguments={"order": "A", "amount": 99})).rung == "error"


def test_a_wrong_call_that_was_recorded_is_used_up_by_the_same_one() -> None:
    declared = contract("refund", "write", "order", "amount")
    known = replace(failed("refund", "write", order="A"), contract=declared)
    replay = player(record(known))

    assert replay.call(again(known)).rung == "exact"
    assert replay.unconsumed() == ()
    assert replay.call(again(known)).rung == "invalid"


def test_a_default_that_the_schema_does_not_name_is_no_fault() -> None:
    declared = contract(
        "refund", "write", "order", "amount", defaults={"dry": False}, argument_schema=SCHEMA
    )
    known = replace(call("refund", "write", order="A", amount=1, dry=False), contract=declared)
    answer = player(record(known)).call(again(known, arguments={**_new(), "dry": False}))
    assert answer.rung == "error"


def _new() -> dict[str, Any]:
    return {"order": "B", "amount": 2}
