"""Puzzles handed to the reduction, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.reduce_puzzles import Puzzle
from replay.distill.passes import SequenceLayer, reduce
from replay.distill.problem import Problem

Ints = tuple[int, ...]
Fails = Callable[[Ints], bool]


@dataclass(frozen=True)
class Steps(SequenceLayer[int]):
    """Steps that know what they need."""

    wanted: Mapping[int, Collection[int]] = field(default_factory=dict)

    def needs(self, whole: Ints) -> Mapping[Hashable, Collection[Hashable]]:
        """Place → places that it needs."""
        at = {step: place for place, step in enumerate(whole)}
        return {
            at[step]: [at[other] for other in self.wanted.get(step, ()) if other in at]
            for step in whole
        }


@dataclass(frozen=True)
class Guessed(SequenceLayer[int]):
    """Elements with a guess at those that matter."""

    guess: frozenset[int] = frozenset()

    def likely(self, whole: Ints) -> Sequence[Hashable]:
        """Their places."""
        return [place for place, part in enumerate(whole) if part in self.guess]


def problem_of(puzzle: Puzzle, **given: object) -> Problem[Ints]:
    """Ask whether the puzzle fails."""
    return Problem(
        tuple(range(puzzle.size)),
        fails=lambda parts: puzzle.fails(frozenset(parts)),
        size=len,
        **given,  # type: ignore[arg-type]  # what a problem takes
    )


def reduced(puzzle: Puzzle, layer: SequenceLayer[int] | None = None) -> tuple[Ints, int]:
    """What is left, and the questions that it took, the one about the whole counted."""
    problem = problem_of(puzzle)
    assert puzzle.fails(frozenset(problem.best))
    reduce(problem, [layer or SequenceLayer[int]()])
    return problem.best, problem.calls + 1
