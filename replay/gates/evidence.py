"""What gates are judged by: measured runs, in pairs where a gate compares, sorted into buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replay.gates.grammar import PARTIAL, Metric
from replay.metrics import Count, RunMeasures

SMALL = 1e-12
"""Rounding of sums; numbers this near are equal."""
Bucket = tuple[str, str]
"""A dimension such as ``tag``, and a value."""


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """Two measured runs of one case."""

    case: str
    baseline: RunMeasures
    candidate: RunMeasures


@dataclass(frozen=True)
class Evidence:
    """What gates are judged by."""

    candidate: tuple[RunMeasures, ...]
    """Every run of the candidate; a safety gate looks at all of them."""
    samples: frozenset[str]
    """Ids of the runs that are samples; the others repeat one of them."""
    pairs: tuple[MeasuredPair, ...] = ()
    """Pairs of which both are samples."""


def runs_in(runs: Sequence[RunMeasures], bucket: Bucket | None) -> list[RunMeasures]:
    """Choose the runs of a bucket; all where none is named."""
    return [run for run in runs if bucket is None or _is_in(run, bucket)]


def _is_in(run: RunMeasures, bucket: Bucket) -> bool:
    dimension, value = bucket
    return value in run.buckets.get(dimension, ()) or (
        dimension != "tag" and f"{dimension}={value}" in run.buckets.get("tag", ())
    )


def pair_in(pair: MeasuredPair, bucket: Bucket | None) -> bool:
    """Tell whether one of the two runs is in a bucket."""
    return bucket is None or _is_in(pair.baseline, bucket) or _is_in(pair.candidate, bucket)


def counts_of(
    runs: Sequence[RunMeasures], metric: Metric, *, broken_off: bool = False
) -> dict[str, Count]:
    """Give run id → what was counted for a metric, of the runs that can be judged by it.

    Args:
        runs: To look at.
        metric: What was counted.
        broken_off: Whether also to give what runs had done that broke off before their end.
    """
    return {
        run.run_id: run.counts[metric.definition.name]
        for run in runs
        if _is_judged(run, metric, broken_off=broken_off)
    }


def paired_counts(
    pairs: Sequence[MeasuredPair], metric: Metric, *, broken_off: bool = False
) -> list[tuple[Count, Count]]:
    """Give what was counted for a metric on both sides, of pairs that can be judged by it.

    Args:
        pairs: To look at.
        metric: What was counted.
        broken_off: Whether also to give pairs of which the candidate broke off.
    """
    name = metric.definition.name
    return [
        (pair.baseline.counts[name], pair.candidate.counts[name])
        for pair in pairs
        if _is_judged(pair.baseline, metric)
        and _is_judged(pair.candidate, metric, broken_off=broken_off)
    ]


def unevaluated(runs: Iterable[RunMeasures], metric: Metric) -> list[RunMeasures]:
    """List the runs that nothing is known of, and that may be the very ones that went wrong."""
    exempt = metric.definition.name in PARTIAL
    return [
        run
        for run in runs
        if not _is_judged(run, metric) and not (exempt and _broke_off(run, metric) is None)
    ]


def why_not(run: RunMeasures, metric: Metric) -> str:
    """Say why a run cannot be judged by a metric."""
    return _broke_off(run, metric) or run.missing.get(metric.definition.name, "no data")


def is_past(count: Count, metric: Metric, bound: float) -> bool:
    """Whether a run that broke off had gone too far by then; it would not have come back."""
    value = count.value or 0.0
    return value > bound + SMALL if metric.definition.better == "lower" else value < bound - SMALL


def both(pairs: Iterable[MeasuredPair]) -> list[RunMeasures]:
    """List the runs of pairs."""
    return [run for pair in pairs for run in (pair.baseline, pair.candidate)]


def _is_judged(run: RunMeasures, metric: Metric, *, broken_off: bool = False) -> bool:
    known = metric.definition.name in run.counts
    return known and (broken_off or _broke_off(run, metric) is None)


def _broke_off(run: RunMeasures, metric: Metric) -> str | None:
    """Say how a run broke off, if that makes it look better; or that it is damaged."""
    return run.broken_off if metric.definition.to_the_end or not run.counts else None
