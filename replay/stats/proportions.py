"""Shares of samples: how many of them did, and between what the true share may lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replay.stats.model import CONFIDENCE, Interval
from tracekit.canonical import JsonValue

_METHODS: dict[str, Literal["wilson", "exact"]] = {"wilson": "wilson", "clopper-pearson": "exact"}


@dataclass(frozen=True, slots=True)
class Proportion:
    """So many of so many."""

    successes: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.n:
            raise ValueError(f"{self.successes} of {self.n} is no proportion")

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.successes / self.n if self.n else None

    def wilson(self, *, confidence: float = CONFIDENCE) -> Interval | None:
        """Give the score interval of Wilson (1927): near its confidence on average."""
        return self._interval("wilson", confidence)

    def clopper_pearson(self, *, confidence: float = CONFIDENCE) -> Interval | None:
        """Give the exact interval of Clopper and Pearson (1934): never below its confidence."""
        return self._interval("clopper-pearson", confidence)

    def _interval(self, name: str, confidence: float) -> Interval | None:
        if not self.n:
            return None
        from scipy.stats import binomtest

        found = binomtest(self.successes, self.n).proportion_ci(
            confidence_level=confidence, method=_METHODS[name]
        )
        return Interval(float(found.low), float(found.high), confidence, name)

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the proportion as JSON, with both intervals."""
        wilson, exact = self.wilson(), self.clopper_pearson()
        return {
            "successes": self.successes,
            "n": self.n,
            "value": self.value,
            "wilson": None if wilson is None else wilson.as_dict(),
            "clopper_pearson": None if exact is None else exact.as_dict(),
        }
