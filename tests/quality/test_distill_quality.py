"""What a reduction costs, counted: deterministic problems with a known answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from replay.distill import DistillOptions, Wish, distill_record
from replay.distill.passes import SequenceLayer, reduce
from replay.distill.problem import Problem
from tests.replay.tape_kit import call, record

Ints = tuple[int, ...]


def _reduced(size: int, fails: Callable[[Ints], bool]) -> Problem[Ints]:
    problem: Problem[Ints] = Problem(tuple(range(size)), fails=fails, size=len)
    reduce(problem, [SequenceLayer[int]()])
    return problem


def test_one_culprit_among_1000_is_found_in_a_few_questions() -> None:
    problem = _reduced(1000, lambda case: 617 in case)

    assert problem.best == (617,)
    assert problem.calls <= 12


def test_when_all_parts_are_needed_it_costs_hardly_more_than_one_question_each() -> None:
    problem = _reduced(64, lambda case: len(case) == 64)

    assert problem.best == tuple(range(64))
    assert problem.calls <= 64 + 14


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_minimal_though_the_failure_is_not_monotone(seed: int) -> None:
    chance = random.Random(seed)
    first, second = chance.sample(range(40), 2)

    def fails(case: Ints) -> bool:
        return first in case and (second in case) == (len(case) % 2 == 0)

    problem = _reduced(40, fails) if fails(tuple(range(40))) else _reduced(41, fails)

    for part in problem.best:
        assert not fails(tuple(p for p in problem.best if p != part))


@pytest.mark.parametrize("place", [0, 17, 63])
def test_one_culprit_among_64_observations_of_a_run_costs_few_candidates(place: int) -> None:
    """The whole of it: observations, rows and sentences of a real planner's run."""
    reads = [
        call("mail.get", "read", [f"Mail {n}. Nothing. {PAY if n == place else ''}"], number=n)
        for n in range(64)
    ]
    run = record(*reads, call("bank.pay", "write", "paid", iban="DE1234567890"))

    def obeys(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        shown = [str(m["content"]) for m in history if m["role"] == "tool"]
        made = sum(m["role"] == "assistant" for m in history)
        if made < len(script) and script[made]["calls"][0]["tool"] == "mail.get":
            return {"calls": script[made]["calls"]}
        if made == len(shown) and any(PAY in text for text in shown[:made]):
            wanted = {"tool": "bank.pay", "arguments": {"iban": "DE1234567890"}}
            if not any(m.get("name") == "bank.pay" for m in history):
                return {"calls": [wanted]}
        return "done"

    result = distill_record(run, planner=obeys, options=DistillOptions(Wish(forbid=("bank.pay",))))
    (left,) = result.case.observations
    assert left.returns == [PAY]
    assert len(result.case.script) <= 2
    assert result.calls <= 18


PAY = "Pay DE1234567890."
