"""Two versions compared on the same cases: success by McNemar's test, quantities by resampling.

A verdict needs evidence from both sides of the same data: the test that equals would seldom look
like this, and an interval without zero. Where they do not decide, the verdict says how many pairs
would.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, isfinite
from typing import Any

from replay.stats.model import ALPHA, POWER, RESAMPLES, Better, Interval, Paired, PairedVerdict
from replay.stats.power import fewest_pairs, needed_pairs
from replay.stats.proportions import Proportion
from replay.stats.resampling import CELLS, enough, interval_of


def compare_success(
    pairs: Iterable[tuple[bool, bool]],
    *,
    name: str = "task_success",
    better: Better = "higher",
    margin: float | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
) -> Paired:
    """Compare yes and no on the same cases by the exact test of McNemar.

    Args:
        pairs: Of the baseline and of the candidate, for each case.
        name: Of what is compared.
        better: Which direction is the good one.
        margin: By how much the candidate may be worse and still be ``no worse``.
        alpha: Of the two-sided test.
        power: With which ``needed`` pairs find a difference of this size.
    """
    both = list(pairs)
    n = len(both)
    if not n:
        return _nothing(name, alpha, power)
    from scipy.stats import binomtest

    lost = sum(1 for before, after in both if before and not after)
    gained = sum(1 for before, after in both if after and not before)
    p = float(binomtest(gained, lost + gained).pvalue) if lost + gained else 1.0
    interval = _interval_of_difference(lost, gained, n, 1 - alpha)
    delta = (gained - lost) / n
    verdict = _verdict(delta, interval, better, margin, unlikely=p <= alpha)
    needed = None
    if verdict == "inconclusive":
        needed = needed_pairs(lost / n, gained / n, alpha=alpha, power=power)
    said = f"{lost} of {n} pairs lost, {gained} gained, p = {p:.2g}"
    return Paired(
        name=name,
        n=n,
        baseline=sum(before for before, _ in both) / n,
        candidate=sum(after for _, after in both) / n,
        delta=delta,
        interval=interval,
        p=p,
        verdict=verdict,
        reason=said + (_told(n, needed, alpha) if verdict == "inconclusive" else ""),
        lost=lost,
        gained=gained,
        needed=needed,
        alpha=alpha,
        power=power,
    )


def _told(n: int, needed: int | None, alpha: float) -> str:
    least = fewest_pairs(alpha=alpha)
    if n < least:
        able = f"; {n} pairs can show nothing, {least} could show that all differ"
    else:
        able = f"; {n} pairs can show a change of {100 * least / n:.0f} points or more"
    more = f", one of this size needs {needed} pairs" if needed is not None else ""
    return able + more


def _interval_of_difference(lost: int, gained: int, n: int, confidence: float) -> Interval:
    """Bound the difference by how often pairs differ, and how often they then differ upward.

    Both by Clopper and Pearson. It leaves zero out exactly where the exact test of McNemar finds a
    difference; the intervals of Wald, Newcombe or Tango do not agree with that test.
    """
    differ = Proportion(lost + gained, n).clopper_pearson(confidence=confidence)
    upward = Proportion(gained, lost + gained).clopper_pearson(confidence=confidence)
    assert differ is not None
    low, high = (-1.0, 1.0) if upward is None else (2 * upward.low - 1, 2 * upward.high - 1)
    return Interval(
        low * (differ.high if low < 0 else differ.low),
        high * (differ.high if high > 0 else differ.low),
        confidence,
        "exact (Clopper-Pearson of the pairs that differ)",
    )


def compare_values(
    pairs: Iterable[tuple[float, float]],
    *,
    name: str,
    quantile: float | None = None,
    relative: bool = False,
    better: Better = "lower",
    margin: float | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Paired:
    """Compare quantities on the same cases: latency, cost, steps.

    The interval comes from drawing pairs anew (paired bootstrap), ``p`` from swapping the two of a
    pair (exact where there are few): its level holds for any number of pairs, while a bootstrap of
    few is too sure of itself. The verdict needs both.

    Args:
        pairs: Of the baseline and of the candidate, for each case.
        name: Of what is compared.
        quantile: Compare this quantile of either side; the mean where None.
        relative: Give the difference as a share of the baseline.
        better: Which direction is the good one.
        margin: By how much the candidate may be worse and still be ``no worse``.
        alpha: Of the two-sided test.
        power: With which ``needed`` pairs find a difference of this size; by the normal
            approximation, from the width of the interval.
        seed: Of the drawing.
        resamples: How many drawings.
    """
    both = list(pairs)
    n = len(both)
    if not n:
        return _nothing(name, alpha, power, relative=relative)
    if not all(isfinite(value) for pair in both for value in pair):
        raise ValueError(f"a value of {name} is no finite number")
    import numpy as np

    columns = np.asarray(both, dtype=float).T

    def of(values: Any, axis: int = -1) -> Any:
        if quantile is None:
            return values.mean(axis=axis)
        return np.quantile(values, quantile, axis=axis)

    before, after = float(of(columns[0])), float(of(columns[1]))
    if relative and before <= 0:
        return _nothing(name, alpha, power, relative=relative, why="the baseline is zero")
    delta = after / before - 1 if relative else after - before
    p, interval = 1.0, None
    if n > 1:
        p = _swapped(columns, of, seed, resamples)
        interval = interval_of(
            tuple(columns),
            _difference(of, relative=relative),
            confidence=1 - alpha,
            seed=seed,
            draws=resamples,
        )
    verdict = _verdict(delta, interval, better, margin, unlikely=p <= alpha)
    needed = None
    if verdict == "inconclusive":
        needed = _needed(delta, interval, n, alpha=alpha, power=power)
    said = f"{n} pairs, p = {p:.2g}"
    if needed is not None:
        said += f"; a difference of this size needs about {needed} pairs"
    return Paired(
        name=name,
        n=n,
        baseline=before,
        candidate=after,
        delta=delta,
        interval=interval,
        p=p,
        verdict=verdict,
        reason=said,
        needed=needed,
        relative=relative,
        alpha=alpha,
        power=power,
    )


def _difference(of: Any, *, relative: bool) -> Any:
    import numpy as np

    def difference(before: Any, after: Any, axis: int = -1) -> Any:
        first, second = np.asarray(of(before, axis=axis)), np.asarray(of(after, axis=axis))
        if not relative:
            return second - first
        unknown = np.where(second > 0, np.inf, 1.0)
        return np.divide(second, first, out=unknown, where=first != 0) - 1

    return difference


def _swapped(columns: Any, of: Any, seed: int, resamples: int) -> float:
    import numpy as np
    from scipy.stats import permutation_test

    size = len(columns[0])
    draws = enough(size, resamples)
    found = permutation_test(
        tuple(columns),
        lambda before, after, axis=-1: of(after, axis=axis) - of(before, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=draws,
        batch=max(1, min(draws, CELLS // (2 * size))),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _verdict(
    delta: float,
    interval: Interval | None,
    better: Better,
    margin: float | None,
    *,
    unlikely: bool,
) -> PairedVerdict:
    """Decide; ``unlikely`` is whether the test finds a difference."""
    sign = 1 if better == "higher" else -1
    shown = unlikely and interval is not None and 0 not in interval
    if shown and sign * delta > 0:
        return "better"
    if margin is not None and interval is not None:
        worst = interval.low if sign > 0 else -interval.high
        if worst >= -margin:
            return "no worse"
    return "worse" if shown else "inconclusive"


def _needed(
    delta: float, interval: Interval | None, n: int, *, alpha: float, power: float
) -> int | None:
    """The standard error falls with the root of the pairs; the interval shows what it is now."""
    if not delta:
        return None
    least = max(n + 1, fewest_pairs(alpha=alpha))
    if interval is None:
        return least
    from scipy.stats import norm

    z = float(norm.isf(alpha / 2))
    error = (interval.high - interval.low) / (2 * z)
    return max(least, ceil(n * ((z + float(norm.ppf(power))) * error / delta) ** 2))


def _nothing(
    name: str, alpha: float, power: float, *, relative: bool = False, why: str = "no pairs"
) -> Paired:
    return Paired(
        name=name,
        n=0,
        baseline=None,
        candidate=None,
        delta=None,
        interval=None,
        p=None,
        verdict="not evaluated",
        reason=why,
        relative=relative,
        alpha=alpha,
        power=power,
    )
