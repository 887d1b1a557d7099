"""What gates are judged by: measured runs, in pairs where a gate compares, sorted into buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.gates.grammar import Metric
from replay.metrics import Count, RunMeasures

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


def counts_of(runs: Sequence[RunMeasures], metric: Metric) -> dict[str, Count]:
    """Give run id → what was counted for a metric, of the runs with data."""
    name = metric.definition.name
    return {run.run_id: run.counts[name] for run in runs if name in run.counts}


def paired_counts(pairs: Sequence[MeasuredPair], metric: Metric) -> list[tuple[Count, Count]]:
    """Give what was counted for a metric on both sides, of pairs with both."""
    name = metric.definition.name
    return [
        (pair.baseline.counts[name], pair.candidate.counts[name])
        for pair in pairs
        if name in pair.baseline.counts and name in pair.candidate.counts
    ]


def unevaluated(pairs: Sequence[MeasuredPair], metric: Metric) -> list[RunMeasures]:
    """List the runs of some pairs that have no data for a metric."""
    name = metric.definition.name
    runs = (run for pair in pairs for run in (pair.baseline, pair.candidate))
    return [run for run in runs if name not in run.counts]
