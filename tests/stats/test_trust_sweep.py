"""How far the intervals and verdicts can be trusted: measured, and held against docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, multinomial, norm

from replay.stats import Estimate, compare_success, compare_values, mean, quantile

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
TIMES, DRAWS, SIGMA = 400, 999, 0.5
COMPARISONS = 1_000
TRUE = {"mean": exp(SIGMA**2 / 2), "p50": 1.0, "p95": exp(SIGMA * float(norm.ppf(0.95)))}


def covered(n: int, what: str, of: Callable[[Any, int], Estimate]) -> float:
    """How often the interval of ``n`` lognormal values holds the truth."""
    chance = np.random.default_rng([11, n])
    held = 0
    for seed in range(TIMES):
        interval = of(chance.lognormal(0, SIGMA, n), seed).interval
        assert interval is not None
        held += TRUE[what] in interval
    return held / TIMES


@pytest.mark.parametrize("n", [10, 25, 100, 300])
def test_the_intervals_of_few_runs_are_as_wrong_as_the_page_says(n: int) -> None:
    found = (
        covered(n, "mean", lambda values, seed: mean(values, seed=seed, resamples=DRAWS)),
        covered(n, "p50", lambda values, seed: quantile(values, 0.5, seed=seed, resamples=DRAWS)),
        covered(n, "p95", lambda values, seed: quantile(values, 0.95, seed=seed, resamples=DRAWS)),
    )
    row = " | ".join(f"{100 * share:.0f} %" for share in found)
    assert f"| {n} | {row} |" in PAGE


def false_alarms(n: int) -> float:
    """How often equals of ``n`` pairs are called different."""
    chance = np.random.default_rng([12, n])
    wrong = 0
    for seed in range(COMPARISONS):
        case = chance.lognormal(0, SIGMA, n)
        pairs = zip(*(case * chance.lognormal(0, 0.2, n) for _ in "ab"), strict=True)
        found = compare_values(pairs, name="latency", seed=seed, resamples=DRAWS)
        wrong += found.verdict != "inconclusive"
    return wrong / COMPARISONS


@pytest.mark.parametrize("n", [10, 25, 100])
def test_equals_are_called_different_as_seldom_as_the_page_says(n: int) -> None:
    found = false_alarms(n)
    assert round(found * COMPARISONS) <= binom.isf(0.001, COMPARISONS, 0.05)
    assert re.search(rf"\b{100 * found:.1f} % on {n}\b", " ".join(PAGE.split()))


@pytest.mark.parametrize(("differ", "said"), [(0.2, "0.9 %"), (0.4, "2.2 %")])
def test_equal_success_is_called_different_as_seldom_as_the_page_says(
    differ: float, said: str
) -> None:
    n, wrong = 25, 0.0
    for lost in range(n + 1):
        for gained in range(n + 1 - lost):
            likely = multinomial.pmf(
                [lost, gained, n - lost - gained], n, [differ / 2, differ / 2, 1 - differ]
            )
            if likely > 1e-9:
                pairs = [(True, False)] * lost + [(False, True)] * gained
                pairs += [(True, True)] * (n - lost - gained)
                wrong += float(likely) * (compare_success(pairs).verdict != "inconclusive")
    assert f"{100 * wrong:.1f} %" == said
    assert said in PAGE
