"""What the statistics give: values with the interval they come in. Without data there is none.

A number alone is never the answer: it comes with how many samples it rests on and how far it can be
trusted, and where there is no sample it is None, neither 0 nor 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from tracekit.canonical import JsonValue

CONFIDENCE = 0.95
ALPHA = 0.05
"""Two-sided: the share of comparisons of equals that may be called a difference."""
POWER = 0.8
"""How often a difference of the size in question is to be found where it is there."""
RESAMPLES = 9_999

Better = Literal["higher", "lower"]
PairedVerdict = Literal["better", "worse", "no worse", "inconclusive", "not evaluated"]
"""``no worse``: not worse by more than the margin that was asked for."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From where to where a value may lie."""

    low: float
    high: float
    confidence: float
    method: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the interval as JSON."""
        return dict(asdict(self))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value that was computed of samples."""

    name: str
    value: float | None
    """None without data."""
    interval: Interval | None
    """None where the samples do not give one: fewer than two."""
    n: int
    """Samples that it rests on."""
    note: str | None = None
    """What a reader must know to trust it rightly."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the estimate as JSON."""
        interval = None if self.interval is None else self.interval.as_dict()
        return {
            "name": self.name,
            "value": self.value,
            "interval": interval,
            "n": self.n,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Paired:
    """Two versions compared on the same cases."""

    name: str
    n: int
    """Pairs."""
    baseline: float | None
    candidate: float | None
    delta: float | None
    """Candidate minus baseline; as a share of the baseline where ``relative``."""
    interval: Interval | None
    """Of ``delta``."""
    p: float | None
    """How often equals differ as much as this or more, two-sided."""
    verdict: PairedVerdict
    reason: str
    """The verdict in words."""
    lost: int | None = None
    """Pairs in which only the baseline succeeded; None where nothing succeeds or fails."""
    gained: int | None = None
    """Pairs in which only the candidate succeeded."""
    needed: int | None = None
    """Where inconclusive: pairs that find a difference of this size with power ``power``."""
    relative: bool = False
    alpha: float = ALPHA
    power: float = POWER

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the comparison as JSON."""
        interval = None if self.interval is None else self.interval.as_dict()
        return {
            name: interval if name == "interval" else getattr(self, name)
            for name in self.__dataclass_fields__
        }
