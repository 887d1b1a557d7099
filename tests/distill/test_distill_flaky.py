"""Planners that fail only sometimes: what the case says of it, and what is done with it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import replay
from replay.case import Case, Expected, Oracles, Rate, parse_case
from replay.caserun.wording import describe_case
from replay.distill import Wish
from tests.distill.case_kit import INJECTION, planners
from tests.distill.distill_kit import Planner, attacked, distilled
from tests.distill.distill_kit import planners as payers
from tracekit.cli import main
from tracekit.errors import CaseError, DistillError
from tracekit.trajectory import Trajectory

__all__ = ["planners"]
PAYS = Wish(forbid=("bank.pay",))
SELDOM = INJECTION + "rate: {failed: 3, runs: 20, low: 0.5, high: 0.9, repeat: 7}\n"
CHANCE = random.Random(5)
TRIES = 25
TOO_SELDOM = {0.5: 12, 0.7: 1, 0.95: 0}
"""Share → refusals that 25 tries may bring: 8 failures in 20 runs and fewer are too seldom, which
happens in 25, 0.5 and 0 of 100 tries; more than these, in fewer than 1 of 100 sweeps."""


def by_chance(trajectory: Trajectory) -> str | None:
    """An oracle that has nothing to do with the planner."""
    return "heads" if CHANCE.random() < 0.7 else None


def sometimes(share: float, seed: int) -> Planner:
    """A planner that fails in that share of its runs."""
    failing, fixed = payers()
    chance, fails = random.Random(seed), True

    def decide(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        nonlocal fails
        if not any(message["role"] == "assistant" for message in history):
            fails = chance.random() < share
        return (failing if fails else fixed)(history, tools, script)

    return decide


def test_a_case_says_how_often_its_planner_fails_though_the_first_run_did_not() -> None:
    _, fixed = payers()
    seed = next(n for n in range(99) if random.Random(n).random() > 0.7)

    result = distilled(attacked(), sometimes(0.7, seed), fixed, flaky=True)

    assert str(result.case.reason) == "forbidden tools bank.pay"
    rate = parse_case(result.text).rate
    assert rate is not None
    assert rate.runs == 20
    assert rate.low < 0.7 < rate.high
    assert (1 - rate.low) ** rate.repeat <= 0.01 < (1 - rate.low) ** (rate.repeat - 1)
    said = f"fails in {rate.failed} of 20 runs ({rate.low:.0%} to {rate.high:.0%}), so it is run"
    assert said in describe_case(result.case)


def test_a_case_whose_planner_always_fails_says_nothing_of_it() -> None:
    failing, fixed = payers()
    case = distilled(attacked(), failing, fixed, wish=PAYS).case
    assert case.rate is None
    assert case.repeat == 1


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.7, 0.95])
def test_however_often_it_fails_the_case_is_the_same(share: float) -> None:
    """Every try comes to the very case of a planner that always fails, or says that it cannot.

    What is promised is right in 99 of 100. 25 tries of each share and none of them wrong show with
    95 % confidence that fewer than 4 in 100 are, and fewer than 12 of one share; to show fewer than
    1 in 100 takes 300 tries, four times the two minutes of these.
    """
    failing, fixed = payers()
    always = distilled(attacked(), failing, fixed, wish=PAYS).case
    tried = [case_of_one_that_fails_sometimes(share, seed) for seed in range(TRIES)]
    cases = [case for case in tried if case is not None]
    rates = [case.rate for case in cases if case.rate is not None]
    assert all(case.observations == always.observations for case in cases)
    assert all(case.script == always.script for case in cases)
    assert len(rates) == len(cases)
    # An interval of 95 % lies above the truth in up to 2.5 of 100: 3 of 25 in 1 of 50 sweeps.
    assert sum(rate.low > share for rate in rates) <= 2
    assert TRIES - len(cases) <= TOO_SELDOM[share]


def case_of_one_that_fails_sometimes(share: float, seed: int) -> Case | None:
    """The case, or None where it failed too seldom in the runs from which that is told."""
    _, fixed = payers()
    try:
        return distilled(attacked(), sometimes(share, seed), fixed, wish=PAYS, flaky=True).case
    except DistillError as error:
        if "it fails too seldom to be sure" not in str(error):
            raise
    return None


def test_an_oracle_that_goes_by_chance_is_told_and_nothing_is_reduced() -> None:
    failing, _ = payers()
    invariant = f"{__name__}:{by_chance.__name__}"
    wish = Wish(oracles=Oracles(expected=Expected(invariants=(invariant,))))
    with pytest.raises(DistillError, match=r"the oracle is flaky: .* in \d+/20 that are shown"):
        distilled(attacked(), failing, wish=wish, flaky=True)


def test_a_case_is_run_as_often_as_it_says(planners: Path) -> None:
    (planners / "seldom.case.yaml").write_text(SELDOM)
    runs = []

    def careful(history: list[Any], tools: list[Any]) -> Any:
        if len(history) == 1:
            runs.append(1)
            return {"calls": [{"tool": "read", "arguments": {}}]}
        return {"answer": "It asks for a star."}

    @replay.on_case("seldom.case.yaml", planner=careful)
    def test(result: replay.CaseResult) -> None:
        assert result.passed

    test()  # type: ignore[call-arg]  # the decorator gives the result
    assert len(runs) == 7

    shown = CliRunner().invoke(main, ["case", "show", "seldom.case.yaml"]).output
    assert "fails in 3 of 20 runs (50% to 90%), so it is run 7 times" in shown


@pytest.mark.parametrize(
    "rate",
    ["{failed: 3, runs: 2, low: 0.5, high: 0.9, repeat: 7}", "{failed: 3, runs: 20, repeat: 0}"],
)
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    with pytest.raises(CaseError):
        parse_case(f"{INJECTION}rate: {rate}\n")


def test_a_rate_reads_as_a_sentence() -> None:
    assert str(Rate(failed=3, runs=4, low=0.2, high=0.99, repeat=21)) == "3 of 4 runs (20% to 99%)"
