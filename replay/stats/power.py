"""How many pairs a difference of success needs to be found: by exact calculation, no rule of thumb.

The exact test of McNemar looks only at pairs that differ. How many those are is binomial, and so is
how many of them speak for one side: the probability that the test decides is a sum over both.
"""

from __future__ import annotations

from typing import Any

from replay.stats.model import ALPHA, POWER

MOST_PAIRS = 1_000_000


def power_of_pairs(n: int, lost: float, gained: float, *, alpha: float = ALPHA) -> float:
    """Tell how likely ``n`` pairs show the difference, in its direction.

    Args:
        n: Pairs.
        lost: Share of all pairs in which only the baseline succeeds.
        gained: Share of all pairs in which only the candidate does.
        alpha: Of the two-sided test.
    """
    differ = _check(lost, gained)
    if n < 1 or not differ:
        return 0.0
    import numpy as np
    from scipy.stats import binom

    counts = np.arange(binom.ppf(1e-13, n, differ), binom.isf(1e-13, n, differ) + 1)
    found = binom.sf(fewest_of(counts, alpha=alpha) - 1, counts, max(lost, gained) / differ)
    return float(min(1.0, np.sum(binom.pmf(counts, n, differ) * found)))


def needed_pairs(
    lost: float,
    gained: float,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
) -> int | None:
    """Count the pairs that show the difference with probability ``power``.

    One pair fewer has less. None where there is no difference to be shown, or where more than a
    million would be needed.
    """
    _check(lost, gained)
    if lost == gained:
        return None
    high = 1
    while power_of_pairs(high, lost, gained, alpha=alpha) < power:
        high *= 2
        if high > MOST_PAIRS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if power_of_pairs(middle, lost, gained, alpha=alpha) < power:
            low = middle
        else:
            high = middle
    return high


def fewest_of(differing: Any, *, alpha: float = ALPHA) -> Any:
    """Of so many pairs that differ, count those that must speak for one side to show it.

    More than there are where no number would do.
    """
    from scipy.stats import binom

    return binom.isf(alpha / 2, differing, 0.5) + 1


def fewest_pairs(*, alpha: float = ALPHA) -> int:
    """Count the pairs below which nothing can be shown, even if all speak for one side."""
    count = 1
    while 2 * 0.5**count > alpha:
        count += 1
    return count


def _check(lost: float, gained: float) -> float:
    differ = lost + gained
    if lost < 0 or gained < 0 or differ > 1 + 1e-9:
        raise ValueError(f"shares of {lost} and {gained} of all pairs do not go together")
    return min(1.0, differ)
