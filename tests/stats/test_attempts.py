"""pass@k and pass^k: by counting all choices, and what they are expected to be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from replay.stats import average_over_tasks, pass_at_k, pass_hat_k

tries = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))
)


@given(tries)
def test_they_are_the_share_of_choices_of_k_attempts(of: tuple[int, int, int]) -> None:
    n, c, k = of
    choices = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(mean(any(one) for one in choices))
    assert pass_hat_k(n, c, k) == pytest.approx(mean(all(one) for one in choices))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_they_are_unbiased(p: float, k: int) -> None:
    def expected(of: Callable[[int, int, int], float | None]) -> float:
        return float(sum(binom.pmf(c, 7, p) * (of(7, c, k) or 0) for c in range(8)))

    assert expected(pass_at_k) == pytest.approx(1 - (1 - p) ** k)
    assert expected(pass_hat_k) == pytest.approx(p**k)


@given(tries)
def test_one_attempt_more_helps_the_one_and_hurts_the_other(of: tuple[int, int, int]) -> None:
    n, c, k = of
    at, hat = pass_at_k(n, c, k), pass_hat_k(n, c, k)
    assert at is not None
    assert hat is not None
    assert 0 <= hat <= c / n + 1e-12
    assert c / n - 1e-12 <= at <= 1
    if k < n:
        assert (pass_at_k(n, c, k + 1) or 0) >= at - 1e-12
        assert (pass_hat_k(n, c, k + 1) or 0) <= hat + 1e-12
    if c < n:
        assert (pass_at_k(n, c + 1, k) or 0) >= at - 1e-12
        assert (pass_hat_k(n, c + 1, k) or 0) >= hat - 1e-12


@given(tries)
def test_all_of_k_succeed_where_none_of_k_fails(of: tuple[int, int, int]) -> None:
    n, c, k = of
    failing = pass_at_k(n, n - c, k)
    assert failing is not None
    assert pass_hat_k(n, c, k) == pytest.approx(1 - failing)


def test_more_attempts_than_were_made_are_not_known() -> None:
    assert pass_at_k(3, 1, 4) is None
    assert pass_hat_k(3, 3, 4) is None


@pytest.mark.parametrize("of", [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_what_is_no_count_is_refused(of: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"attempts"):
        pass_at_k(*of)


def test_the_average_is_over_tasks_and_says_which_are_left_out() -> None:
    found = average_over_tasks(pass_hat_k, [(4, 4), (4, 2), (4, 0), (1, 1)], 2)
    assert found.name == "pass^2"
    assert found.value == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert (found.n, found.note) == (3, "1 task with fewer than 2 attempts left out")
    assert found.interval is not None
    assert found.value in found.interval


def test_the_average_of_no_task_is_none() -> None:
    found = average_over_tasks(pass_at_k, [(1, 1)], 2)
    assert (found.name, found.value, found.interval, found.n) == ("pass@2", None, None, 0)
