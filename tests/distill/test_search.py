"""What the search for needed parts asks: counted, and true whatever the failure is."""

from __future__ import annotations

import random
import statistics
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reduce_classics import ddmin, probdd
from benchmarks.reduce_puzzles import SUITE, Puzzle, dependent, scattered
from replay.distill.search import Search, begin, foreseen
from tests.distill.search_kit import Guessed, Steps, reduced

MEASURED = [
    # parts, needed, questions allowed: the first check and the proof counted
    (64, 1, 9),
    (64, 3, 25),
    (64, 8, 62),
    (256, 1, 11),
    (256, 3, 31),
    (500, 5, 55),
]


def _median(size: int, needed: int, placements: int) -> float:
    costs = []
    for seed in range(placements):
        puzzle = scattered(size, needed, seed)
        best, calls = reduced(puzzle)
        assert set(best) == puzzle.least
        costs.append(calls)
    return statistics.median(costs)


@pytest.mark.parametrize(("size", "needed", "allowed"), MEASURED)
def test_needed_parts_are_found_and_proved_within(size: int, needed: int, allowed: int) -> None:
    assert _median(size, needed, 40) <= allowed


@pytest.mark.slow
@pytest.mark.parametrize(("size", "needed", "allowed"), MEASURED)
def test_needed_parts_are_found_within_at_200_placements(
    size: int, needed: int, allowed: int
) -> None:
    assert _median(size, needed, 200) <= allowed


@pytest.mark.parametrize("needed", [1, 3, 8])
def test_a_right_guess_is_proved_in_three_questions_more_than_parts(needed: int) -> None:
    for seed in range(20):
        puzzle = scattered(64, needed, seed)
        assert puzzle.least is not None
        best, calls = reduced(puzzle, Guessed(guess=puzzle.least))
        assert set(best) == puzzle.least
        assert calls <= needed + 3


def test_a_guess_that_leaves_something_out_costs_one_question_and_no_truth() -> None:
    for seed in range(20):
        puzzle = scattered(64, 3, seed)
        assert puzzle.least is not None
        best, calls = reduced(puzzle, Guessed(guess=puzzle.least - {min(puzzle.least)}))
        assert set(best) == puzzle.least
        assert calls <= 30


@pytest.mark.parametrize(
    ("needed", "known", "allowed"), [(2, False, 55), (5, False, 110), (2, True, 24), (5, True, 60)]
)
def test_steps_that_need_each_other_are_found_to_the_exact_minimum(
    needed: int, known: bool, allowed: int
) -> None:
    costs = []
    for seed in range(20):
        puzzle = dependent(500, needed, seed)
        best, calls = reduced(puzzle, Steps(wanted=puzzle.needs) if known else None)
        assert set(best) == puzzle.least
        costs.append(calls)
    assert statistics.median(costs) <= allowed


@pytest.mark.parametrize("kind", SUITE)
def test_no_kind_of_failure_costs_more_than_ddmin_or_leaves_more(kind: str) -> None:
    _compare(kind, 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SUITE)
def test_no_kind_of_failure_costs_more_than_ddmin_at_200_placements(kind: str) -> None:
    _compare(kind, 200)


def _compare(kind: str, placements: int) -> None:
    draw, size, needed = SUITE[kind]
    ours, theirs, left, their_left = [], [], [], []
    for seed in range(placements):
        puzzle = draw(size, needed, seed)
        best, calls = reduced(puzzle)
        _is_minimal(puzzle, best)
        other, other_calls = ddmin(size, puzzle.fails)
        ours.append(calls)
        theirs.append(other_calls)
        left.append(len(best))
        their_left.append(len(other))
    assert statistics.median(ours) <= statistics.median(theirs)
    assert statistics.median(left) <= statistics.median(their_left)


def _is_minimal(puzzle: Puzzle, best: tuple[int, ...]) -> None:
    left = frozenset(best)
    assert puzzle.fails(left)
    assert not any(puzzle.fails(left - {part}) for part in left)


@given(st.integers(0, 24), st.randoms(use_true_random=False))
def test_what_is_left_is_minimal_whatever_fails(size: int, chance: random.Random) -> None:
    """Any answer to any set, drawn when it is first asked for."""
    drawn = {frozenset(range(size)): True}

    def fails(parts: frozenset[int]) -> bool:
        return drawn.setdefault(parts, chance.random() < 0.4)

    puzzle = Puzzle(size, fails)
    best, _ = reduced(puzzle)
    _is_minimal(puzzle, best)


@pytest.mark.parametrize("seed", range(5))
def test_the_classics_find_what_they_are_known_to_find(seed: int) -> None:
    puzzle = scattered(64, 3, seed)
    for reduction in (ddmin, probdd):
        best, calls = reduction(64, puzzle.fails)
        assert set(best) == puzzle.least
        assert calls <= 90


def test_what_is_foreseen_begins_with_the_question_and_holds_both_next_ones() -> None:
    search = begin(64).after(fails=False)
    first, *others = islice(foreseen(search, lambda _: None), 3)
    assert first == search.question
    assert {search.after(fails=True).question, search.after(fails=False).question} >= set(others)


def test_a_search_is_a_value_that_answers_do_not_change() -> None:
    search = begin(8)
    before = search.question
    search.after(fails=False)
    assert search.question == before
    assert isinstance(search.after(fails=True), Search)
    assert begin(0).over
