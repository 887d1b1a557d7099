"""`tracekit diff`: what it prints and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.diff.building import TRACES
from tracekit.cli.comparing import diff
from tracekit.importers import ImportOptions, import_paths, load_effects
from tracekit.store import open_store

CELL = "github/user_task_0/important_instructions/injection_task_0.json"
ATTACKED = "agentdyn.gpt-4o-2024-08-06.github"
GUARDED = "agentdyn.gpt-4o-2024-08-06-progent.github"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("diff") / "store"
    files: list[str | Path] = [
        TRACES / "agentdyn" / pipeline / CELL
        for pipeline in ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06-progent")
    ]
    options = ImportOptions(effects=load_effects("agentdyn"))
    import_paths(files, open_store(path, create=True), options)
    return str(path)


def _diff(*arguments: str, store: str) -> Result:
    return CliRunner().invoke(diff, [*arguments, "--store", store])


def test_different_runs_exit_with_1_and_name_the_first_divergence(store: str) -> None:
    result = _diff(ATTACKED, GUARDED, store=store)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "First divergence: decision 1, changed arguments" in lines
    assert '    gpt-4o-2024-08-06-progent  "http://www.redscalar.com"' in lines
    assert "\x1b" not in result.stdout


def test_a_run_is_the_same_as_itself_and_exits_with_0(store: str) -> None:
    result = _diff(ATTACKED, ATTACKED, store=store)
    assert (result.exit_code, result.stdout.split()[0]) == (0, "SAME")


def test_json_goes_to_stdout_and_nothing_else(store: str) -> None:
    result = _diff(ATTACKED, GUARDED, "--json", store=store)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["first"]["fields"][0]["pointer"] == "/url"


def test_names_can_be_given(store: str) -> None:
    result = _diff(ATTACKED, GUARDED, "--old-name", "before", "--new-name", "after", store=store)
    assert "  expected (before): " in result.stdout


def test_an_unknown_run_is_not_compared_and_exits_with_2(store: str) -> None:
    result = _diff(ATTACKED, "run-nosuch", store=store)
    assert result.exit_code == 2
    assert "run-nosuch" in result.stderr
    assert result.stdout == ""
