"""Means, quantiles and ratios with intervals that come from drawing the samples anew.

The bootstrap is scipy's; the seed is an argument, so that the same numbers give the same interval.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from math import ceil, isfinite, log
from typing import Any

from replay.stats.model import CONFIDENCE, RESAMPLES, Estimate, Interval

_FEWEST, _WORK = 1_999, 20_000_000
CELLS = 4_000_000
"""Numbers held at once while drawing: memory does not grow with the samples."""


TOO_LARGE = "the values are too large to be added up"
"""Why there is no value where a sum would be more than a float holds."""


def too_large(values: Iterable[float]) -> bool:
    """Tell whether as many of the largest, twice, are more than a float holds.

    Raises:
        ValueError: a value is no finite number.
    """
    sizes = [abs(value) for value in values]
    if not all(map(isfinite, sizes)):
        raise ValueError("a value is no finite number")
    return max(sizes, default=0.0) > sys.float_info.max / (2 * max(1, len(sizes)))


def mean(
    values: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Give the mean of ``values`` with its bootstrap interval."""
    import numpy as np

    return _estimate("mean", np.mean, values, confidence, seed, resamples)


def quantile(
    values: Sequence[float],
    q: float,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Give the ``q`` quantile of ``values``, linear between neighbours, with its interval.

    Raises:
        ValueError: ``q`` is not from 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"q is {q}; a quantile is from 0 to 1")
    import numpy as np

    def at(sample: Any, axis: int = -1) -> Any:
        return np.quantile(sample, q, axis=axis)

    found = _estimate(f"p{100 * q:g}", at, values, confidence, seed, resamples)
    fewest = values_for_quantile(q, confidence=confidence)
    if found.interval is None or found.n >= fewest:
        return found
    note = f"the interval is too narrow: {fewest} values are needed to bound {found.name}"
    return Estimate(found.name, found.value, found.interval, found.n, note)


def values_for_quantile(q: float, *, confidence: float = CONFIDENCE) -> int:
    """Count the values of which the greatest and the least bound the ``q`` quantile.

    All of n lie below it with probability q**n, and all above with (1 - q)**n; fewer than this and
    no interval within the sample can be trusted, the bootstrap's neither.
    """
    worst = max(q, 1 - q)
    return 1 if worst >= 1 else max(2, ceil(log((1 - confidence) / 2) / log(worst)))


def ratio(
    parts: Sequence[tuple[float, float]],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Give the sum of the numerators over that of the denominators; runs are drawn whole.

    Calls of one run are not independent of one another, so that an interval that takes them for
    samples is too narrow.
    """
    if too_large(number for part in parts for number in part):
        return Estimate("ratio", None, None, len(parts), TOO_LARGE)
    below = sum(bottom for _, bottom in parts)
    if not below:
        return Estimate("ratio", None, None, len(parts))
    value = sum(top for top, _ in parts) / below
    if not isfinite(value):
        return Estimate("ratio", None, None, len(parts), "it is divided by next to nothing")
    if len(parts) < 2:
        return Estimate("ratio", value, None, len(parts))
    import numpy as np

    def over(tops: Any, bottoms: Any, axis: int = -1) -> Any:
        whole = bottoms.sum(axis=axis)
        return np.divide(
            tops.sum(axis=axis), whole, out=np.full_like(whole, value), where=whole != 0
        )

    columns = np.asarray(parts, dtype=float).T
    interval = interval_of(tuple(columns), over, confidence=confidence, seed=seed, draws=resamples)
    return Estimate("ratio", value, interval, len(parts))


def enough(size: int, draws: int) -> int:
    """Tell how often to draw ``size`` samples."""
    return min(draws, max(_FEWEST, _WORK // size))


def _estimate(
    name: str,
    statistic: Callable[..., Any],
    values: Sequence[float],
    confidence: float,
    seed: int,
    resamples: int,
) -> Estimate:
    import numpy as np

    if too_large(values):
        return Estimate(name, None, None, len(values), TOO_LARGE)
    sample = np.asarray(values, dtype=float)
    if not len(sample):
        return Estimate(name, None, None, 0)
    value = float(statistic(sample))
    if len(sample) < 2:
        return Estimate(name, value, None, 1)
    interval = interval_of((sample,), statistic, confidence=confidence, seed=seed, draws=resamples)
    same = bool((sample == sample[0]).all())
    note = "all values are equal: they say nothing of how far others may lie" if same else None
    return Estimate(name, value, interval, len(sample), note)


def interval_of(
    columns: tuple[Any, ...],
    statistic: Callable[..., Any],
    *,
    confidence: float,
    seed: int,
    draws: int,
) -> Interval:
    """Draw rows of ``columns`` anew and take the middle of what ``statistic`` comes to.

    The percentile interval: BCa is undefined where leaving any one sample out changes nothing,
    which is usual for a quantile. Of very many samples fewer drawings are made; the intervals of
    those are narrow, and their ends known well enough.
    """
    import numpy as np
    from scipy.stats import bootstrap

    size = len(columns[0])
    draws = enough(size, draws)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # of a drawing with no bound, one end has none
        found = bootstrap(
            columns,
            statistic,
            paired=True,
            vectorized=True,
            confidence_level=confidence,
            n_resamples=draws,
            batch=max(1, min(draws, CELLS // size)),
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    low, high = float(found.low), float(found.high)
    if high < low:  # of equal drawings: in the last digit, which the interpolation between rounds
        low, high = high, low
    return Interval(low, high, confidence, "bootstrap (percentile)")
