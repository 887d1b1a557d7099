"""Two versions compared on the same cases: success by McNemar's test, quantities by resampling.

A verdict needs evidence from both sides of the same data: the test that equals would seldom look
like this, and an interval without zero. Where they do not decide, the verdict says how many pairs
would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Any

from replay.stats.model import ALPHA, POWER, RESAMPLES, Better, Interval, Paired, PairedVerdict
from replay.stats.power import MOST_PAIRS, fewest_pairs, needed_pairs
from replay.stats.proportions import Proportion
from replay.stats.resampling import CELLS, TOO_LARGE, enough, interval_of, too_large
from tracekit.numerals import counted


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked, whatever is compared."""

    name: str
    better: Better
    margin: float | None
    alpha: float
    power: float
    relative: bool = False

    def nothing(self, why: str, *, n: int = 0) -> Paired:
        """Say that there is nothing to compare, or that ``n`` pairs cannot be."""
        return Paired(
            name=self.name,
            n=n,
            baseline=None,
            candidate=None,
            delta=None,
            interval=None,
            p=None,
            verdict="inconclusive" if n else "not evaluated",
            reason=why,
            relative=self.relative,
            alpha=self.alpha,
            power=self.power,
        )

    def answer(
        self, means: tuple[float, float], delta: float, n: int, p: float, interval: Interval | None
    ) -> Paired:
        """Give the verdict on what was found, without the words."""
        return Paired(
            name=self.name,
            n=n,
            baseline=means[0],
            candidate=means[1],
            delta=delta,
            interval=interval,
            p=p,
            verdict=self._verdict(delta, interval, p),
            reason="",
            relative=self.relative,
            alpha=self.alpha,
            power=self.power,
        )

    def _verdict(self, delta: float, interval: Interval | None, p: float) -> PairedVerdict:
        sign = 1 if self.better == "higher" else -1
        shown = p <= self.alpha and interval is not None and 0 not in interval
        if shown and sign * delta > 0:
            return "better"
        if self.margin is not None and interval is not None:
            worst = interval.low if sign > 0 else -interval.high
            if worst >= -self.margin:
                return "no worse"
        return "worse" if shown else "inconclusive"


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
        name, better: Of what is compared, and which direction is the good one.
        margin: By how much the candidate may be worse and still be ``no worse``.
        alpha: Of the two-sided test.
        power: With which ``needed`` pairs find a difference of this size.

    Raises:
        ValueError: something is neither yes nor no, such as a NaN, which Python takes for yes.
    """
    both = _yes_or_no(pairs)
    asked = _Asked(name, better, margin, alpha, power)
    if not both:
        return asked.nothing("no pairs")
    from scipy.stats import binomtest

    n = len(both)
    lost = sum(1 for before, after in both if before and not after)
    gained = sum(1 for before, after in both if after and not before)
    p = float(binomtest(gained, lost + gained).pvalue) if lost + gained else 1.0
    interval = interval_of_difference(lost, gained, n, 1 - alpha)
    means = sum(before for before, _ in both) / n, sum(after for _, after in both) / n
    found = asked.answer(means, (gained - lost) / n, n, p, interval)
    said = f"{lost} of {counted(n, 'pair')} lost, {gained} gained, p = {p:.2g}"
    if found.verdict != "inconclusive":
        return replace(found, reason=said, lost=lost, gained=gained)
    needed = needed_pairs(lost / n, gained / n, alpha=alpha, power=power)
    said += _told(n, needed, alpha)
    return replace(found, reason=said, lost=lost, gained=gained, needed=needed)


def _yes_or_no(pairs: Iterable[tuple[bool, bool]]) -> list[tuple[bool, bool]]:
    both = list(pairs)
    odd = [value for pair in both for value in pair if value not in (False, True)]
    if odd:
        raise ValueError(f"{odd[0]!r} is no success and no failure; leave its pair out")
    return both


def _told(n: int, needed: int | None, alpha: float) -> str:
    least = fewest_pairs(alpha=alpha)
    if n < least:
        able = f"; {counted(n, 'pair')} can show nothing, {least} could show that all differ"
    else:
        able = f"; {counted(n, 'pair')} can show a change of {100 * least / n:.0f} points or more"
    more = f", one of this size needs {counted(needed, 'pair')}" if needed is not None else ""
    return able + more


def interval_of_difference(lost: int, gained: int, n: int, confidence: float) -> Interval:
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

    The interval comes from drawing pairs anew, ``p`` from swapping the two of a pair (exact where
    there are few): its level holds for any number of pairs, while a bootstrap of few is too sure of
    itself. ``needed`` is by the normal approximation, from the width of the interval. Arguments as
    for ``compare_success``, and:

    Args:
        quantile: Compare this quantile of either side; the mean where None.
        relative: Give the difference as a share of the baseline.
        seed, resamples: Of the drawing, and how often.
    """
    both = list(pairs)
    asked = _Asked(name, better, margin, alpha, power, relative)
    if not both:
        return asked.nothing("no pairs")
    if too_large(value for pair in both for value in pair):
        return asked.nothing(TOO_LARGE, n=len(both))
    drawn = _Drawing(quantile, relative, 1 - alpha, seed, resamples)
    before, after = drawn.of(0, both), drawn.of(1, both)
    if relative and before <= 0:
        return asked.nothing("the baseline is not above zero, so there is no share of it")
    delta = after / before - 1 if relative else after - before
    if not isfinite(delta):
        return asked.nothing(NO_SHARE, n=len(both))
    return _with_words(asked.answer((before, after), delta, len(both), *drawn.chance(both)))


def _with_words(found: Paired) -> Paired:
    said = f"{counted(found.n, 'pair')}, p = {found.p:.2g}"
    if found.verdict != "inconclusive" or not found.delta:
        return replace(found, reason=said)
    needed = _needed(found)
    if needed is None:
        return replace(found, reason=said)
    return replace(
        found,
        reason=f"{said}; one of this size needs about {counted(needed, 'pair')}",
        needed=needed,
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The samples drawn anew, and swapped."""

    quantile: float | None
    relative: bool
    confidence: float
    seed: int
    resamples: int

    def of(self, side: int, both: Sequence[tuple[float, float]]) -> float:
        """Give what is compared, of one side."""
        import numpy as np

        return float(self._statistic(np.asarray([pair[side] for pair in both], dtype=float)))

    def chance(self, both: Sequence[tuple[float, float]]) -> tuple[float, Interval | None]:
        """Give p and the interval of the difference."""
        if len(both) < 2:
            return 1.0, None
        import numpy as np

        columns = tuple(np.asarray(both, dtype=float).T)
        interval = interval_of(
            columns,
            self._difference,
            confidence=self.confidence,
            seed=self.seed,
            draws=self.resamples,
        )
        return self._swapped(columns), interval

    def _statistic(self, values: Any, axis: int = -1) -> Any:
        import numpy as np

        if self.quantile is None:
            return values.mean(axis=axis)
        return np.quantile(values, self.quantile, axis=axis)

    def _difference(self, before: Any, after: Any, axis: int = -1) -> Any:
        import numpy as np

        first = np.asarray(self._statistic(before, axis))
        second = np.asarray(self._statistic(after, axis))
        return changed(first, second, relative=self.relative)

    def _swapped(self, columns: tuple[Any, ...]) -> float:
        import numpy as np
        from scipy.stats import permutation_test

        size = len(columns[0])
        draws = enough(size, self.resamples)
        found = permutation_test(
            columns,
            lambda one, two, axis=-1: self._statistic(two, axis) - self._statistic(one, axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=draws,
            batch=max(1, min(draws, CELLS // (2 * size))),
            rng=np.random.default_rng(self.seed),
        )
        return float(found.pvalue)


NO_SHARE = "the baseline is next to nothing, and no share of it a number"


def changed(first: Any, second: Any, *, relative: bool) -> Any:
    """Give how arrays differ; as a share of ``first``, anything more than nothing has no bound."""
    import numpy as np

    if not relative:
        return second - first
    unknown = np.where(second > 0, np.inf, 1.0)
    return np.divide(second, first, out=unknown, where=first != 0) - 1


def _needed(found: Paired) -> int | None:
    """Count the pairs that would decide; None for more than a million.

    The standard error falls with the root of the pairs; the interval shows what it is now.
    """
    least = max(found.n + 1, fewest_pairs(alpha=found.alpha))
    if found.interval is None or not found.delta:
        return least
    from scipy.stats import norm

    z = float(norm.isf(found.alpha / 2))
    error = (found.interval.high - found.interval.low) / (2 * z)
    if not isfinite(error):
        return least
    wanted = abs((z + float(norm.ppf(found.power))) * error / found.delta)
    if not wanted < MOST_PAIRS:
        return None
    needed = max(least, ceil(found.n * wanted**2))
    return needed if needed <= MOST_PAIRS else None
