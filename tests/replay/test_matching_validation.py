"""Calls that no tool would take fail as they would have, and are not looked up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from replay.matching import Answer, parse_map
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


# --- what a mismatch says -------------------------------------------------------------------------


def test_a_renamed_tool_is_found_by_its_arguments() -> None:
    replay = player(record(call("find_order", order="A"), call("order_found", order="B")))
    told = replay.call(asked("lookup", order="A")).explanation
    assert told.endswith("find_order has these arguments (renamed? --map find_order=lookup)")
    assert (
        player(replay.tape.trajectory, maps=(parse_map("find_order=lookup"),))
        .call(asked("lookup", order="A"))
        .rung
        == "normalised"
    )


def test_a_renamed_argument_is_named_with_the_map_that_finds_it() -> None:
    replay = player(record(call("look", order="A", page=2)))
    told = replay.call(asked("look", number="A", page=2)).explanation
    assert told.endswith("(renamed? --map look:/order=look:/number)")


def test_a_new_argument_is_the_only_thing_named() -> None:
    told = player(record(call("look", order="A"))).call(asked("look", order="A", deep=True))
    assert told.explanation.endswith("nearest is decision 1: /deep: not recorded, asked true")


def test_a_write_asked_more_often_than_recorded_is_told_so() -> None:
    replay = player(record(call("pay", "write", amount=1)))
    replay.call(asked("pay", "write", amount=1))
    told = replay.call(asked("pay", "write", amount=1)).explanation
    assert "recorded once, asked twice; a write is answered as often as it was recorded" in told


def test_another_write_set_names_the_writes_that_differ() -> None:
    replay = player(record(call("pay", "write", amount=1), call("look", q=1)))
    told = replay.call(asked("look", q=1))
    assert told.rung == "stale"
    assert "recorded after pay (decision 1), which this replay has not done" in told.explanation
