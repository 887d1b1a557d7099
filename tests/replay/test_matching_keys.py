"""Idempotency keys: a retry is answered by a retry, and a new payment by a new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tracekit
from replay import ReplayOptions
from replay.matching import ArgumentMap, AskedCall, Player, Policies
from replay.matching.values import Unmatched
from replay.replayer import Replayer
from replay.tape import Tape
from replay.tape_answers import Mode
from tests.replay.tape_kit import again, asked, call, contract, player, record
from tracekit.store import open_store
from tracekit.trajectory import Call

PAY = contract("pay", "write", "amount", "key", idempotency_field="/key")


def _pays(keys: str) -> list[Call]:
    return [
        replace(call("pay", "write", at, amount=42, key=key), contract=PAY)
        for at, key in enumerate(keys)
    ]


@pytest.mark.parametrize(
    ("then", "now", "answered"),
    [
        ("11", "11", 2),
        ("11", "22", 2),
        ("11", "12", 1),
        ("11", "21", 1),  # spelt as recorded, and another payment all the same
        ("12", "34", 2),
        ("12", "21", 2),
        ("12", "11", 1),
        ("12", "33", 1),
        ("112", "343", 3),
        ("112", "344", 2),
        ("  ", "  ", 2),  # an empty key is none
        ("  ", "12", 2),
        ("11", "  ", 1),
    ],
)
def test_a_write_that_carries_a_key_again_answers_only_one_that_does_so_too(
    then: str, now: str, answered: int
) -> None:
    policies: tuple[Unmatched, ...] = ("error", "simulate", "sandbox")
    for wanted in policies:
        replay = player(record(*_pays(then)), unmatched={"write": wanted})
        given = [replay.call(again(one)) for one in _pays(now)]
        rungs = [answer.rung for answer in given]
        assert rungs.count("exact") + rungs.count("normalised") == answered
        assert rungs.count(wanted) == len(now) - answered
        assert all(
            "its idempotency key: recorded " in answer.explanation and answer.tainted
            for answer in given
            if answer.rung == wanted
        )


def test_a_proposal_may_repeat_the_key_it_was_shown_or_its_own() -> None:
    tape = Tape.of(record(*_pays("11")))
    for first, second, rung in (
        ("1", "1", "exact"),
        ("2", "2", "normalised"),
        ("2", "1", "exact"),
        ("1", "2", "error"),
        ("2", "3", "error"),
    ):
        before, after = Player(tape, Policies()), Player(tape, Policies())
        before.advance_to(1)
        before.call(again(_pays(first)[0]))
        after.advance_to(2, before)
        assert after.call(again(_pays(second)[0])).rung == rung


def test_a_repeated_key_is_known_by_a_new_argument_name_too() -> None:
    now = contract("pay", "write", "amount", "once", idempotency_field="/once")
    maps = (ArgumentMap("pay", "pay", "/key", "/once"),)
    replay = player(record(*_pays("11")), maps=maps)
    asks = [replace(asked("pay", "write", amount=42, once=key), contract=now) for key in "232"]
    assert [replay.call(one).rung for one in asks] == ["normalised", "error", "normalised"]


@tracekit.tool(name="pay", effect="write", idempotency_field="key")
def pay(amount: int, key: str) -> str:
    raise AssertionError("a write ran")


@pytest.mark.parametrize("mode", ["free", "locked"])
@pytest.mark.parametrize(("made", "kind"), [("12", "fail"), ("22", "pass")])
def test_a_second_payment_never_passes_for_another_attempt(
    mode: Mode, made: str, kind: str
) -> None:
    def decides(history: list[dict[str, object]], tools: object) -> dict[str, object]:
        done = sum(message["role"] == "tool" for message in history)
        if done == len(made):
            return {"answer": "because"}
        return {"tool": "pay", "arguments": {"amount": 42, "key": made[done]}}

    @tracekit.agent(name="sre")
    def pays(question: str) -> str:
        for key in made:
            pay(42, key)
        return "because"

    options = ReplayOptions(isolation="process", self_test=False, mode=mode)
    for planner in (pays, decides):
        with Replayer(planner, options) as replayer:
            result = replayer.replay(record(*_pays("11")))
        assert result.verdict.kind == kind, str(result.verdict)


COMPUTED = contract("pay", "write", "order")


def _computed(keys: str) -> list[Call]:
    made = (call("pay", "write", at, order="A") for at, _ in enumerate(keys))
    return [
        replace(one, contract=COMPUTED, idempotency_key=key.strip() or None)
        for one, key in zip(made, keys, strict=True)
    ]


def _asks(keys: str) -> list[AskedCall]:
    return [again(one, key=one.idempotency_key or "") for one in _computed(keys)]


@pytest.mark.parametrize(
    ("then", "now", "answered"),
    [
        ("11", "11", 2),
        ("11", "22", 2),
        ("11", "12", 1),
        ("11", "21", 1),
        ("12", "34", 2),
        ("12", "21", 2),
        ("12", "11", 1),
        ("12", "33", 1),
        ("112", "343", 3),
        ("112", "344", 2),
        ("11", "  ", 1),  # none is declared any more, so the second is a payment
        ("12", "  ", 2),
        ("  ", "11", 1),
        ("  ", "12", 2),
        ("  ", "  ", 2),
    ],
)
def test_a_key_that_the_tool_computes_counts_as_one_that_is_an_argument(
    then: str, now: str, answered: int
) -> None:
    replay = player(record(*_computed(then)))
    given = [replay.call(one) for one in _asks(now)]
    assert [one.rung for one in given].count("exact") == answered
    assert all(
        one.tainted and "its idempotency key: recorded " in one.explanation
        for one in given
        if one.rung == "error"
    )


def test_who_only_decides_is_taken_to_be_given_the_recorded_keys() -> None:
    for keys in ("11", "12", "112"):
        replay = player(record(*_computed(keys)))
        asks = [replace(one, key=None, contract=None) for one in _asks(keys)]
        assert {replay.call(one).rung for one in asks} == {"exact"}


def test_a_proposal_may_repeat_the_key_that_was_computed_before() -> None:
    tape = Tape.of(record(*_computed("11")))
    for first, second, rung in (("1", "1", "exact"), ("2", "2", "exact"), ("1", "2", "error")):
        before, after = Player(tape, Policies()), Player(tape, Policies())
        before.advance_to(1)
        before.call(_asks(first)[0])
        after.advance_to(2, before)
        assert after.call(_asks(second)[0]).rung == rung


@pytest.mark.parametrize("mode", ["free", "locked"])
@pytest.mark.parametrize(("made", "kind"), [("11", "pass"), ("22", "pass"), ("12", "fail")])
def test_a_second_payment_passes_for_no_attempt_where_the_key_is_computed(
    mode: Mode, made: str, kind: str, tmp_path: Path
) -> None:
    keys: list[str] = []

    @tracekit.tool(name="pay", effect="write", idempotency_key=lambda given: keys.pop(0))
    def pay(order: str) -> str:
        return "paid"

    @tracekit.agent(name="sre")
    def pays(question: str) -> str:
        return pay("A") + pay("A")

    def decides(history: list[dict[str, object]], tools: object) -> dict[str, object]:
        done = sum(message["role"] == "tool" for message in history)
        return {"tool": "pay", "arguments": {"order": "A"}} if done < 2 else {"answer": "paidpaid"}

    tracekit.configure(store=tmp_path / "store")
    keys += "11"
    with tracekit.run(run_id="r1"):
        pays("q")
    recorded = open_store(tmp_path / "store").trajectory("r1")
    assert [one.idempotency_key for one in recorded.calls] == ["1", "1"]
    options = ReplayOptions(isolation="process", self_test=False, mode=mode)
    keys += made
    with Replayer(pays, options) as replayer:
        result = replayer.replay(recorded)
    assert result.verdict.kind == kind, str(result.verdict)
    with Replayer(decides, options) as replayer:
        assert replayer.replay(recorded).verdict.kind == "pass"
