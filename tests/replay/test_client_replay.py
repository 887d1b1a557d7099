"""Agents written with the ``openai`` client alone, recorded and replayed with the real package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.agents import oncall_client as oncall
from fixtures.model_server import ModelServer
from replay import replay_run
from replay.diff import diff
from tracekit.store import open_store

AGENTS = ("chat_pieces", "chat_threads", "responses_stream")
TOOLS = ["query_logs", "query_metrics", "roll_back"]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "test-key")
        yield running


@pytest.mark.parametrize("name", AGENTS)
def test_a_recorded_run_replays_to_its_end_and_nothing_is_executed(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    executions = tmp_path / "executions"
    monkeypatch.setenv(oncall.EXECUTIONS, str(executions))
    agent = getattr(oncall, name)
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="r"):
        said = agent(oncall.QUESTION)
        said = asyncio.run(said) if asyncio.iscoroutine(said) else said
    tracekit.configure(store=tmp_path / "elsewhere")
    assert "I rolled checkout-api back" in said
    assert sorted(executions.read_text().split()) == TOOLS
    before = (executions.read_text(), len(server.requests))

    first, second, last = open_store(tmp_path / "store").trajectory("r").decisions
    assert sorted(call.tool for call in first.calls) == TOOLS[:2]
    assert [(call.tool, call.effect) for call in second.calls] == [("roll_back", "write")]
    assert last.final

    result = replay_run(
        "r", planner=f"fixtures.agents.oncall_client:{name}", store=tmp_path / "store"
    )

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert result.trajectory is not None
    assert diff(result.recorded, result.trajectory).same
    assert {step.answer.rung for step in result.answered} == {"exact"}
    assert sorted(s.name for s in result.answered if s.kind == "call") == TOOLS
    assert (executions.read_text(), len(server.requests)) == before
