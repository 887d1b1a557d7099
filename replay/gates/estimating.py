"""A metric over some runs, or its change over some pairs: a value with the interval it comes in.

The statistics are those of ``replay.stats``. What is added is which of them belongs to which form
of metric, and that too few samples for an interval to be trusted are said to be too few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from replay.gates.grammar import Metric
from replay.metrics import Count
from replay.stats import Interval, Proportion, compare_success, compare_values
from replay.stats import mean as mean_of
from replay.stats import quantile as quantile_of
from replay.stats import ratio as ratio_of
from replay.stats.model import RESAMPLES
from replay.stats.paired import NO_SHARE, changed, interval_of_difference
from replay.stats.power import fewest_pairs
from replay.stats.resampling import CELLS, enough, interval_of, values_for_quantile
from tracekit.numerals import counted

_MOST_NEEDED = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimated:
    """A value, how far it can be trusted, and what it was computed of."""

    value: float | None
    interval: Interval | None
    """None where it could not be trusted."""
    n: int
    baseline: float | None = None
    candidate: float | None = None
    few: str | None = None
    """Why there is no interval: too few samples."""
    lost: int | None = None
    """Pairs in which only the baseline succeeded."""
    gained: int | None = None
    did: int | None = None
    """Of a share of runs: how many did."""
    needed: int | None = None
    """Pairs that show a difference of this size at all, with the power that is usual."""
    unlikely: bool = True
    """Whether a test of its own agrees that there is a difference at all."""
    why_none: str | None = None


def estimate(metric: Metric, samples: Sequence[Count], *, confidence: float) -> Estimated:
    """Estimate a metric over runs."""
    n = len(samples)
    if not n:
        return Estimated(None, None, 0)
    if metric.quantile is not None:
        values = [one.numerator for one in samples]
        found = quantile_of(values, metric.quantile, confidence=confidence)
        fewest = values_for_quantile(metric.quantile, confidence=confidence)
        few = _few(n, fewest, "run")
        return Estimated(found.value, None if few else found.interval, n, few=few)
    if metric.definition.form == "share":
        return _of_share(Proportion(sum(map(_did, samples)), n), confidence)
    few = _few(n, fewest_pairs(alpha=1 - confidence), "run")
    if metric.definition.form == "ratio":
        parts = [(one.numerator, one.denominator) for one in samples]
        found = ratio_of(parts, confidence=confidence)
        none = None
        if found.value is None:
            none = found.note or f"no {metric.definition.denominator}"
        if metric.percent and found.value in (0, 1):
            # All runs agree: drawing them anew shows nothing of what others may do.
            return _of_share(Proportion(n if found.value else 0, n), confidence)
        return Estimated(found.value, None if few else found.interval, n, few=few, why_none=none)
    found = mean_of([_value(one) for one in samples], confidence=confidence)
    return Estimated(found.value, None if few else found.interval, n, few=few)


def _of_share(share: Proportion, confidence: float) -> Estimated:
    interval = share.clopper_pearson(confidence=confidence)
    return Estimated(share.value, interval, share.n, did=share.successes)


def estimate_change(
    metric: Metric,
    pairs: Sequence[tuple[Count, Count]],
    *,
    relative: bool,
    confidence: float,
) -> Estimated:
    """Estimate how a metric changes from baseline to candidate, on pairs of runs."""
    n = len(pairs)
    if not n:
        return Estimated(None, None, 0)
    alpha = 1 - confidence
    if metric.definition.form == "share" and metric.quantile is None:
        found = compare_success([(_did(a), _did(b)) for a, b in pairs], alpha=alpha)
        assert found.lost is not None
        assert found.gained is not None
        return Estimated(
            found.delta, found.interval, n, found.baseline, found.candidate,
            lost=found.lost, gained=found.gained, needed=found.needed,
        )  # fmt: skip
    if metric.definition.form == "ratio" and metric.quantile is None:
        found_ratio = _change_of_ratio(pairs, relative=relative, confidence=confidence)
        if metric.percent and found_ratio.value == 0 and found_ratio.baseline in (0, 1):
            interval = interval_of_difference(0, 0, n, confidence)  # all agree, as above
            return replace(found_ratio, interval=interval, few=None)
        return found_ratio
    return _change_of_values(metric, pairs, relative=relative, confidence=confidence)


def _change_of_values(
    metric: Metric, pairs: Sequence[tuple[Count, Count]], *, relative: bool, confidence: float
) -> Estimated:
    """Compare means, or quantiles of the single runs."""
    n, alpha = len(pairs), 1 - confidence
    values = [
        (one.numerator, two.numerator)
        if metric.quantile is not None
        else (_value(one), _value(two))
        for one, two in pairs
    ]
    found = compare_values(
        values, name=metric.name, quantile=metric.quantile, relative=relative, alpha=alpha
    )
    fewest = fewest_pairs(alpha=alpha)
    if metric.quantile is not None:
        fewest = max(fewest, values_for_quantile(metric.quantile, confidence=confidence))
    few = _few(n, fewest, "pair")
    return Estimated(
        found.delta, None if few else found.interval, n, found.baseline, found.candidate,
        few=few,
        unlikely=found.p is not None and found.p <= alpha,
        why_none=found.reason if found.delta is None else None,
    )  # fmt: skip


def _change_of_ratio(
    pairs: Sequence[tuple[Count, Count]], *, relative: bool, confidence: float
) -> Estimated:
    """Sum over sum on either side; pairs are drawn whole."""
    n = len(pairs)
    before, after = (_quotient([pair[side] for pair in pairs]) for side in (0, 1))
    if before is None or after is None or (relative and before <= 0):
        side = "candidate" if before is not None and after is None else "baseline"
        why = f"the {side} has nothing to divide by"
        return Estimated(None, None, n, before, after, why_none=why)
    value = after / before - 1 if relative else after - before
    if not isfinite(value):
        return Estimated(None, None, n, before, after, why_none=NO_SHARE)
    few = _few(n, fewest_pairs(alpha=1 - confidence), "pair")
    if few:
        return Estimated(value, None, n, before, after, few=few)
    import numpy as np

    def change(a: Any, b: Any, c: Any, d: Any, axis: int = -1) -> Any:
        one, two = a.sum(axis=axis), c.sum(axis=axis)
        below = b.sum(axis=axis), d.sum(axis=axis)
        good = (below[0] != 0) & (below[1] != 0)
        safe = [np.where(good, part, 1) for part in (one, below[0], two, below[1])]
        first, second = safe[0] / safe[1], safe[2] / safe[3]
        return np.where(good, changed(first, second, relative=relative), value)

    columns = tuple(
        np.asarray([getattr(pair[side], name) for pair in pairs], dtype=float)
        for side in (0, 1)
        for name in ("numerator", "denominator")
    )
    interval = interval_of(columns, change, confidence=confidence, seed=0, draws=RESAMPLES)
    unlikely = _swapped(columns) <= 1 - confidence
    return Estimated(value, interval, n, before, after, unlikely=unlikely)


def _quotient(counts: Sequence[Count]) -> float | None:
    below = sum(one.denominator for one in counts)
    return sum(one.numerator for one in counts) / below if below else None


def _swapped(columns: tuple[Any, ...]) -> float:
    """Tell how often pairs whose sides are swapped by chance differ as much, two-sided.

    A drawing of few pairs is too sure of itself; this test holds its level with any number.
    """
    import numpy as np
    from scipy.stats import permutation_test

    n = len(columns[0])
    tops = np.concatenate([columns[0], columns[2]])
    bottoms = np.concatenate([columns[1], columns[3]])

    def change(before: Any, after: Any, axis: int = -1) -> Any:
        sums = [part[at].sum(axis=axis) for at in (before, after) for part in (tops, bottoms)]
        good = (sums[1] != 0) & (sums[3] != 0)
        first, second = (np.where(good, below, 1) for below in (sums[1], sums[3]))
        return np.where(good, sums[2] / second - sums[0] / first, 0.0)

    draws = enough(n, RESAMPLES)
    found = permutation_test(
        (np.arange(n), np.arange(n, 2 * n)),
        change,
        permutation_type="samples",
        vectorized=True,
        n_resamples=draws,
        batch=max(1, min(draws, CELLS // (4 * n))),
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def needed_for(found: Estimated, bound: float, *, confidence: float) -> int | None:
    """Count the samples of which the interval would lie on one side of ``bound``.

    Where the bound is no difference, with a power of 80 %; else the least that do, if the value
    stays what it is: for runs or pairs that succeed or fail by the exact interval, else by the root
    of the samples. None where the value is the bound, or where no number in reason would do.
    """
    if found.value is None or found.interval is None or found.value == bound:
        return None
    above = found.value > bound
    if not bound and found.needed is not None:
        return found.needed
    if found.lost is not None and found.gained is not None:
        return _needed_pairs(found, bound, above=above, confidence=confidence)
    if found.did is not None:
        return _needed_runs(found, bound, above=above, confidence=confidence)
    near = found.value - found.interval.low if above else found.interval.high - found.value
    times = near / abs(found.value - bound)
    if not times < _MOST_NEEDED:  # an end that has no bound is not brought nearer by any number
        return None
    needed = int(found.n * times**2) + 1
    return needed if found.n < needed <= _MOST_NEEDED else None


def _needed_pairs(found: Estimated, bound: float, *, above: bool, confidence: float) -> int | None:
    assert found.lost is not None
    assert found.gained is not None

    def decides(pairs: int) -> bool:
        lost, gained = (round(of * pairs / found.n) for of in (found.lost or 0, found.gained or 0))
        interval = interval_of_difference(lost, gained, pairs, confidence)
        return interval.low >= bound if above else interval.high < bound

    return _least(decides, found.n)


def _needed_runs(found: Estimated, bound: float, *, above: bool, confidence: float) -> int | None:
    """Count the runs by the exact interval of Clopper and Pearson, the share being what it is.

    It is defined for parts of a run as well, so more runs of the same share come to the same.
    """
    from scipy.stats import beta

    assert found.value is not None
    share, tail = found.value, (1 - confidence) / 2

    def decides(n: int) -> bool:
        did = share * n
        if above:
            return bool(beta.ppf(tail, did, n - did + 1) >= bound)
        return bool(beta.isf(tail, did + 1, n - did) < bound)

    return _least(decides, found.n)


def _least(decides: Callable[[int], bool], n: int) -> int | None:
    """Search the least number above ``n`` that decides."""
    high = n
    while not decides(high):
        high *= 2
        if high > _MOST_NEEDED:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high if high > n else None


def _did(one: Count) -> bool:
    return one.denominator > 0 and one.numerator >= one.denominator


def _value(one: Count) -> float:
    return one.numerator / one.denominator if one.denominator else 0.0


def _few(n: int, fewest: int, what: str) -> str | None:
    if n >= fewest:
        return None
    is_or_are = "is" if n == 1 else "are"
    return f"{counted(n, what)} {is_or_are} too few for an interval; {fewest} are needed"
