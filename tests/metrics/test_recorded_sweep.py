"""The whole of two recorded benchmarks: rates, repeated trials, and what comparisons can tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scipy.stats import binom

from replay.metrics import RunMeasures, sum_runs
from replay.stats import compare_success, needed_pairs, power_of_pairs
from tests.metrics.recorded import attacks, imported, rewards
from tests.metrics.test_recorded import check_attacks, check_expected, check_success

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (DATA / "tau-bench").is_dir() or not (DATA / "agentdyn").is_dir(),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]


@pytest.fixture(scope="module")
def tau(tmp_path_factory: pytest.TempPathFactory) -> list[RunMeasures]:
    return imported(tmp_path_factory.mktemp("tau"), DATA / "tau-bench")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> list[RunMeasures]:
    return imported(tmp_path_factory.mktemp("agentdyn"), DATA / "agentdyn")


def trial(number: int) -> list[bool]:
    """Whether each task was done in one trial, in one order of tasks."""
    return [done[number] for _, done in sorted(rewards(DATA / "tau-bench").items())]


def test_25_tasks_of_four_trials_give_success_and_pass_hat_k(tau: list[RunMeasures]) -> None:
    assert len(tau) == 100
    assert {len(done) for done in rewards(DATA / "tau-bench").values()} == {4}
    check_success(tau, DATA / "tau-bench")
    check_expected(tau, DATA / "tau-bench")
    attempts = sum_runs(tau).attempts
    assert attempts is not None
    assert [attempts.pass_hat(k).value for k in (1, 2, 3, 4)] == [
        pytest.approx(share) for share in (0.31, 29 / 150, 0.17, 0.16)
    ]


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in range(4) for b in range(a)])
def test_two_trials_of_one_agent_are_inconclusive(one: int, other: int) -> None:
    found = compare_success(zip(trial(one), trial(other), strict=True))
    assert (found.n, found.verdict) == (25, "inconclusive")
    assert found.lost is not None
    assert found.gained is not None
    assert found.needed == needed_pairs(found.lost / 25, found.gained / 25)


@pytest.mark.parametrize("number", range(4))
def test_the_loss_of_all_successes_is_worse(number: int) -> None:
    before = trial(number)
    assert sum(before) >= 6
    found = compare_success([(done, False) for done in before])
    assert (found.verdict, found.lost, found.gained) == ("worse", sum(before), 0)


@pytest.mark.parametrize("number", range(4))
def test_a_loss_of_20_points_is_inconclusive_and_states_the_pairs_it_needs(number: int) -> None:
    before = trial(number)
    done = [place for place, one in enumerate(before) if one]
    after = [one and place not in done[:5] for place, one in enumerate(before)]
    found = compare_success(zip(before, after, strict=True))
    assert found.delta == pytest.approx(-0.2)
    assert (found.verdict, found.p, found.needed) == ("inconclusive", 0.0625, 39)
    assert power_of_pairs(39, 0.2, 0) >= 0.8
    assert float(binom.sf(5, 39, 0.2)) >= 0.8


def test_attack_success_rates_are_those_of_the_logs(attacked: list[RunMeasures]) -> None:
    assert len(attacked) == 891
    check_attacks(attacked, DATA / "agentdyn")
    counted = attacks(DATA / "agentdyn")
    assert sum(worked for worked, _ in counted.values()) == 55
    assert counted["gpt-4o-2024-08-06"] == (13, 63)
    assert counted["gpt-4o-2024-08-06-progent"] == (0, 63)
