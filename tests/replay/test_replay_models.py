"""Who answers a changed prompt, and step-locked replay: on the SRE agent and its real client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import clerk, oncall_responses, sre
from fixtures.model_server import ModelServer
from replay import ReplayOptions, ReplayResult, replay_run
from replay.diff import diff
from replay.models import LiveModel, ModelUnavailable, run_by_provider
from tracekit.errors import PlannerNotFound, UsageError

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


# --- live: the user's function, and the named host only -------------------------------------------


@pytest.fixture(scope="module")
def asked_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run that only has an input."""
    folder = tmp_path_factory.mktemp("clerk")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id="clerk-run"):
        clerk.recorded("Where is my parcel?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def asked(store: Path, planner: Any, **options: Any) -> ReplayResult:
    return replay_run(
        "clerk-run", planner=planner, store=store, options=ReplayOptions(model="live", **options)
    )


def own_model(request: dict[str, Any]) -> str:
    """The user's way to a model: of clients it gets the request, of functions the arguments."""
    return f"asked with {sorted(request)}"


def test_a_function_of_the_users_answers_clients_and_decorated_functions(
    server: ModelServer, asked_store: Path
) -> None:
    before = len(server.requests)
    plain = asked(asked_store, lambda question: clerk.plain(question), model_live=own_model)
    chat = asked(asked_store, lambda question: clerk.chat(question), model_live=own_model)

    said = "asked with ['prompt']"
    assert plain.trajectory is not None
    assert plain.trajectory.answer.value == [{"says": said}, {"read": [said]}]
    assert (plain.verdict.kind, {s.answer.rung for s in plain.answered}) == ("pass", {"live"})
    assert chat.trajectory is not None
    assert "asked with ['messages', 'model']" in str(chat.trajectory.answer.value)
    assert len(server.requests) == before


def test_a_function_of_the_users_that_fails_says_nothing_about_the_planner(
    asked_store: Path,
) -> None:
    def broken(request: dict[str, Any]) -> str:
        raise ValueError("no credit left")

    result = asked(asked_store, lambda question: clerk.plain(question), model_live=broken)

    assert result.verdict.kind == "inconclusive"
    assert result.verdict.reasons[0] == "the model could not be asked: ValueError: no credit left"


def test_a_function_needs_model_live_and_must_be_one(asked_store: Path) -> None:
    with pytest.raises(UsageError, match="goes with --model live"):
        ReplayOptions(model_live=own_model)
    with pytest.raises(PlannerNotFound, match="live model 'nowhere:x'"):
        asked(asked_store, clerk.plain, model_live="nowhere:x")
    with pytest.raises(UsageError, match="answers nothing"):
        asked(asked_store, clerk.plain, model_live="fixtures.agents.clerk:WORDS")


@pytest.mark.parametrize(
    ("request_", "run"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, []),
        ({"tools": [{"type": "custom"}, {"name": "f", "input_schema": {}}, {"name": "g"}]}, []),
        ({"tools": [{"type": "web_search"}, {"type": "mcp"}]}, ["web_search", "mcp"]),
        ({"tools": [{"type": "code_interpreter", "container": "auto"}]}, ["code_interpreter"]),
        ({"web_search_options": {}}, ["web_search"]),
    ],
)
def test_what_a_provider_would_run_by_itself_is_known(
    request_: dict[str, Any], run: list[str]
) -> None:
    assert list(run_by_provider(request_)) == run


def test_a_provider_runs_no_tool_that_nobody_listed(server: ModelServer) -> None:
    request: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [{"type": "web_search"}],
    }
    before = len(server.requests)
    with pytest.raises(ModelUnavailable, match="run web_search by itself, which nobody listed"):
        LiveModel(base_url=server.url, api_key="k").complete(request)
    assert len(server.requests) == before
    LiveModel(base_url=server.url, api_key="k", listed=["web_search"]).complete(request)
    assert len(server.requests) == before + 1


def test_a_live_model_asks_the_named_host_and_no_other(server: ModelServer) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{server.url}/chat/completions")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    before = len(server.requests)
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as sending_on:
        threading.Thread(target=sending_on.serve_forever, args=(0.02,), daemon=True).start()
        model = LiveModel(base_url=f"http://127.0.0.1:{sending_on.server_port}/v1", api_key="k")
        with pytest.raises(ModelUnavailable, match="307"):
            model.complete({"model": "m", "messages": [{"role": "user", "content": "Hello"}]})
        sending_on.shutdown()
    assert len(server.requests) == before


def test_a_planner_that_reaches_for_its_model_by_a_socket_is_stopped(
    server: ModelServer, asked_store: Path
) -> None:
    before = len(server.requests)
    result = asked(asked_store, clerk.reaches_out, environment={"OPENAI_BASE_URL": server.url})

    assert result.verdict.kind == "fail"
    assert result.findings[0].kind == "wall"
    assert "127.0.0.1" in result.findings[0].text
    assert len(server.requests) == before
