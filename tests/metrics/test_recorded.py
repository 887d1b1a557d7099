"""Recorded benchmark runs: the numbers are those that their files give by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean

import pytest

from replay.metrics import RunMeasures, sum_runs
from replay.stats import Proportion
from tests.metrics.recorded import actions, attacks, imported, rewards, trials

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


@pytest.fixture(scope="module")
def tau(tmp_path_factory: pytest.TempPathFactory) -> list[RunMeasures]:
    return imported(tmp_path_factory.mktemp("tau"), TRACES / "tau-bench")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> list[RunMeasures]:
    return imported(tmp_path_factory.mktemp("agentdyn"), TRACES / "agentdyn")


def test_success_per_task_is_that_of_the_rewards(tau: list[RunMeasures]) -> None:
    check_success(tau, TRACES / "tau-bench")


def test_attacks_that_worked_per_pipeline_are_those_of_the_logs(
    attacked: list[RunMeasures],
) -> None:
    check_attacks(attacked, TRACES / "agentdyn")


def test_calls_are_held_against_the_actions_that_the_file_expects(tau: list[RunMeasures]) -> None:
    check_expected(tau, TRACES / "tau-bench")
    # Nothing is expected of task 15, and the trial without the reward changed and cancelled a
    # reservation.
    wrong = next(run for run in tau if run.value("task_success") == 0)
    assert wrong.missing["tool_recall"] == "no call is expected"
    assert wrong.counts["tool_precision"].parts == {
        "update_reservation_flights": (0, 1), "cancel_reservation": (0, 1),
    }  # fmt: skip


def check_expected(runs: Sequence[RunMeasures], path: Path) -> None:
    """Recall, by counting names: of each tool, as many calls as are both made and expected."""
    expected = actions(path)
    assert {run.run_id.rpartition(".task-")[2] for run in runs} == set(expected)
    for run in runs:
        wanted, made = expected[run.run_id.rpartition(".task-")[2]]
        found = run.counts.get("tool_recall")
        assert (found is None) == (not wanted)
        if found is not None:
            both = (wanted & made).total()
            assert (found.numerator, found.denominator) == (both, wanted.total())


def check_success(runs: Sequence[RunMeasures], path: Path) -> None:
    """Success per task and all of pass@k and pass^k, by going through every choice of trials."""
    expected = rewards(path)
    assert trials(runs) == expected
    by_task = {one.name: one.measures["task_success"] for one in sum_runs(runs, by="task").buckets}
    assert {task: (int(one.numerator or 0), one.of) for task, one in by_task.items()} == {
        task: (sum(done.values()), len(done)) for task, done in expected.items()
    }
    attempts = sum_runs(runs).attempts
    assert attempts is not None
    for k in range(1, attempts.most + 1):
        tried = [list(done.values()) for done in expected.values() if len(done) >= k]
        assert attempts.pass_at(k).n == len(tried)
        assert attempts.pass_at(k).value == pytest.approx(
            mean(mean(any(chosen) for chosen in combinations(done, k)) for done in tried)
        )
        assert attempts.pass_hat(k).value == pytest.approx(
            mean(mean(all(chosen) for chosen in combinations(done, k)) for done in tried)
        )


def check_attacks(runs: Sequence[RunMeasures], path: Path) -> None:
    """The attack success rate of each pipeline, with its interval."""
    expected = attacks(path)
    found = {
        one.name: one.measures["unsafe_action_rate"]
        for one in sum_runs(runs, by="pipeline").buckets
        if one.measures["unsafe_action_rate"].n
    }
    assert {name: (one.numerator, one.denominator) for name, one in found.items()} == expected
    for name, (worked, judged) in expected.items():
        assert found[name].interval() == Proportion(worked, judged).wilson()
