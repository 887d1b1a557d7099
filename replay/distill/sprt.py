"""Questions whose answers may be wrong, asked until their errors are bounded.

Wald's sequential test ("Sequential Tests of Statistical Hypotheses", Annals of Mathematical
Statistics 16, 1945): the evidence for "it fails" against "it passes" is added up, answer by answer,
until it is beyond what the error that is allowed asks for. It needs about half as many answers as a
fixed number would, and it knows when it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import inf, log

_MOST = 200
"""Answers after which a question that is still open will not be decided."""


class Undecided(Exception):  # an ending, not an error: the best so far stands
    """The answers contradict each other more than their noise explains."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How often an answer is wrong."""

    missed: float
    """The chance that what fails passes when it is asked about once."""
    alarmed: float = 0.0
    """The chance that what passes fails; 0 for a planner that errs only sometimes."""

    def __post_init__(self) -> None:
        if not (0 <= self.missed < 1 and 0 <= self.alarmed < 1 - self.missed):
            raise ValueError("answers must tell more than chance: missed + alarmed < 1")

    def weight(self, *, fails: bool) -> float:
        """The evidence of one answer that it fails; below 0 that it passes."""
        if fails:
            return inf if self.alarmed == 0 else log((1 - self.missed) / self.alarmed)
        return -inf if self.missed == 0 else log(self.missed / (1 - self.alarmed))

    def repeats(self, error: float) -> int:
        """How often a case that fails has to be run to see it fail, but for that error."""
        return 1 if self.missed == 0 else max(1, -int(log(error) / -log(self.missed) // 1))


@dataclass
class Evidence:
    """What the answers say, by question."""

    noise: Noise
    weights: dict[Hashable, float] = field(default_factory=dict)
    counts: dict[Hashable, int] = field(default_factory=dict)

    def add(self, key: Hashable, *, fails: bool) -> None:
        """Count one answer."""
        self.weights[key] = self.weights.get(key, 0.0) + self.noise.weight(fails=fails)
        self.counts[key] = self.counts.get(key, 0) + 1

    def decide(self, key: Hashable, ask: Callable[[], bool], *, error: float) -> bool:
        """Ask until it is clear whether it fails, wrong in at most ``error`` of all cases.

        Raises:
            Undecided: it does not get clear.
        """
        bound = log((1 - error) / error)
        while abs(weight := self.weights.get(key, 0.0)) < bound:
            if self.counts.get(key, 0) >= _MOST:
                raise Undecided(f"{_MOST} answers to one question leave it open")
            self.add(key, fails=ask())
        return weight > 0
