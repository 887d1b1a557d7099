"""Means, quantiles and ratios with their intervals: reproducible, and as wide as they must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from replay.stats import mean, quantile, ratio, values_for_quantile

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)
FEW = 499


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    sample = [1.0, 2.0, 4.0, 8.0, 16.0, 5.5, 7.25]
    assert mean(sample, seed=3) == mean(sample, seed=3)
    assert mean(sample, seed=3).interval != mean(sample, seed=4).interval


def test_the_interval_of_a_mean_is_that_of_normal_theory_where_there_are_many() -> None:
    sample = np.random.default_rng(5).normal(10, 2, 400)
    found = mean(list(sample)).interval
    half = float(norm.isf(0.025)) * sample.std() / 20
    assert found is not None
    assert found.low == pytest.approx(sample.mean() - half, abs=0.03)
    assert found.high == pytest.approx(sample.mean() + half, abs=0.03)


def test_the_interval_of_a_median_is_about_that_of_order_statistics() -> None:
    sample = np.sort(np.random.default_rng(6).exponential(1, 200))
    # The exact one of 95 %: the 86th and the 115th of 200 values.
    found = quantile(list(sample), 0.5).interval
    assert found is not None
    assert found.low == pytest.approx(sample[85], abs=0.05)
    assert found.high == pytest.approx(sample[114], abs=0.05)


@settings(max_examples=40)
@given(values, st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]))
@example([-1.8591282614916234e-124] * 2, 0.0)
def test_a_quantile_is_numpys_and_its_interval_lies_within_the_sample(
    sample: list[float], q: float
) -> None:
    found = quantile(sample, q, resamples=FEW)
    assert found.value == pytest.approx(float(np.quantile(sample, q)), rel=1e-9, abs=1e-9)
    assert found.interval is not None
    assert min(sample) - 1e-6 <= found.interval.low <= found.interval.high <= max(sample) + 1e-6


@settings(max_examples=25)
@given(values, st.floats(-100, 100))
def test_moving_all_values_moves_the_mean_and_its_interval(sample: list[float], by: float) -> None:
    one = mean(sample, resamples=FEW)
    other = mean([value + by for value in sample], resamples=FEW)
    assert one.value is not None
    assert one.interval is not None
    assert other.interval is not None
    assert other.value == pytest.approx(one.value + by, abs=1e-5)
    assert other.interval.low == pytest.approx(one.interval.low + by, abs=1e-5)


@pytest.mark.parametrize(("q", "fewest"), [(0.5, 6), (0.95, 72), (0.05, 72), (0.99, 368)])
def test_a_quantile_says_how_many_values_bound_it(q: float, fewest: int) -> None:
    assert values_for_quantile(q) == fewest
    worst = max(q, 1 - q)
    assert worst**fewest <= 0.025 < worst ** (fewest - 1)
    sample = list(np.random.default_rng(1).normal(size=fewest))
    assert quantile(sample, q, resamples=FEW).note is None
    too_few = quantile(sample[:-1], q, resamples=FEW).note
    assert too_few is not None
    assert f"{fewest} values are needed" in too_few


def test_no_value_has_no_mean_and_one_has_no_interval() -> None:
    assert (mean([]).value, mean([]).interval, mean([]).n) == (None, None, 0)
    assert (mean([3.5]).value, mean([3.5]).interval, mean([3.5]).n) == (3.5, None, 1)
    assert quantile([], 0.95).value is None


def test_equal_values_say_that_they_do_not_tell_how_far_others_lie() -> None:
    found = mean([5.0, 5.0, 5.0])
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (5, 5)
    assert found.note is not None


def test_what_is_no_number_or_no_quantile_is_refused() -> None:
    with pytest.raises(ValueError, match="no finite number"):
        mean([1.0, float("nan")])
    with pytest.raises(ValueError, match="from 0 to 1"):
        quantile([1.0], 95)


def test_what_no_float_can_add_up_has_no_value_and_says_so() -> None:
    for found in (mean([1e308] * 20), quantile([1e308, -1e308], 0.5), ratio([(1e308, 1)] * 3)):
        assert (found.value, found.interval) == (None, None)
        assert found.note == "the values are too large to be added up"
    assert mean([1e300] * 20).value == pytest.approx(1e300)
    tiny = ratio([(1e300, 5e-324)] * 3)
    assert (tiny.value, tiny.note) == (None, "it is divided by next to nothing")
    with pytest.raises(ValueError, match="no finite number"):
        ratio([(float("nan"), 1)])


def test_a_ratio_is_sum_over_sum_and_runs_are_drawn_whole() -> None:
    found = ratio([(1, 1), (0, 9)])
    assert found.value == pytest.approx(0.1)
    assert found.interval is not None
    # Of two runs, one in four drawings holds the first twice, and one the second.
    assert (found.interval.low, found.interval.high) == (0, 1)


def test_a_ratio_over_nothing_is_none() -> None:
    assert ratio([]).value is None
    assert ratio([(0, 0), (3, 0)]).value is None
    assert ratio([(3, 0), (0, 0), (1, 2)]).value == pytest.approx(2.0)
