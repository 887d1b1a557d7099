"""Answers that may be wrong: what is found is right as often as is promised, and what it takes."""

from __future__ import annotations

import random
import statistics

import pytest

from benchmarks.reduce_puzzles import Puzzle, scattered
from replay.distill.noisy import reduce_in_doubt
from replay.distill.passes import SequenceLayer
from replay.distill.problem import Budget, Problem, Spent
from replay.distill.sprt import Evidence, Noise, Undecided
from tests.distill.search_kit import Ints, problem_of, reduced

WRONG, SOMETIMES = Noise(0.1, 0.1), Noise(missed=0.3)
MEASURED = [(50, 2, WRONG, 80), (500, 5, WRONG, 6 * 51), (64, 2, SOMETIMES, 155)]
"""Parts, how many matter, how often an answer is wrong, runs allowed."""


def _unreliable(size: int, needed: int, noise: Noise, seed: int) -> Puzzle:
    chance = random.Random(seed)
    least = frozenset(chance.sample(range(size), needed))

    def fails(parts: frozenset[int]) -> bool:
        return chance.random() < (1 - noise.missed if least <= parts else noise.alarmed)

    return Puzzle(size, fails, least)


def _outcomes(size: int, needed: int, noise: Noise, tries: int) -> list[tuple[int, bool]]:
    found = []
    for seed in range(tries):
        puzzle = _unreliable(size, needed, noise, seed)
        problem = problem_of(puzzle)
        try:
            reduce_in_doubt(problem, [SequenceLayer[int]()], noise=noise)
        except Undecided:
            found.append((problem.calls, False))
        else:
            found.append((problem.calls, set(problem.best) == puzzle.least))
    return found


@pytest.mark.parametrize(("size", "needed", "noise", "allowed"), MEASURED)
def test_what_is_found_in_doubt_is_right_within(
    size: int, needed: int, noise: Noise, allowed: int
) -> None:
    found = _outcomes(size, needed, noise, 10)
    assert sum(right for _, right in found) >= 10
    assert statistics.median(calls for calls, _ in found) <= allowed


@pytest.mark.slow
@pytest.mark.parametrize(("size", "needed", "noise", "allowed"), MEASURED)
def test_it_is_right_in_99_of_100_tries(size: int, needed: int, noise: Noise, allowed: int) -> None:
    found = _outcomes(size, needed, noise, 1_000)
    assert sum(right for _, right in found) >= 990
    assert statistics.median(calls for calls, _ in found) <= allowed


@pytest.mark.slow
def test_in_doubt_it_takes_at_most_six_times_the_questions_without() -> None:
    sure = statistics.median(reduced(scattered(500, 5, seed))[1] for seed in range(200))
    found = _outcomes(500, 5, WRONG, 200)
    assert statistics.median(calls for calls, _ in found) <= 6 * sure


def test_an_oracle_that_answers_by_chance_is_told_and_nothing_is_made_of_it() -> None:
    chance = random.Random(5)
    whole = tuple(range(30))
    problem: Problem[Ints] = Problem(whole, fails=lambda _: chance.random() < 0.3, size=len)
    with pytest.raises(Undecided):
        reduce_in_doubt(problem, [SequenceLayer[int]()], noise=SOMETIMES)


def test_what_never_fails_again_is_no_failure() -> None:
    problem: Problem[Ints] = Problem(tuple(range(30)), fails=lambda _: False, size=len)
    with pytest.raises(Undecided, match="does not fail as often"):
        reduce_in_doubt(problem, [SequenceLayer[int]()], noise=SOMETIMES)
    assert problem.best == tuple(range(30))


def test_a_sequential_test_errs_as_seldom_as_is_stated_and_asks_less_than_a_fixed_number() -> None:
    """Wald: 3 to 5 answers on average, where the same errors take a majority of 9."""
    chance = random.Random(3)
    evidence = Evidence(WRONG)
    for number in range(2_000):
        truth = number % 2 == 0
        evidence.decide(number, lambda t=truth: (chance.random() < 0.1) != t, error=0.01)  # type: ignore[misc]  # the default binds the loop's value
    wrong = sum((evidence.weights[n] > 0) != (n % 2 == 0) for n in range(2_000))
    assert wrong <= 20
    assert statistics.mean(evidence.counts.values()) <= 5


def test_one_failure_decides_where_nothing_fails_by_chance() -> None:
    evidence = Evidence(SOMETIMES)
    assert evidence.decide("fails", lambda: True, error=0.001)
    assert not evidence.decide("passes", lambda: False, error=0.01)
    assert evidence.counts == {"fails": 1, "passes": 4}


def test_how_often_a_case_must_run_to_fail_at_least_once() -> None:
    assert SOMETIMES.repeats(0.01) == 4
    assert Noise(0).repeats(0.01) == 1
    with pytest.raises(ValueError, match="more than chance"):
        Noise(0.5, 0.5)


def test_a_budget_ends_it_with_what_is_known_to_fail() -> None:
    puzzle = _unreliable(64, 2, SOMETIMES, 1)
    problem = problem_of(puzzle, budget=Budget(calls=10))
    with pytest.raises(Spent, match="10 candidates were allowed"):
        reduce_in_doubt(problem, [SequenceLayer[int]()], noise=SOMETIMES)
    assert (puzzle.least or frozenset()) <= set(problem.best)
