"""What measuring gives: every number as numerator and denominator, with where they come from.

A metric of one run is a ``Count``; that of many runs sums numerators and denominators, so that any
table can be recomputed by hand. What there is no data for is not there: ``n/a``, never 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from replay.metrics.definitions import DEFINITIONS, Definition
from replay.stats import Interval, Proportion, Sample, mean, quantile, ratio
from tracekit.quantities import is_amount
from tracekit.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used, as far as its record says, and as it says it.

    What cannot be, such as a cost below nothing, is not counted, and the run is told of.
    """

    tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    """Of a replay it is modelled: its clock advances by what was recorded."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run, and what its trajectory does not tell: what it used."""

    trajectory: Trajectory
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Count:
    """A numerator over a denominator, and the same by part.

    Raises:
        ValueError: one of them is less than nothing, or more than anything can be.
    """

    numerator: float
    denominator: float
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Part → its numerator and denominator: the fields of ``argument_accuracy``, the tools."""

    def __post_init__(self) -> None:
        if not (is_amount(self.numerator) and is_amount(self.denominator)):
            raise ValueError(f"{self.numerator} over {self.denominator} is no count")

    @property
    def value(self) -> float | None:
        """The quotient; None of nothing."""
        return self.numerator / self.denominator if self.denominator else None


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no count of a metric on a run."""

    why: str
    kind: Literal["unsaid", "no part", "odd"] = "unsaid"
    """``no part``: the metric is not about the run. ``odd``: its record says what cannot be."""


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """The metrics of one run."""

    run_id: str
    task_id: str | None
    counts: Mapping[str, Count]
    """Metric → what was counted; a metric without data is missing."""
    missing: Mapping[str, str]
    """Metric → why there is no data for it."""
    sample: Sample
    """What tells whether it repeats another run."""
    exempt: frozenset[str] = frozenset()
    """Those of the missing that are not about the run: where no call failed, none was mended.

    Of the others nobody said what they come to, and it may be the worst.
    """
    odd: tuple[str, ...] = ()
    """What its record says that cannot be, and is not counted: a cost below nothing."""
    buckets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What it may be sorted by (source, tool, risk, tag, difficulty, ...) → its values."""

    broken_off: str | None = None
    """How it broke off, so that its counts are not whole; None where it went to its end."""

    attempt_of: tuple[str, ...] = ()
    """What it tried: agent, versions, task and attack; empty where it names no task."""

    def value(self, metric: str) -> float | None:
        """Give one metric; None where there is no data."""
        count = self.counts.get(metric)
        return None if count is None else count.value


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric over some runs."""

    definition: Definition
    numerator: float | None
    denominator: float | None
    value: float | None
    """None without data."""
    n: int
    """Runs that have data for it."""
    of: int
    """Runs that were measured."""
    samples: tuple[Count, ...] = ()
    """What was counted in each of the ``n`` runs."""

    @property
    def parts(self) -> Mapping[str, tuple[float, float]]:
        """The same by part: the fields of ``argument_accuracy``, the tools of rates of calls."""
        summed: dict[str, tuple[float, float]] = {}
        for one in self.samples:
            for name, (top, below) in one.parts.items():
                before = summed.get(name, (0.0, 0.0))
                summed[name] = (before[0] + top, before[1] + below)
        return summed

    def interval(self, *, seed: int = 0) -> Interval | None:
        """Give the 95 % interval: Wilson's of shares of runs, else by drawing runs anew.

        A rate of calls that is 0 or 1 in every run is bounded as if each run were one sample. There
        is none of quantities that are all equal: they say nothing of how far others may lie.
        """
        tops = [one.numerator for one in self.samples]
        if self.definition.form in ("mean", "quantile") and len(set(tops)) < 2:
            return None
        match self.definition.form:
            case "share":
                return Proportion(round(sum(tops)), len(tops)).wilson()
            case "quantile":
                assert self.definition.quantile is not None
                return quantile(tops, self.definition.quantile, seed=seed).interval
            case "mean":
                return mean(tops, seed=seed).interval
            case "ratio" if (agreed := self._agreed()) is not None:
                return Proportion(agreed * len(tops), len(tops)).wilson()
            case "ratio":
                parts = [(one.numerator, one.denominator) for one in self.samples]
                return ratio(parts, seed=seed).interval

    def _agreed(self) -> int | None:
        """Give the rate that every run has, where it is 0 or 1: drawing them anew shows nothing."""
        if self.definition.unit != "%" or self.definition.above_one:
            return None
        rates = {one.value for one in self.samples}
        return next((rate for rate in (0, 1) if rates == {rate}), None)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some runs, and the metrics over them."""

    name: str
    runs: tuple[RunMeasures, ...]
    measures: Mapping[str, Measure]


__all__ = [
    "DEFINITIONS",
    "Bucket",
    "Count",
    "Definition",
    "Measure",
    "MeasuredRun",
    "Missing",
    "RunMeasures",
    "Usage",
]
