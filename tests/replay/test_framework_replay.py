"""Agents built with LangChain and LangGraph, recorded and replayed with their real packages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.model_server import ModelServer
from replay import ReplayOptions, ReplayResult, replay_run
from replay.diff import diff
from tracekit.store import open_store
from tracekit.trajectory import Trajectory

pytest.importorskip("langgraph", reason="langgraph is not installed")
pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

from fixtures.agents import approval_graph as approval
from fixtures.agents import oncall_graph as oncall  # only where the packages are

SHAPES = ("hasty", "hasty_async", "hasty_graph", "hasty_react", "hasty_streamed")
TOOLS = ["query_logs", "query_metrics", "roll_back"]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "test-key")
        yield running


@pytest.fixture(scope="module")
def executions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file to which every real execution of a tool adds a line."""
    path = tmp_path_factory.mktemp("oncall") / "executions"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(oncall.EXECUTIONS, str(path))
        yield path


@pytest.fixture(scope="module")
def store(server: ModelServer, executions: Path) -> Path:
    """A store with one run of each agent."""
    folder = executions.parent
    tracekit.configure(store=folder / "store")
    with asyncio.Runner() as loop:  # LangChain keeps connections, which belong to one loop
        for name in (*SHAPES, "careful", "forgiving"):
            with tracekit.run(run_id=name):
                agent = getattr(oncall, name)
                said = agent(oncall.QUESTION)
                said = loop.run(said) if asyncio.iscoroutine(said) else said
                assert "database connection pool" in said
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def recorded(store: Path, name: str) -> Trajectory:
    return open_store(store).trajectory(name)


def replay(store: Path, run: str, planner: str, **options: object) -> ReplayResult:
    return replay_run(
        run,
        planner=f"fixtures.agents.oncall_graph:{planner}",
        store=store,
        options=ReplayOptions(**options),  # type: ignore[arg-type]  # as each test spells them
    )


@pytest.mark.parametrize("name", SHAPES)
def test_the_record_has_every_call_with_its_effect_and_decision(store: Path, name: str) -> None:
    trajectory = recorded(store, name)

    first, second, last = trajectory.decisions
    assert sorted(call.tool for call in first.calls) == TOOLS[:2]
    assert [call.tool for call in second.calls] == ["roll_back"]
    assert last.final
    assert {call.tool: call.effect for call in trajectory.calls} == {
        "query_metrics": "read",
        "query_logs": "read",
        "roll_back": "write",
    }
    metrics = next(call for call in first.calls if call.tool == "query_metrics")
    assert isinstance(metrics.arguments, dict)
    assert metrics.arguments["window"] == "30m"
    assert metrics.tool_call_id is not None
    assert metrics.tool_call_id.startswith("call_")
    assert len(trajectory.model_calls) == 3


@pytest.mark.parametrize("name", SHAPES)
def test_a_recorded_run_replays_to_its_end_and_nothing_is_executed(
    store: Path, server: ModelServer, executions: Path, name: str
) -> None:
    before, asked = executions.read_text(), len(server.requests)

    result = replay(store, name, name)

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert result.trajectory is not None
    assert diff(result.recorded, result.trajectory).same
    assert {step.answer.rung for step in result.answered} == {"exact"}
    assert sorted(s.name for s in result.answered if s.kind == "call") == TOOLS
    assert (executions.read_text(), len(server.requests)) == (before, asked)


def test_errors_that_a_tool_node_tells_the_model_are_told_it_again(
    store: Path, server: ModelServer, executions: Path
) -> None:
    before, asked = executions.read_text(), len(server.requests)
    calls = recorded(store, "forgiving").calls
    failed = [call for call in calls if call.observation.is_error]
    assert [(call.tool, call.observation.error_message) for call in failed] == [
        ("query_logs", "deadline_exceeded")
    ]

    result = replay(store, "forgiving", "forgiving")

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert result.trajectory is not None
    assert diff(result.recorded, result.trajectory).same
    assert len([s for s in result.answered if s.kind == "call"]) == len(calls) == 4
    assert (executions.read_text(), len(server.requests)) == (before, asked)


def test_a_write_that_was_not_recorded_is_refused(store: Path, executions: Path) -> None:
    before = executions.read_text()

    result = replay(store, "careful", "hasty", model="live")

    assert result.verdict.kind != "pass"
    assert [call.tool for call in recorded(store, "careful").calls] != TOOLS
    assert any("roll_back" in str(reason) for reason in result.verdict.reasons)
    assert executions.read_text() == before


@pytest.mark.parametrize("name", ["settle", "settle_async"])
def test_a_person_in_the_middle_commands_and_artifacts_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    executions = tmp_path / "executions"
    monkeypatch.setenv(approval.EXECUTIONS, str(executions))
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="settled"):
        said = getattr(approval, name)("Settle it.")
        said = asyncio.run(said) if asyncio.iscoroutine(said) else said
    tracekit.configure(store=tmp_path / "elsewhere")
    before = executions.read_text()
    assert said == "with billing; 3 points {'points': [0, 1, 2]}; paid 42, agreed"
    assert sorted(before.split()) == ["chart", "hand_off", "pay", "pay"]

    result = replay_run(
        "settled", planner=f"fixtures.agents.approval_graph:{name}", store=tmp_path / "store"
    )

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert result.trajectory is not None
    assert diff(result.recorded, result.trajectory).same
    assert executions.read_text() == before


def test_a_graph_that_ends_with_an_error_of_a_tool_ends_so_again(tmp_path: Path) -> None:
    tracekit.configure(store=tmp_path / "store")
    with pytest.raises(TimeoutError, match="no answer about A-17"), tracekit.run(run_id="stuck"):
        approval.stuck("A-17")
    tracekit.configure(store=tmp_path / "elsewhere")

    result = replay_run(
        "stuck", planner="fixtures.agents.approval_graph:stuck", store=tmp_path / "store"
    )

    assert result.verdict.kind == "pass"
    assert result.trajectory is not None
    assert result.trajectory.status == "error"
    assert diff(result.recorded, result.trajectory).same
