"""The question that a reduction asks, with its count, its cache and its bounds.

A pass proposes, the problem decides: only what fails in the same way becomes the new best, so the
best is valid at any moment, whoever interrupts. No pass sees the failure itself. Answers are kept
by the candidate's key, since asking the same again may cost money.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class Spent(Exception):  # an ending, not an error: the best so far stands
    """The budget is used up."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a reduction may cost; None is without bound."""

    calls: int | None = None
    seconds: float | None = None


def _itself(candidate: object) -> Hashable:
    assert isinstance(candidate, Hashable)
    return candidate


class Problem(Generic[T]):
    """The smallest thing known that still fails.

    Args:
        start: What is known to fail.
        fails: Whether a candidate fails in the same way.
        key: What makes two candidates the same one.
        size: What makes a candidate smaller; fewer is smaller.
        budget: Bounds on calls and time.
        clock: Seconds, for the time bound.
        progress: Told of each call.
    """

    def __init__(
        self,
        start: T,
        *,
        fails: Callable[[T], bool],
        size: Callable[[T], int],
        key: Callable[[T], Hashable] = _itself,
        budget: Budget | None = None,
        clock: Callable[[], float] | None = None,
        progress: Callable[[Problem[T]], None] | None = None,
    ) -> None:
        self.best = start
        self.calls = 0
        """How often the question was really asked."""
        self.cached = 0
        """How often the answer was known."""
        self._fails = fails
        self._size = size
        self._key = key
        self._budget = budget or Budget()
        self._clock = clock
        self._began = clock() if clock else 0.0
        self._progress = progress
        self._known: dict[Hashable, bool] = {key(start): True}

    @property
    def size(self) -> int:
        """How big the best is."""
        return self._size(self.best)

    def consider(self, candidate: T) -> bool:
        """Take ``candidate`` as the new best if it is smaller and still fails.

        Raises:
            Spent: the question would have to be asked, and the budget does not allow it.
        """
        if self._size(candidate) >= self.size or not self._ask(candidate):
            return False
        self.best = candidate
        return True

    def _ask(self, candidate: T) -> bool:
        key = self._key(candidate)
        if key in self._known:
            self.cached += 1
            return self._known[key]
        self._check_budget()
        self.calls += 1
        answer = self._fails(candidate)
        self._known[key] = answer
        if self._progress is not None:
            self._progress(self)
        return answer

    def _check_budget(self) -> None:
        calls, seconds = self._budget.calls, self._budget.seconds
        if calls is not None and self.calls >= calls:
            raise Spent(f"{calls} {'candidate was' if calls == 1 else 'candidates were'} allowed")
        if seconds is not None and self._clock and not self._clock() - self._began < seconds:
            raise Spent(f"{seconds:g} seconds were allowed")
