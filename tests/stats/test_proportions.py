"""Shares and their intervals: published values, other ways to compute them, and what must hold."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

from replay.stats import Interval, Proportion

NEWCOMBE = {
    (81, 263): ((0.2553, 0.3662), (0.2527, 0.3676)),
    (15, 148): ((0.0624, 0.1605), (0.0578, 0.1617)),
    (0, 20): ((0.0, 0.1611), (0.0, 0.1684)),
    (1, 29): ((0.0061, 0.1718), (0.0009, 0.1776)),
}
"""Newcombe, Two-sided confidence intervals for the single proportion (1998), table I: methods 3 and
5 for the four examples there."""

counts = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def both(of: Proportion, confidence: float = 0.95) -> tuple[Interval, Interval]:
    wilson = of.wilson(confidence=confidence)
    exact = of.clopper_pearson(confidence=confidence)
    assert wilson is not None
    assert exact is not None
    return wilson, exact


@pytest.mark.parametrize(("of", "published"), NEWCOMBE.items())
def test_intervals_are_those_of_the_literature(
    of: tuple[int, int], published: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    for found, expected in zip(both(Proportion(*of)), published, strict=True):
        assert (round(found.low, 4), round(found.high, 4)) == expected


@settings(max_examples=20)
@given(counts, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_solves_its_quadratic(of: tuple[int, int], confidence: float) -> None:
    successes, n = of
    share, z = successes / n, float(norm.ppf((1 + confidence) / 2))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    wilson, _ = both(Proportion(*of), confidence)
    assert wilson.low == pytest.approx(middle - half, abs=1e-9)
    assert wilson.high == pytest.approx(middle + half, abs=1e-9)


@settings(max_examples=20)
@given(counts, st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_is_made_of_quantiles_of_the_beta_distribution(
    of: tuple[int, int], confidence: float
) -> None:
    successes, n = of
    tail = (1 - confidence) / 2
    low = 0.0 if not successes else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    _, exact = both(Proportion(*of), confidence)
    assert (exact.low, exact.high) == (pytest.approx(low), pytest.approx(high))


@settings(max_examples=20)
@given(counts)
def test_an_interval_lies_within_0_and_1_and_holds_the_share(of: tuple[int, int]) -> None:
    for found in both(Proportion(*of)):
        assert 0 <= found.low <= of[0] / of[1] + 1e-12
        assert of[0] / of[1] - 1e-12 <= found.high <= 1


@settings(max_examples=20)
@given(counts)
def test_failures_have_the_mirrored_interval(of: tuple[int, int]) -> None:
    successes, n = of
    for one, other in zip(both(Proportion(*of)), both(Proportion(n - successes, n)), strict=True):
        assert one.low == pytest.approx(1 - other.high, abs=1e-9)


@settings(max_examples=20)
@given(counts)
def test_one_success_more_moves_both_ends_up(of: tuple[int, int]) -> None:
    successes, n = of
    if successes < n:
        for less, more in zip(
            both(Proportion(*of)), both(Proportion(successes + 1, n)), strict=True
        ):
            assert less.low < more.low + 1e-12
            assert less.high < more.high + 1e-12


@settings(max_examples=20)
@given(counts)
def test_the_exact_interval_is_no_narrower_than_it_promises(of: tuple[int, int]) -> None:
    wide, narrow = (both(Proportion(*of), confidence)[1] for confidence in (0.99, 0.9))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


def test_of_nothing_there_is_no_share_and_no_interval() -> None:
    nothing = Proportion(0, 0)
    assert (nothing.value, nothing.wilson(), nothing.clopper_pearson()) == (None, None, None)
    assert nothing.as_dict() == {
        "successes": 0, "n": 0, "value": None, "wilson": None, "clopper_pearson": None,
    }  # fmt: skip


@pytest.mark.parametrize("of", [(2, 1), (-1, 4)])
def test_more_successes_than_samples_are_refused(of: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is no proportion"):
        Proportion(*of)
