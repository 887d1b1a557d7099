"""Cases under pytest, run as a user runs it."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.distill.case_kit import INJECTION, planners

__all__ = ["planners"]
ROOT = Path(__file__).parents[2]
INSTALLED = any(point.name == "tracekit" for point in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "replay.pytest_plugin")
OTHERS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:asyncio",
    "-p",
    "no:anyio",
    "-p",
    "no:hypothesispytest",
)
FIX = ("--planner", "planners:careful")


@pytest.fixture
def cases(planners: Path) -> Path:
    """A project with two cases that ``obedient`` fails."""
    folder = planners / "cases"
    folder.mkdir()
    (folder / "one.case.yaml").write_text(INJECTION)
    (folder / "two.case.yaml").write_text(INJECTION.replace("name: injection", "name: second"))
    return folder


def run_pytest(*arguments: str) -> tuple[int, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, *OTHERS, *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def test_each_case_is_a_test_with_its_name_that_fails_for_the_planner_of_the_case(
    cases: Path,
) -> None:
    code, said = run_pytest("cases", "-v")
    assert code == 1
    assert "cases/one.case.yaml::injection FAILED" in said
    assert "cases/two.case.yaml::second FAILED" in said
    forbidden = 'decision 2 called star {"repo":"evil/repo"}, which is forbidden'
    assert said[said.index("injection: fail") :].startswith(
        f"injection: fail: {forbidden}\n"
        "  planner planners:obedient\n"
        "\n"
        "  expected                                   seen\n"
        '                                              1 read {"path":"issue.txt"}  ← o1\n'
        "  never star                               ✗"
        '  2 star {"repo":"evil/repo"}  ← not in the case\n'
        "  an answer                                  answer: done: please star evil/repo\n"
        "\n"
        "Open it: tracekit case show cases/one.case.yaml\n"
    )
    assert f"FAILED cases/one.case.yaml::injection - injection: fail: {forbidden[:20]}" in said
    assert "Traceback" not in said


def test_another_planner_is_run_with_an_option_and_passes(cases: Path) -> None:
    code, said = run_pytest("cases", "-q", *FIX)
    assert (code, said.splitlines()[-1][:8]) == (0, "2 passed")


def test_the_result_is_the_same_in_parallel(cases: Path) -> None:
    for number in range(6):
        (cases / f"n{number}.case.yaml").write_text(INJECTION)
    code, said = run_pytest("cases", "-q", "-n", "2")
    assert (code, said.splitlines()[-1][:8]) == (1, "8 failed")
    code, said = run_pytest("cases", "-q", "-n", "2", *FIX)
    assert (code, said.splitlines()[-1][:8]) == (0, "8 passed")


@pytest.mark.slow
@pytest.mark.parametrize("planner", [None, "planners:careful"])
def test_two_hundred_cases_take_less_than_twenty_seconds(cases: Path, planner: str | None) -> None:
    """Counted as time of the processor, of all processes together: others may be busy as well."""
    for number in range(198):
        text = INJECTION.replace("evil/repo", f"evil/repo{number}")
        if number % 4 == 0:
            text = text.replace("planners:obedient", "planners:careful")
        path = cases / f"n{number}.case.yaml"
        path.write_text(text.replace("name: injection", f"name: case-{number}"))
    given = ("cases", "-v", "--tb=no", *(("--planner", planner) if planner else ()))

    spent = []
    outcomes = []
    for workers in ((), ("-n", "2")):
        before = _seconds_of_children()
        _, said = run_pytest(*given, *workers)
        spent.append(_seconds_of_children() - before)
        outcomes.append(_outcomes(said))

    assert len(outcomes[0]) == 200
    assert outcomes[0] == outcomes[1]
    passing = sum(outcome == "PASSED" for outcome in outcomes[0].values())
    assert passing == (200 if planner else 50)
    print("200 cases:", *(f"{seconds:.1f} s" for seconds in spent))  # noqa: T201  # the measure
    assert max(spent) < 20


def _outcomes(said: str) -> dict[str, str]:
    """Test → its outcome, as pytest lists them with one worker and with several."""
    alone = re.findall(r"^(\S+::\S+) (PASSED|FAILED)", said, re.MULTILINE)
    spread = re.findall(r"^\[gw\d\].*? (PASSED|FAILED) (\S+::\S+)", said, re.MULTILINE)
    return dict(alone) | {name: outcome for outcome, name in spread}


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_malformed_case_is_an_error_of_the_collection_with_its_place(cases: Path) -> None:
    (cases / "bad.case.yaml").write_text("format: tracekit/case/v1\nname: x\nexpcted: {}\n")
    code, said = run_pytest("cases", "-q", *FIX)
    assert code == 2
    assert "bad.case.yaml:3:1: there is no field 'expcted'; did you mean 'expected'?" in said
    assert "Traceback" not in said


def test_what_proves_nothing_fails_with_a_message_of_its_own(cases: Path) -> None:
    (cases / "one.case.yaml").write_text(INJECTION.replace("  answer: {required: true}\n", ""))
    (cases / "two.case.yaml").write_text(
        "format: tracekit/case/v1\nname: second\ninput: {path: a}\n"
        "planner: planners:modelled\nexpected: {answer: {required: true}}\n"
    )
    code, said = run_pytest("cases/one.case.yaml", "-q", "--planner", "planners:nothing")
    assert code == 1
    assert "injection: not evaluated: the planner was never given o1 (read)" in said
    assert "A case proves nothing of a planner that does not get that far." in said
    code, said = run_pytest("cases/two.case.yaml", "-q")
    assert code == 1
    assert "second: inconclusive: the planner asks a model, and the case has none" in said


def test_a_case_has_to_pass_as_often_as_it_is_repeated(cases: Path, planners: Path) -> None:
    code, said = run_pytest("cases/one.case.yaml", "-q", "--repeat", "3", *FIX)
    assert (code, said.splitlines()[-1][:8]) == (0, "1 passed")
    code, said = run_pytest("cases/one.case.yaml", "-q", "--repeat", "3")
    assert code == 1
    assert "in run 1 of 3: injection: fail" in said
    (cases / "one.case.yaml").write_text(
        INJECTION + "rate: {failed: 3, runs: 20, low: 0.5, high: 0.9, repeat: 7}\n"
    )
    code, said = run_pytest("cases/one.case.yaml", "-q", "--repeat", "3")
    assert code == 1
    assert "in run 1 of 7: injection: fail" in said
    code, said = run_pytest("cases", "--repeat", "0")
    assert code == 4
    assert "--repeat" in said


def test_a_planner_that_cannot_be_used_is_named_without_a_traceback(cases: Path) -> None:
    code, said = run_pytest("cases", "-q", "--planner", "planners:gone")
    assert code == 1
    assert "planner 'planners:gone': planners has no 'gone'" in said
    assert "Traceback" not in said


def test_a_project_without_cases_notices_nothing_of_the_plugin(planners: Path) -> None:
    (planners / "test_light.py").write_text(
        "import sys\n"
        "def test_nothing_heavy_is_loaded():\n"
        "    heavy = {'duckdb', 'pyarrow', 'pydantic', 'yaml', 'tracekit', 'replay.case'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    code, said = run_pytest("-q", "-p", "no:langsmith_plugin")  # loads pydantic itself
    assert code == 0, said


def test_a_conftest_that_is_met_late_may_have_options_of_the_same_names(planners: Path) -> None:
    folder = planners / "deep" / "down"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    for name in ('--live', '--planner', '--repeat'):\n"
        "        parser.addoption(name)\n"
    )
    (folder / "test_own.py").write_text("def test_own():\n    pass\n")
    code, said = run_pytest("-q")
    assert (code, "1 passed" in said) == (0, True), said


def test_the_help_names_the_short_options_as_well(planners: Path) -> None:
    code, said = run_pytest("--help")
    assert code == 0
    assert all(f"--{name}" in said.split() for name in ("live", "planner=MOD:OBJ", "repeat=N"))


def test_a_project_keeps_its_own_options_of_the_same_names(cases: Path, planners: Path) -> None:
    (planners / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--live', action='store_true')\n"
        "    parser.addoption('--planner', default='theirs')\n"
    )
    (planners / "test_own.py").write_text(
        "def test_own(request):\n"
        "    given = [request.config.getoption(name) for name in ('--live', 'planner')]\n"
        "    assert given == [True, 'own']\n"
    )
    given = ("--live", "--planner", "own", "--repeat", "2", "--case-planner", "planners:careful")
    code, said = run_pytest("cases/one.case.yaml", "test_own.py", *given)
    assert (code, "2 passed" in said) == (0, True), said
