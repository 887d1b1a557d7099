"""Who answers a changed prompt, and step-locked replay: on the SRE agent and its real client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.agents import oncall_responses, sre
from fixtures.model_server import ModelServer
from replay import ReplayOptions, ReplayResult, replay_run
from replay.diff import diff

RUN = "sre-run"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "test-key")
        yield running


@pytest.fixture(scope="module")
def store(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of version 1, which rolls back."""
    folder = tmp_path_factory.mktemp("sre")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        sre.investigate_v1(sre.QUESTION)
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def replay(store: Path, version: str, **options: object) -> ReplayResult:
    return replay_run(
        RUN,
        planner=f"fixtures.agents.sre:investigate_{version}",
        store=store,
        options=ReplayOptions(**options),  # type: ignore[arg-type]  # as each test spells them
    )


def tools(result: ReplayResult) -> list[str]:
    return [step.name for step in result.answered if step.kind == "call"]


def test_the_same_prompts_are_answered_by_the_record(store: Path) -> None:
    result = replay(store, "v1")

    assert result.verdict.kind == "pass"
    assert {step.answer.rung for step in result.answered} == {"exact"}
    assert "deploy.rollback" in tools(result)


def test_a_changed_prompt_without_a_model_is_inconclusive_and_never_a_pass(store: Path) -> None:
    result = replay(store, "v2")

    assert result.verdict.kind == "inconclusive"
    assert result.verdict.reasons[0].startswith("prompt changed, no model")
    assert result.answered == ()


def test_a_live_model_answers_the_new_prompt_and_the_tools_come_from_the_record(
    store: Path,
) -> None:
    result = replay(store, "v2", model="live")

    assert result.verdict.kind == "pass"
    assert tools(result) == ["prometheus.query", "loki.query", "loki.query"]
    assert [call.tool for call in result.missing] == ["deploy.rollback"]
    assert result.trajectory is not None
    answer = str(result.trajectory.answer.value)
    assert "metric-17" in answer
    assert "log-42" in answer


def test_by_position_is_never_a_pass(store: Path) -> None:
    result = replay(store, "v2", model="positional")

    assert result.verdict.kind == "inconclusive"
    assert result.answered[0].answer.tainted


def test_a_dead_endpoint_says_nothing_about_the_planner(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    result = replay(store, "v2", model="live")

    assert result.verdict.kind == "inconclusive"
    assert "the model could not be asked" in result.verdict.reasons[0]


def test_locked_compares_each_decision_of_the_new_prompt_with_the_record(store: Path) -> None:
    result = replay(store, "v2", mode="locked", model="live")

    assert [decision.same for decision in result.locked].count(False) >= 1
    parted = next(decision for decision in result.locked if not decision.same)
    assert "rollback" in str(parted.recorded)
    assert parted.proposed["calls"] == []  # type: ignore[index,call-overload]  # a decision
    assert tools(result)[-1] == "deploy.rollback"


def test_locked_with_the_recorded_prompts_is_the_record(store: Path) -> None:
    result = replay(store, "v1", mode="locked")

    assert result.verdict.kind == "pass"
    assert all(decision.same for decision in result.locked)


def test_locked_without_a_model_for_a_changed_prompt_is_inconclusive(store: Path) -> None:
    result = replay(store, "v2", mode="locked")

    assert result.verdict.kind == "inconclusive"
    assert "prompt changed, no model" in result.verdict.reasons[0]


def test_an_agent_on_the_responses_api_is_replayed_like_any_other(
    server: ModelServer, tmp_path: Path
) -> None:
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="r"):
        said = oncall_responses.hasty(sre.QUESTION)
    tracekit.configure(store=tmp_path / "elsewhere")
    assert "I rolled checkout-api back" in said

    def replayed(name: str, **options: object) -> ReplayResult:
        return replay_run(
            "r",
            planner=f"fixtures.agents.oncall_responses:{name}",
            store=tmp_path / "store",
            options=ReplayOptions(**options),  # type: ignore[arg-type]  # as each call spells them
        )

    asked = len(server.requests)
    same = replayed("hasty")
    assert (same.verdict.kind, len(server.requests)) == ("pass", asked)
    assert same.trajectory is not None
    assert diff(same.recorded, same.trajectory).same
    assert "deploy.rollback" in tools(same)
    other = replayed("careful", model="live")
    assert other.verdict.kind == "pass"
    assert "deploy.rollback" not in tools(other)
    assert [call.tool for call in other.missing] == ["deploy.rollback"]
