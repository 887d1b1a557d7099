"""Answers of one read that differ stay those of the calls that they answered."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from replay.case import Case
from replay.caserun import run_case
from replay.distill.details import Details
from replay.distill.draft import Draft, draft_of
from replay.distill.telling import mistaken
from tests.distill.distill_kit import Planner, distilled
from tests.replay.tape_kit import call, contract, record
from tracekit.trajectory import Trajectory

BALANCES = {"B": 99, "A": 10, "C": 5}


def _run(balances: dict[str, Any] = BALANCES) -> Trajectory:
    """Balances that were asked for, and a payment from the account that has little."""
    reads = [
        call("balance", "read", balance, iban=iban, currency="EUR")
        for iban, balance in balances.items()
    ]
    tools = [contract("balance", "read", "iban", "currency")]
    tools += [contract("pay", "write", "iban")]
    return record(*reads, call("pay", "write", "paid", iban="C"), tools=tools)


def _asking(order: str, wrong: Callable[[dict[str, int]], bool]) -> Planner:
    def decide(history: list[Any], tools: list[Any]) -> Any:
        shown = [m["content"] for m in history if m["role"] == "tool"]
        if len(shown) < len(order):
            asked = {"iban": order[len(shown)], "currency": "EUR"}
            return {"calls": [{"tool": "balance", "arguments": asked}]}
        seen = dict(zip(order, map(int, shown), strict=False))
        if len(shown) == len(order) and wrong(seen):
            return {"calls": [{"tool": "pay", "arguments": {"iban": "C"}}]}
        return {"answer": "done"}

    return decide


def _takes_it(seen: dict[str, int]) -> bool:
    return seen["B"] > 50 and seen["C"] < 9


@cache
def _case() -> Case:
    return distilled(_run(), _asking("BAC", _takes_it), _asking("CBA", lambda _: False)).case


def test_what_tells_answers_apart_stays_and_nothing_else_of_the_arguments() -> None:
    asked = {f.returns: f.arguments for f in _case().observations if f.tool == "balance"}
    assert asked == {99: {"iban": "B"}, 10: {"iban": "A"}, 5: {"iban": "C"}}


@pytest.mark.parametrize("order", ["BAC", "ACB", "CBA"])
def test_a_planner_is_judged_alike_in_whatever_order_it_asks(order: str) -> None:
    case = _case()
    assert run_case(case, _asking(order, _takes_it)).verdict.kind == "fail"
    assert run_case(case, _asking(order, lambda seen: seen["C"] > 50)).verdict.kind == "pass"


def _left(draft: Draft) -> list[Any]:
    layer = Details(asked_only=True)
    return [f.arguments for f in layer.without(draft, layer.parts(draft)).case.observations[:-1]]


@pytest.mark.parametrize(
    ("balances", "left"),
    [
        ({"B": 99}, [None]),
        ({"B": 7, "A": 7}, [None, None]),
        ({"B": 7, "A": 7, "C": 8}, [{"iban": "B"}, {"iban": "A"}, {"iban": "C"}]),
    ],
)
def test_arguments_go_where_one_answer_is_as_good_as_another(
    balances: dict[str, Any], left: list[Any]
) -> None:
    assert _left(draft_of(_run(balances), kind="decide")) == left


def test_answers_that_went_without_arguments_do_not_come_to_differ() -> None:
    draft = draft_of(_run({"B": {"n": 1}, "A": {"n": 1}}), kind="decide")
    layer = Details(asked_only=True)
    alike = layer.without(draft, layer.parts(draft))
    assert mistaken(alike) is None
    assert mistaken(alike.with_value(("observation", "balance-1"), {}, {})) == "balance"
    assert mistaken(draft.with_value(("observation", "balance-1"), {}, {})) is None


def test_answers_of_the_same_call_are_told_apart_by_their_order() -> None:
    tools = [contract("balance", "read", "iban")]
    reads = [call("balance", "read", n, iban="B") for n in range(2)]
    draft = draft_of(record(*reads, tools=tools), kind="decide")
    layer = Details(asked_only=True)
    bare = layer.without(draft, layer.parts(draft))
    assert [f.arguments for f in bare.case.observations] == [None, None]
    assert mistaken(bare) is None
