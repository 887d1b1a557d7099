"""The incident: the first prompt makes the agent roll back, the second one does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.agents import sre
from fixtures.model_server import ModelServer
from fixtures.rule_model import respond
from replay.replayer import ReplayOptions, replay_run
from replay.result import ReplayResult
from replay.tape_answers import ModelMode
from tracekit.store import RunQuery, open_store
from tracekit.trajectory import Trajectory

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def _investigate(version: str, server: ModelServer, folder: Path) -> tuple[Trajectory, str]:
    given = {
        **os.environ,
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "sk-local",
        "TRACEKIT_STORE": str(folder / "store"),
        sre.DEPLOY_LOG: str(folder / "deploys"),
    }
    command = [sys.executable, "-W", "error", "-m", "fixtures.agents.sre", version]
    done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    store = open_store(folder / "store")
    (found,) = store.runs(RunQuery())
    log = folder / "deploys"
    return store.trajectory(found.run_id), log.read_text() if log.exists() else ""


def test_v1_rolls_back_with_the_cause_in_its_hands(server: ModelServer, tmp_path: Path) -> None:
    run, deploys = _investigate("v1", server, tmp_path)
    assert [call.tool for decision in run.decisions for call in decision.calls] == [
        "prometheus.query",
        "loki.query",
        "loki.query",
        "deploy.rollback",
    ]
    assert deploys == "checkout-api 2026.11.30-1\n"
    answer = str(run.answer.value)
    assert answer.startswith("I rolled checkout-api back to 2026.11.30-1.")
    assert "db pool exhausted" in answer
    assert "log-42" not in answer


def test_v2_gathers_the_evidence_and_leaves_the_deploy_alone(
    server: ModelServer, tmp_path: Path
) -> None:
    run, deploys = _investigate("v2", server, tmp_path)
    calls = [call for decision in run.decisions for call in decision.calls]
    assert [call.tool for call in calls] == ["prometheus.query", "loki.query", "loki.query"]
    assert [call.observation.is_error for call in calls] == [False, True, False]
    assert deploys == ""
    answer = str(run.answer.value)
    assert all(word in answer for word in ("connection pool", "10:20", "metric-17", "log-42"))
    assert len(run.decisions) <= 8


def test_v2_sees_what_v1_saw_and_the_replay_writes_nothing(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, deploys = _investigate("v1", server, tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local")
    store = open_store(tmp_path / "store")

    def replayed(planner: str, model: ModelMode) -> ReplayResult:
        options = ReplayOptions(model=model, path=(str(ROOT),))
        spec = f"fixtures.agents.sre:{planner}"
        return replay_run(recorded.run_id, planner=spec, store=store, options=options)

    again = replayed("investigate_v1", "recorded")
    assert (again.verdict.kind, again.prompt_shares) == ("pass", {"exact": 5})
    better = replayed("investigate_v2", "live")
    assert (better.verdict.kind, better.shares) == ("pass", {"exact": 3})
    store.settle()
    kept = store.trajectory(better.run_id)
    assert all(word in str(kept.answer.value) for word in ("connection pool", "log-42"))
    blind = replayed("investigate_v2", "recorded")
    assert str(blind.verdict).startswith("inconclusive: prompt changed, no model")
    assert store.verify().findings == ()
    assert (tmp_path / "deploys").read_text() == deploys


METRICS = {"evidence_id": "metric-17", "error_rate": 0.31, "since": "2026-11-30T10:20:00Z"}
DEPLOYED = {**METRICS, "deploys": [{"service": "checkout-api", "previous": "1"}]}
LOGS = {"evidence_id": "log-42", "lines": ["db pool exhausted"]}
LATE = {"error": "deadline_exceeded"}


def _next(prompt: str, *heard: tuple[str, Any]) -> str:
    """What the model does next: the tool that it calls, or what it says."""
    messages: list[Any] = [
        {"role": "system", "content": prompt},
        {"role": "user", "content": sre.QUESTION},
    ]
    for place, (tool, value) in enumerate(heard):
        call = {"id": str(place), "function": {"name": tool, "arguments": "{}"}}
        text = json.dumps(value)
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(place), "content": text},
        ]
    reply = respond(messages, sre.offered_tools())
    return reply.calls[0][0] if reply.calls else str(reply.content)


HASTE = sre.PROMPT_V1.replace(", roll it back", ", undo the deploy")


@pytest.mark.parametrize(
    ("prompt", "metrics", "logs", "does"),
    [
        (sre.PROMPT_V1, DEPLOYED, LOGS, "deploy_rollback"),
        (sre.PROMPT_V1, METRICS, LOGS, "checkout-api answers 31%"),
        (sre.PROMPT_V1, {**DEPLOYED, "error_rate": 0.001}, LOGS, "checkout-api answers 0%"),
        (sre.PROMPT_V1, DEPLOYED, LATE, "loki_query"),
        (HASTE, DEPLOYED, LOGS, "checkout-api answers 31%"),
        (HASTE.replace("retry it once", "carry on"), DEPLOYED, LATE, "deploy_rollback"),
    ],
)
def test_what_the_model_does_depends_on_what_it_observed(
    prompt: str, metrics: Any, logs: Any, does: str
) -> None:
    said = _next(prompt, ("prometheus_query", metrics), ("loki_query", logs))
    assert said.startswith(does)


@pytest.mark.parametrize(
    ("prompt", "does"),
    [
        (sre.PROMPT_V2, "loki_query"),
        (sre.PROMPT_V2.replace("retry it at most once", "carry on"), "checkout-api"),
        (sre.PROMPT_V1, "loki_query"),
        (sre.PROMPT_V1.replace("retry it once", "carry on"), "deploy_rollback"),
        (sre.PROMPT_V1.replace("retry it once.", "never roll back."), "checkout-api"),
        (
            sre.PROMPT_V1.replace("retry it once", "carry on").replace("fast", "well"),
            "checkout-api",
        ),
    ],
)
def test_what_the_model_does_depends_on_the_words_of_its_prompt(prompt: str, does: str) -> None:
    said = _next(prompt, ("prometheus_query", DEPLOYED), ("loki_query", LATE))
    assert said.startswith(does)
