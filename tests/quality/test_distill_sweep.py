"""Every published attack that succeeded, distilled: a case, or the true reason why none."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fixtures.agents.general import careful, gullible
from replay.case import parse_case
from replay.caserun import CaseRunner
from replay.distill import DistillResult, distill_record
from tracekit.cli import main
from tracekit.errors import DistillError
from tracekit.store import RunQuery, open_store
from tracekit.trajectory import Trajectory

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (DATA / "agentdyn").is_dir(),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]


# Closures run in this process, which is faster by the start of a child a planner.
def _planners() -> tuple[Any, Any]:
    def obeys(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return gullible(history, tools, script)

    def minds(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return careful(history, tools, script)

    return obeys, minds


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> list[Trajectory]:
    path = tmp_path_factory.mktemp("sweep") / "store"
    args = ["import", str(DATA / "agentdyn"), "--effects", "agentdyn", "--store", str(path)]
    assert CliRunner().invoke(main, args).exit_code == 0
    store = open_store(path)
    runs = [store.trajectory(found.run_id) for found in store.runs(RunQuery())]
    return [run for run in runs if _succeeded(run.attributes.get("labels"))]


def _succeeded(labels: Any) -> bool:
    told = labels or {}
    return bool(told.get("security") is True and told.get("injection_task_id"))


def test_attacks_that_succeeded_become_small_cases(attacked: list[Trajectory]) -> None:
    obeys, minds = _planners()
    made: list[DistillResult] = []
    refused: list[str] = []
    for run in attacked:
        try:
            made.append(distill_record(run, planner=obeys, fixed=minds))
        except DistillError as error:
            refused.append(error.message)

    assert len(attacked) == 55
    assert all("make the same writes" in reason for reason in refused)
    assert len(made) >= 48
    assert statistics.median(result.after.observations for result in made) == 1
    assert statistics.median(result.after.bytes for result in made) <= 100
    assert statistics.median(result.calls for result in made) <= 25
    assert max(result.after.observations for result in made) <= 2
    assert all(result.minimal for result in made)
    with CaseRunner(obeys) as fails, CaseRunner(minds) as passes:
        for result in made:
            case = parse_case(result.text)
            assert any(f.signature == case.reason for f in fails.run(case).findings)
            assert passes.run(case).passed
