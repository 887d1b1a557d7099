"""Several attempts at a task: whether one of k succeeds, and whether all of k do.

Both are unbiased from n attempts of which c succeeded: the share of the ways to choose k of the n
in which one, or every one, is a success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import comb

from replay.stats.model import CONFIDENCE, RESAMPLES, Estimate
from replay.stats.resampling import mean
from tracekit.numerals import counted


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Estimate how likely one of ``k`` attempts succeeds; None for more than were made.

    Chen et al., Evaluating Large Language Models Trained on Code (2021): 1 - C(n-c, k) / C(n, k).
    """
    _check(n, c, k)
    return None if k > n else 1 - comb(n - c, k) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Estimate how likely all of ``k`` attempts succeed; None for more than were made.

    Yao et al., tau-bench (2024), there pass^k: C(c, k) / C(n, k).
    """
    _check(n, c, k)
    return None if k > n else comb(c, k) / comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} successes of {n} attempts")
    if k < 1:
        raise ValueError(f"k is {k}; it counts attempts, from 1")


def average_over_tasks(
    kind: Callable[[int, int, int], float | None],
    attempts: Iterable[tuple[int, int]],
    k: int,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Average ``pass_at_k`` or ``pass_hat_k`` over tasks; tasks are the samples.

    Args:
        kind: Which of the two.
        attempts: Attempts and successes of each task.
        k: How many attempts one gets.
        confidence: Of the interval, which comes from drawing tasks anew.
        seed: Of the drawing.
        resamples: How many drawings.
    """
    name = f"{'pass^' if kind is pass_hat_k else 'pass@'}{k}"
    found = [kind(n, c, k) for n, c in attempts]
    known = [value for value in found if value is not None]
    short = len(found) - len(known)
    left_out = f"{counted(short, 'task')} with fewer than {counted(k, 'attempt')} left out"
    note = left_out if short else None
    over = mean(known, confidence=confidence, seed=seed, resamples=resamples)
    return Estimate(name, over.value, over.interval, over.n, note)
