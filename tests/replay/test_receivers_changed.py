"""An agent that builds on what a tool's body set: no body runs in a replay, so it is not known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from replay import ReplayResult, replay_run

Planner = Callable[[str], object]


class Account:
    def __init__(self, iban: str) -> None:
        self.iban, self.calls, self.state = iban, 0, "closed"
        self.last: str | None = None

    @tracekit.tool(effect="write")
    def pay(self, amount: int) -> int:
        self.calls += 1
        self.state, self.last = "open", f"p{amount}"
        return amount

    @tracekit.tool(effect="read")
    def counts(self) -> list[int]:
        return [self.calls]


class Slim:
    __slots__ = ("paid",)

    def __init__(self) -> None:
        self.paid = 0

    @tracekit.tool(effect="write", name="slim")
    def pay(self, amount: int) -> int:
        self.paid += 1
        return amount


@tracekit.agent
def sets_the_same(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.state = "open"
    return account.pay(2)


@tracekit.agent
def counts_too(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.calls += 1
    return account.pay(2)


@tracekit.agent
def builds_on_it(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.last = account.last or "none"
    return account.pay(2)


@tracekit.agent
def cannot_be_met_twice(word: str) -> object:
    slim = Slim()
    slim.pay(1)
    return slim.pay(1)


@tracekit.agent
def a_closure(word: str) -> object:
    count = 0

    @tracekit.tool(effect="write", name="send")
    def send(amount: int) -> int:
        nonlocal count
        count += 1
        return amount

    send(1)
    count += 1
    return send(2)


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[[Planner, Planner], ReplayResult]:
    """Record one agent and replay another on that."""

    def replay(agent: Planner, now: Planner) -> ReplayResult:
        tracekit.configure(store=tmp_path / "store")
        with tracekit.run(run_id="seen"):
            agent("A")
        tracekit.configure(store=tmp_path / "elsewhere")
        return replay_run("seen", planner=lambda word: now(word), store=tmp_path / "store")

    return replay


@pytest.mark.parametrize(
    "agent", [sets_the_same, counts_too, builds_on_it, cannot_be_met_twice, a_closure]
)
def test_an_agent_that_builds_on_what_a_body_set_is_no_finding(
    agent: Planner, replayed: Callable[[Planner, Planner], ReplayResult]
) -> None:
    found = replayed(agent, agent)
    assert found.verdict.kind == "inconclusive"
    assert "differs in what recorded bodies changed" in found.verdict.reasons[0]
    assert "@tool(receiver=[...])" in found.verdict.reasons[0]
    assert not [finding for finding in found.findings if finding.kind == "write refused"]


@tracekit.agent
def pays_another(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.state, account.iban = "open", "B"
    return account.pay(2)


@tracekit.agent
def pays_more(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.state = "open"
    return account.pay(3)


@tracekit.agent
def sets_before(word: str) -> object:
    account = Account(word)
    account.state = "open"
    account.pay(1)
    return account.pay(2)


@tracekit.agent
def pays_once_more(word: str) -> object:
    account = Account(word)
    account.pay(1)
    account.pay(2)
    account.calls = 7
    return account.pay(2)


@tracekit.agent
def pays_twice(word: str) -> object:
    account = Account(word)
    account.pay(1)
    return account.pay(2)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (sets_the_same, pays_another),
        (sets_the_same, pays_more),
        (sets_the_same, sets_before),
        (pays_twice, pays_once_more),
    ],
)
def test_what_differs_elsewhere_or_is_one_more_is_a_finding(
    before: Planner, now: Planner, replayed: Callable[[Planner, Planner], ReplayResult]
) -> None:
    assert replayed(before, now).verdict.kind == "fail"


def test_what_a_body_changed_is_recorded_and_what_it_left_is_not(
    replayed: Callable[[Planner, Planner], ReplayResult],
) -> None:
    first, second = replayed(pays_twice, pays_twice).recorded.calls
    assert first.body_changed == ("/self/calls", "/self/last", "/self/state")
    assert second.body_changed == ("/self/calls", "/self/last")
