"""``tracekit replay``: who answers the model, what goes wrong, and how often."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tracekit
from fixtures.agents import reshipper
from tracekit.cli import main

RUN = "reshipper-run"
Call = Callable[..., Result]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reshipper")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        reshipper.careful("Where is parcel 7?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


@pytest.fixture
def call(store: Path) -> Call:
    def invoke(planner: str, *args: str) -> Result:
        words = ["replay", "--run-id", RUN, "--planner", f"fixtures.agents.reshipper:{planner}"]
        runner = CliRunner(env={"TRACEKIT_STORE": str(store)})
        return runner.invoke(main, [*words, "--isolation", "guard", *args])

    return invoke


@pytest.mark.parametrize(
    "fault",
    [
        "1=timeout",
        "1=timeout:30s",
        "1=429",
        "1=429:2s",
        "1=503",
        "1=reset",
        "1=malformed",
        "1=duplicate",
        "1=unknown-tool",
        "1=refusal",
        "1=empty",
        "think#1=truncated",
        "find#1=timeout",
        "find=error:the depot is closed",
        "find=empty",
        "find#1=reset",
        "reship=refused:not today",
    ],
)
def test_each_fault_reaches_a_planner_that_copes_and_is_no_pass(call: Call, fault: str) -> None:
    result = call("careful", "--fault", fault)

    assert result.exit_code == 2, result.output
    head, because, *rest = result.stdout.splitlines()
    assert head.startswith("INCONCLUSIVE")
    assert because.startswith("  because rests on simulate")
    assert f"fault {fault}, which you put in" in because
    assert "  findings   none: no write was attempted that the recording does not hold" in rest


def test_a_planner_that_does_not_cope_is_a_finding(call: Call) -> None:
    result = call("careless", "--fault", "1=429:2s")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1] == (
        "  because with 1=429:2s: the planner raised ModelStatusError: "
        "Error code: 429 - rate limit reached"
    )


def test_a_fault_that_is_none_is_misuse(call: Call) -> None:
    result = call("careful", "--fault", "1=exploded")

    assert result.exit_code == 2
    assert "fault 'exploded' is not known" in result.stderr
    assert "of a model: timeout, 429, 5xx, reset, malformed" in result.stderr


def test_a_script_of_any_kind_answers(call: Call) -> None:
    result = call("careful", "--model", "scripted", "--script", "fixtures.agents.clerk:LIST")
    assert result.exit_code == 0, result.output
    assert "'find'" in result.stdout  # what it was told last, as its answer

    result = call(
        "careless", "--model", "scripted", "--script", "fixtures.agents.clerk:Faulty.timeout"
    )
    assert result.exit_code == 1
    assert "Request timed out." in result.stdout


def test_the_users_own_function_is_the_live_model(call: Call) -> None:
    function = "fixtures.agents.reshipper:answer"
    result = call("careful", "--model", "live", "--live-model", function, "--json")

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["answer"].startswith("Nothing to do.")
    assert [step["rung"] for step in told["steps"]] == ["live", "live"]
    assert call("careful", "--live-model", function).exit_code == 2


def test_a_replay_is_repeated_and_told_once(call: Call) -> None:
    result = call("careful", "--repeat", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"PASS  2 replays of {RUN}: one trajectory")

    result = call("careful", "--repeat", "2", "--fault", "1=timeout", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["same"], told["verdict"]) == (2, True, "inconclusive")
    assert len(told["replays"]) == 2


def test_many_runs_are_not_repeated(store: Path) -> None:
    words = ["replay", "--since", "1h", "--planner", "fixtures.agents.reshipper:careful"]
    result = CliRunner(env={"TRACEKIT_STORE": str(store)}).invoke(main, [*words, "--repeat", "2"])

    assert result.exit_code == 2
    assert "--repeat is for one run" in result.stderr
