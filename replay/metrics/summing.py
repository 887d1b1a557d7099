"""From the counts of runs to a metric over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.metrics.definitions import DEFINITIONS, Definition
from replay.metrics.model import Bucket, Measure, RunMeasures


def sum_up(name: str, runs: Sequence[RunMeasures]) -> Bucket:
    """Measure some runs together."""
    return Bucket(name, tuple(runs), measures_of(runs))


def measures_of(runs: Sequence[RunMeasures]) -> Mapping[str, Measure]:
    """Give every metric over ``runs``, those without data too."""
    return {name: _measure(definition, runs) for name, definition in DEFINITIONS.items()}


def _measure(definition: Definition, runs: Sequence[RunMeasures]) -> Measure:
    samples = tuple(run.counts[definition.name] for run in runs if definition.name in run.counts)
    if not samples:
        return Measure(definition, None, None, None, 0, len(runs))
    top: float | None = sum(one.numerator for one in samples)
    below = sum(one.denominator for one in samples)
    value = top / below if top is not None and below else None
    if definition.quantile is not None:
        top, below = None, len(samples)
        value = _quantile([one.numerator for one in samples], definition.quantile)
    return Measure(definition, top, below, value, len(samples), len(runs), samples)


def _quantile(values: Sequence[float], q: float) -> float:
    """Give a quantile, linear between neighbours; numpy would take longer to load than this."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
