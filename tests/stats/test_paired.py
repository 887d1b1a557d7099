"""Two versions on the same cases: the verdict, what it rests on, and what would decide."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial, ttest_rel

from replay.stats import (
    Paired,
    compare_success,
    compare_values,
    fewest_pairs,
    interval_of_difference,
    needed_pairs,
    power_of_pairs,
)

FEW = 999
discordant = st.integers(1, 40).flatmap(
    lambda n: st.integers(0, n).flatmap(
        lambda lost: st.tuples(st.just(lost), st.integers(0, n - lost), st.just(n))
    )
)


def pairs(lost: int, gained: int, n: int) -> list[tuple[bool, bool]]:
    same = n - lost - gained
    return [(True, False)] * lost + [(False, True)] * gained + [(True, True)] * same


@pytest.mark.parametrize("odd", [float("nan"), None, 0.5, 2, "yes"])
def test_what_is_neither_yes_nor_no_is_no_success(odd: object) -> None:
    with pytest.raises(ValueError, match="is no success and no failure"):
        compare_success([(True, False), (True, odd)])  # type: ignore[list-item]  # wrong on purpose


def test_a_yes_of_numpy_or_a_number_is_a_yes() -> None:
    told = compare_success([(np.True_, np.False_), (1, 0), (1.0, 1.0)])  # type: ignore[list-item]  # of another library
    assert (told.lost, told.gained, told.baseline) == (2, 0, 1.0)


def by_hand(lost: int, gained: int) -> float:
    """The exact two-sided p of McNemar: twice the smaller tail of so many tosses of a coin."""
    n = lost + gained
    tail = sum(comb(n, k) for k in range(min(lost, gained) + 1)) / 2**n
    return min(1.0, 2 * tail)


# --- success --------------------------------------------------------------------------------------


def test_the_p_is_that_of_a_published_example() -> None:
    # Agresti, Categorical Data Analysis: 86 and 150 of 1,600 changed their minds.
    found = compare_success(pairs(150, 86, 1600))
    assert found.delta == pytest.approx(-0.04)
    assert found.p == pytest.approx(3.716e-05, rel=1e-3)
    assert found.verdict == "worse"


@settings(max_examples=20)
@given(discordant)
def test_the_p_is_that_of_tossing_a_coin(of: tuple[int, int, int]) -> None:
    lost, gained, n = of
    found = compare_success(pairs(lost, gained, n))
    assert found.p == pytest.approx(by_hand(lost, gained))
    assert (found.lost, found.gained, found.n) == (lost, gained, n)
    assert found.delta == pytest.approx((gained - lost) / n)


@settings(max_examples=20)
@given(discordant)
def test_the_interval_leaves_zero_out_just_where_the_test_finds_a_difference(
    of: tuple[int, int, int],
) -> None:
    found = compare_success(pairs(*of))
    assert found.interval is not None
    assert found.delta is not None
    assert -1 <= found.interval.low <= found.delta <= found.interval.high <= 1
    assert (0 not in found.interval) == (by_hand(*of[:2]) <= 0.05)
    expected = "inconclusive" if 0 in found.interval else "better" if found.delta > 0 else "worse"
    assert found.verdict == expected


@settings(max_examples=20)
@given(discordant)
def test_sides_swapped_are_the_same_comparison_mirrored(of: tuple[int, int, int]) -> None:
    lost, gained, n = of
    one, other = compare_success(pairs(lost, gained, n)), compare_success(pairs(gained, lost, n))
    assert one.interval is not None
    assert other.interval is not None
    assert (one.p, one.delta) == (other.p, -(other.delta or 0))
    assert one.interval.low == pytest.approx(-other.interval.high, abs=1e-9)
    mirrored = {"better": "worse", "worse": "better"}
    assert mirrored.get(one.verdict, one.verdict) == other.verdict


@cache
def interval(lost: int, gained: int, n: int) -> tuple[float, float]:
    found = interval_of_difference(lost, gained, n, 0.95)
    return found.low, found.high


@pytest.mark.parametrize("lose", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("gain", [0.0, 0.05, 0.3])
def test_the_interval_holds_the_truth_at_least_as_often_as_it_says(
    lose: float, gain: float
) -> None:
    n, covered = 12, 0.0
    for lost in range(n + 1):
        for gained in range(n + 1 - lost):
            low, high = interval(lost, gained, n)
            if low <= gain - lose <= high:
                chances = [lose, gain, 1 - lose - gain]
                covered += float(multinomial.pmf([lost, gained, n - lost - gained], n, chances))
    assert covered >= 0.95


def test_no_pair_is_not_evaluated_and_has_no_numbers() -> None:
    found = compare_success([])
    assert found == Paired(
        "task_success", 0, None, None, None, None, None, "not evaluated", "no pairs"
    )


def test_pairs_that_all_agree_are_inconclusive_and_do_not_claim_to_be_equal() -> None:
    found = compare_success(pairs(0, 0, 25))
    assert (found.verdict, found.p, found.needed) == ("inconclusive", 1.0, None)
    assert found.interval is not None
    # None of 25 differs: up to 13.7 % may (Clopper and Pearson), and all to one side.
    assert found.interval.high == pytest.approx(0.1372, abs=1e-4)
    assert found.interval.low == pytest.approx(-0.1372, abs=1e-4)


def test_a_loss_of_20_points_on_25_pairs_is_inconclusive_and_says_how_many_would_show_it() -> None:
    found = compare_success(pairs(5, 0, 25))
    assert (found.verdict, found.p) == ("inconclusive", 0.0625)
    assert found.needed == 39
    assert found.reason == (
        "5 of 25 pairs lost, 0 gained, p = 0.062; 25 pairs can show a change of 24 points or more,"
        " one of this size needs 39 pairs"
    )


def test_the_loss_of_all_successes_is_worse() -> None:
    found = compare_success([(True, False)] * 9 + [(False, False)] * 16)
    assert (found.verdict, found.candidate, found.needed) == ("worse", 0.0, None)


def test_where_less_is_better_the_verdict_turns() -> None:
    assert compare_success(pairs(0, 9, 25), better="lower").verdict == "worse"
    assert compare_success(pairs(9, 0, 25), better="lower").verdict == "better"


def test_a_margin_makes_no_worse_of_what_is_surely_within_it() -> None:
    assert compare_success(pairs(1, 1, 200), margin=0.05).verdict == "no worse"
    assert compare_success(pairs(1, 1, 20), margin=0.05).verdict == "inconclusive"
    assert compare_success(pairs(9, 0, 1000), margin=0.05).verdict == "no worse"
    assert compare_success(pairs(9, 0, 1000)).verdict == "worse"


# --- how many would do ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "lost", "gained"), [(10, 0.6, 0.1), (25, 0.2, 0.0), (30, 0.3, 0.1)])
def test_the_power_is_what_adding_up_every_outcome_gives(
    n: int, lost: float, gained: float
) -> None:
    found = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            if b > c and by_hand(b, c) <= 0.05:
                chances = [lost, gained, 1 - lost - gained]
                found += float(multinomial.pmf([b, c, n - b - c], n, chances))
    assert power_of_pairs(n, lost, gained) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(
    ("lost", "gained", "pairs_needed"),
    [(0.2, 0.0, 39), (0.0, 0.2, 39), (0.3, 0.1, 84), (1.0, 0.0, 6), (0.02, 0.015, 11_331)],
)
def test_the_pairs_needed_have_the_power_and_one_fewer_has_not(
    lost: float, gained: float, pairs_needed: int
) -> None:
    assert needed_pairs(lost, gained) == pairs_needed
    assert power_of_pairs(pairs_needed, lost, gained) >= 0.8
    assert power_of_pairs(pairs_needed - 1, lost, gained) < 0.8


def test_the_pairs_needed_without_a_loss_are_those_of_the_binomial_distribution() -> None:
    # Six must be lost, since 2 / 2**6 is the first to be 5 % or less.
    assert fewest_pairs() == 6
    assert float(binom.sf(5, 39, 0.2)) >= 0.8 > float(binom.sf(5, 38, 0.2))


def test_no_number_shows_what_is_not_there() -> None:
    assert needed_pairs(0.1, 0.1) is None
    assert needed_pairs(0.0, 0.0) is None
    assert needed_pairs(0.10001, 0.1) is None
    assert power_of_pairs(0, 0.5, 0.0) == 0


@pytest.mark.parametrize("shares", [(0.7, 0.7), (-0.1, 0.2)])
def test_shares_that_do_not_go_together_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="do not go together"):
        needed_pairs(*shares)


# --- quantities -----------------------------------------------------------------------------------


def latencies(n: int, *, factor: float, seed: int = 1) -> list[tuple[float, float]]:
    chance = np.random.default_rng(seed)
    before = chance.lognormal(0, 0.5, n)
    return list(zip(before, before * factor * chance.lognormal(0, 0.1, n), strict=True))


def test_a_slower_candidate_is_worse_and_the_interval_holds_the_truth() -> None:
    found = compare_values(latencies(60, factor=1.3), name="latency", relative=True)
    assert found.verdict == "worse"
    assert found.interval is not None
    assert found.interval.low > 0
    assert 0.3 in found.interval
    assert compare_values(latencies(60, factor=1.3), name="x", better="higher").verdict == "better"


def test_the_interval_is_near_that_of_the_t_test_where_there_are_many() -> None:
    made = latencies(300, factor=1.05)
    found = compare_values(made, name="latency")
    theirs = ttest_rel([b for _, b in made], [a for a, _ in made])
    low, high = theirs.confidence_interval(0.95)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(low, abs=0.01),
        pytest.approx(high, abs=0.01),
    )


def test_p_of_few_pairs_is_the_share_of_all_ways_to_swap_them() -> None:
    # Of the 2**6 ways, two have a difference as large as this: as it is, and all swapped.
    found = compare_values([(1.0, 2.0 + n) for n in range(6)], name="steps")
    assert found.p == pytest.approx(2 / 64)
    assert found.verdict == "worse"
    five = compare_values([(1.0, 2.0 + n) for n in range(5)], name="steps")
    assert (five.p, five.verdict, five.needed) == (pytest.approx(2 / 32), "inconclusive", 6)


def test_equals_are_seldom_called_different() -> None:
    chance = np.random.default_rng(8)
    wrong = 0
    for seed in range(200):
        pair = chance.lognormal(0, 1, (10, 2))
        found = compare_values([(a, b) for a, b in pair], name="x", seed=seed, resamples=FEW)
        wrong += found.verdict != "inconclusive"
    assert wrong <= float(binom.isf(0.001, 200, 0.05))


def test_a_quantile_is_compared_as_a_quantile() -> None:
    made = latencies(120, factor=1.0)
    slow = [(a, b * (10 if n % 10 == 0 else 1)) for n, (a, b) in enumerate(made)]
    assert compare_values(slow, name="p95", quantile=0.95).verdict == "worse"
    assert compare_values(slow, name="p50", quantile=0.5).verdict == "inconclusive"


def test_pairs_that_decide_nothing_say_about_how_many_would() -> None:
    made = latencies(12, factor=1.03, seed=4)
    found = compare_values(made, name="latency", seed=2)
    assert found.verdict == "inconclusive"
    assert found.needed is not None
    assert found.needed > 12
    assert found.reason.endswith(f"needs about {found.needed} pairs")


def test_quantities_without_pairs_or_without_a_baseline_are_not_evaluated() -> None:
    assert compare_values([], name="cost").verdict == "not evaluated"
    zero = compare_values([(0.0, 1.0)] * 9, name="cost", relative=True)
    assert (zero.verdict, zero.delta) == ("not evaluated", None)
    one = compare_values([(1.0, 2.0)], name="cost")
    assert (one.verdict, one.interval, one.delta, one.needed) == ("inconclusive", None, 1.0, 6)
    with pytest.raises(ValueError, match="no finite number"):
        compare_values([(1.0, float("inf"))], name="cost")


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("pair", [(1e308, 1e308), (1e308, -1e308), (1.0, 1e308), (-1e308, 1.0)])
def test_values_that_no_float_can_add_up_decide_nothing(
    pair: tuple[float, float], *, relative: bool
) -> None:
    found = compare_values([pair] * 20, name="cost", relative=relative)
    assert (found.verdict, found.n, found.delta, found.interval) == ("inconclusive", 20, None, None)
    assert found.reason == "the values are too large to be added up"
    large = compare_values([(1e300, 2e300)] * 20, name="cost", relative=relative)
    assert (large.verdict, large.delta) == ("worse", pytest.approx(1.0 if relative else 1e300))


def test_a_share_of_next_to_nothing_decides_nothing() -> None:
    found = compare_values([(5e-324, 1e300)] * 20, name="cost", relative=True)
    assert (found.verdict, found.delta, found.n) == ("inconclusive", None, 20)
    assert "the baseline is next to nothing" in found.reason
    near = compare_values([(0.0, 1.0)] * 19 + [(1.0, 0.0)], name="cost", relative=True)
    assert near.interval is not None
    assert near.interval.high == float("inf")


def test_pairs_that_no_number_in_reason_would_decide_are_not_counted() -> None:
    far = [(1e200, 0.0), (0.0, 1e200), (0.0, 1e-3)] * 4
    found = compare_values([*far, (0.0, 1e185)], name="cost")
    assert (found.verdict, found.needed) == ("inconclusive", None)


def test_the_same_seed_gives_the_same_comparison() -> None:
    made = latencies(30, factor=1.1)
    assert compare_values(made, name="x", seed=5) == compare_values(made, name="x", seed=5)
    as_json = compare_values(made, name="x", seed=5).as_dict()
    assert set(as_json) == {*Paired.__dataclass_fields__}
