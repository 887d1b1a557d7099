"""What gates are judged by: measured runs, in pairs where a gate compares, sorted into buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replay.gates.grammar import Metric
from replay.metrics import Count, RunMeasures

SMALL = 1e-12
"""Rounding of sums; numbers this near are equal."""
Bucket = tuple[str, str]
"""A dimension such as ``tag``, and a value."""
Counts = tuple[Count, Count]
"""Of the two runs of a pair."""
_NOTHING = Count(0, 0)


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
    runs: Sequence[RunMeasures], metric: Metric, *, broken_off: bool = False, each: bool = False
) -> dict[str, Count]:
    """Give run id → what was counted for a metric, of the runs that can be judged by it.

    Args:
        runs: To look at.
        metric: What was counted.
        broken_off: Whether also to give what runs had done that broke off before their end.
        each: Whether each is judged by itself, so that it needs a value of its own; else a ratio
            adds up, and a run with nothing to divide by adds to what is divided.
    """
    found = {run.run_id: _judged(run, metric, broken_off=broken_off, each=each) for run in runs}
    return {run_id: one for run_id, one in found.items() if one is not None}


def paired_counts(
    pairs: Sequence[MeasuredPair],
    metric: Metric,
    *,
    broken_off: bool = False,
    each: bool = False,
) -> list[Counts]:
    """Give what was counted for a metric on both sides, of pairs that can be judged by it.

    Args:
        pairs: To look at.
        metric: What was counted.
        broken_off: Whether also to give pairs of which the candidate broke off.
        each: As for ``counts_of``. Where sums are compared, a run that has no part adds nothing to
            its side, and its partner adds to the other.
    """
    found = []
    for pair in pairs:
        one = _judged(pair.baseline, metric, each=each)
        two = _judged(pair.candidate, metric, broken_off=broken_off, each=each)
        if _adds_up(metric, each=each) and (one is not None or two is not None):
            one = _NOTHING if one is None and _has_no_part(pair.baseline, metric) else one
            two = _NOTHING if two is None and _has_no_part(pair.candidate, metric) else two
        if one is not None and two is not None:
            found.append((one, two))
    return found


def unevaluated(
    runs: Iterable[RunMeasures], metric: Metric, *, each: bool = False
) -> list[RunMeasures]:
    """List the runs that nothing is known of, and that may be the very ones that went wrong.

    A run that a metric is not about is none: where nothing failed, nothing could be mended.
    """
    return [
        run
        for run in runs
        if _judged(run, metric, each=each) is None and not _has_no_part(run, metric)
    ]


def unevaluated_pairs(
    pairs: Iterable[MeasuredPair], metric: Metric, *, each: bool = False
) -> list[RunMeasures]:
    """List, of each pair that cannot be compared, the run that keeps it from that.

    Pairs are none that the metric is not about on either side.
    """
    found = []
    for pair in pairs:
        sides = both([pair])
        if paired_counts([pair], metric, each=each) or all(_has_no_part(s, metric) for s in sides):
            continue
        missing = unevaluated(sides, metric, each=each)
        missing += [run for run in sides if _judged(run, metric, each=each) is None]
        found.append(missing[0])
    return found


def why_not(run: RunMeasures, metric: Metric) -> str:
    """Say why a run cannot be judged by a metric."""
    if (broken := _broke_off(run, metric)) is not None:
        return broken
    if metric.definition.name in run.counts:
        return f"by itself it has no value: no {metric.definition.denominator}"
    return run.missing.get(metric.definition.name, "no data")


def is_past(count: Count, metric: Metric, bound: float) -> bool:
    """Whether a run that broke off had gone too far by then; it would not have come back."""
    value = count.value or 0.0
    return value > bound + SMALL if metric.definition.better == "lower" else value < bound - SMALL


def both(pairs: Iterable[MeasuredPair]) -> list[RunMeasures]:
    """List the runs of pairs."""
    return [run for pair in pairs for run in (pair.baseline, pair.candidate)]


def _judged(
    run: RunMeasures, metric: Metric, *, broken_off: bool = False, each: bool = False
) -> Count | None:
    """Give what a run is judged by; None where it cannot be."""
    found = run.counts.get(metric.definition.name)
    if found is None or (not broken_off and _broke_off(run, metric) is not None):
        return None
    return found if found.denominator or _adds_up(metric, each=each) else None


def _adds_up(metric: Metric, *, each: bool) -> bool:
    return metric.definition.form == "ratio" and not each


def _has_no_part(run: RunMeasures, metric: Metric) -> bool:
    return metric.definition.name in run.exempt and _broke_off(run, metric) is None


def _broke_off(run: RunMeasures, metric: Metric) -> str | None:
    """Say how a run broke off, if that makes it look better; or that it is damaged."""
    return run.broken_off if metric.definition.to_the_end or not run.counts else None
