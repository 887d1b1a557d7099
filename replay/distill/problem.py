"""The question that a reduction asks, with its count, its cache and its bounds.

A pass proposes, the problem decides: only what fails in the same way becomes the new best, so the
best is valid at any moment, whoever interrupts. No pass sees the failure itself. Answers are kept
by the candidate's key, since asking the same again may cost money; those of earlier sittings count
as known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from replay.distill.parallel import Ahead

T = TypeVar("T")


class Spent(Exception):  # an ending, not an error: the best so far stands
    """The budget is used up."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a reduction may cost; None is without bound."""

    calls: int | None = None
    seconds: float | None = None
    usd: float | None = None


class Answers(Protocol):
    """Answers that outlive a reduction."""

    def get(self, key: Hashable, *, asked: int = 0) -> bool | None:
        """What was answered after it had been asked so often; None where it never was."""

    def keep(self, key: Hashable, *, asked: int = 0, fails: bool) -> None:
        """Keep an answer before anything is built on it."""


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
        budget: Bounds on calls, time and money.
        clock: Seconds, for the time bound.
        spent: Dollars that the questions have cost so far, for that bound.
        progress: Told of each call.
        answers: What was answered in earlier sittings, and where answers are kept.
        ahead: Workers that answer what may be asked next.
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
        spent: Callable[[], float] | None = None,
        progress: Callable[[Problem[T]], None] | None = None,
        answers: Answers | None = None,
        ahead: Ahead[T] | None = None,
    ) -> None:
        self.best = start
        self.calls = 0
        """How often the question was really asked."""
        self.cached = 0
        """How often the answer was known."""
        self.checks = 0
        """How often an answer of an earlier sitting was put to the test."""
        self._fails = fails
        self._size = size
        self._key = key
        self._budget = budget or Budget()
        self._clock = clock
        self._spent = spent
        self._began = clock() if clock else 0.0
        self._progress = progress
        self._answers = answers
        self._ahead = ahead
        self._known: dict[Hashable, bool] = {key(start): True}
        self._sampled: Counter[Hashable] = Counter()

    @property
    def size(self) -> int:
        """How big the best is."""
        return self._size(self.best)

    @property
    def workers(self) -> int:
        """How many questions can be asked at once."""
        return self._ahead.workers if self._ahead else 1

    @property
    def wasted(self) -> int:
        """How many questions were asked ahead whose answers nobody wanted."""
        return self._ahead.unused if self._ahead else 0

    def consider(self, candidate: T) -> bool:
        """Take ``candidate`` as the new best if it is smaller and still fails.

        Raises:
            Spent: the question would have to be asked, and the budget does not allow it.
        """
        if self._size(candidate) >= self.size or not self._ask(candidate):
            return False
        self.best = candidate
        return True

    def foresee(self, candidates: Iterable[T]) -> None:
        """Begin to answer what may be asked next, the likeliest first, as many as are workers.

        Nothing depends on it but the time that it takes; what is wasted is no part of the budget's
        calls.
        """
        if self._ahead is None:
            return
        room = self._ahead.workers
        if self._budget.calls is not None:
            room = min(room, self._budget.calls - self.calls - self._ahead.unused)
        coming: dict[Hashable, T] = {}
        for candidate in candidates:
            if len(coming) >= room:
                break
            if self.recall(candidate) is None:
                coming[self._key(candidate)] = candidate
        self._ahead.plan(coming)

    def recall(self, candidate: T) -> bool | None:
        """What ``consider`` will say of ``candidate``, where that is there without asking."""
        if self._size(candidate) >= self.size:
            return False
        key = self._key(candidate)
        recalled = self._recalled(key)
        return self._ahead.known(key) if recalled is None and self._ahead else recalled

    def sample(self, candidate: T) -> bool:
        """Ask about ``candidate`` once more, whatever was answered before.

        Raises:
            Spent: the budget does not allow it.
        """
        key = self._key(candidate)
        asked = self._sampled[key]
        self._sampled[key] += 1
        if self._answers is not None:
            recalled = self._answers.get(key, asked=asked)
            if recalled is not None:
                self.cached += 1
                return recalled
        self._check_budget()
        self.calls += 1
        answer = self._fails(candidate)
        if self._answers is not None:
            self._answers.keep(key, asked=asked, fails=answer)
        if self._progress is not None:
            self._progress(self)
        return answer

    def afresh(self, candidate: T) -> bool:
        """Ask about ``candidate`` without taking or keeping an answer: a check, and no candidate.

        Raises:
            Spent: the budget does not allow it.
        """
        self._check_budget()
        self.checks += 1
        answer = self._fails(candidate)
        if self._progress is not None:
            self._progress(self)
        return answer

    def take(self, candidate: T) -> None:
        """Make ``candidate`` the best, which was sampled often enough."""
        self.best = candidate

    def key_of(self, candidate: T) -> Hashable:
        """What makes two candidates the same one."""
        return self._key(candidate)

    def _ask(self, candidate: T) -> bool:
        key = self._key(candidate)
        recalled = self._recalled(key)
        if recalled is not None:
            self.cached += 1
            return recalled
        self._check_budget()
        self.calls += 1
        answer = self._ahead.answer(key, candidate) if self._ahead else self._fails(candidate)
        if self._answers is not None:
            self._answers.keep(key, fails=answer)
        self._known[key] = answer
        if self._progress is not None:
            self._progress(self)
        return answer

    def _recalled(self, key: Hashable) -> bool | None:
        known = self._known.get(key)
        return self._answers.get(key) if known is None and self._answers is not None else known

    def _check_budget(self) -> None:
        calls, seconds, usd = self._budget.calls, self._budget.seconds, self._budget.usd
        if calls is not None and self.calls + self.checks >= calls:
            raise Spent(f"{calls} {'candidate was' if calls == 1 else 'candidates were'} allowed")
        if seconds is not None and self._clock and not self._clock() - self._began < seconds:
            raise Spent(f"{seconds:g} seconds were allowed")
        if usd is not None and self._spent and not self._spent() < usd:
            raise Spent(f"{usd:g} USD were allowed")
