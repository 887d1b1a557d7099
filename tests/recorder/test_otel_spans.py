"""Spans of other instrumentations as events of our runs, made with the real SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer

from tests.recorder.otlp_kit import run_program
from tests.recorder.record_kit import Recorded, everything, recording
from tracekit import otel
from tracekit.assembly import build
from tracekit.foreign import SpanRecorder
from tracekit.otel import processor

ASK = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
LOOK = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}


@contextmanager
def watched() -> Iterator[tuple[Recorded, Tracer]]:
    """A provider of the program's own, watched."""
    with recording() as recorded:
        provider = TracerProvider()
        assert otel.watch(SpanRecorder(lambda: recorded.recorder), provider)
        yield recorded, provider.get_tracer("theirs", "1.2")
        provider.shutdown()


def test_spans_outside_any_run_are_a_run_named_by_their_trace() -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"n": 1}}
    with (
        watched() as (recorded, tracer),
        tracer.start_as_current_span("agent", attributes=AGENT) as root,
    ):
        with tracer.start_as_current_span("chat m-1", attributes=ASK) as span:
            span.set_attribute("gen_ai.input.messages", json.dumps(messages))
            answer = [{"role": "assistant", "parts": [call]}]
            span.set_attribute("gen_ai.output.messages", json.dumps(answer))
            span.set_attribute("gen_ai.usage.input_tokens", 12)
            span.set_attribute("gen_ai.response.model", "m-1-2026")
            span.set_attribute("gen_ai.response.finish_reasons", ["tool_call"])
        with tracer.start_as_current_span("tool", attributes=LOOK) as span:
            span.set_attribute("gen_ai.tool.call.id", "c1")
            span.set_attribute("gen_ai.tool.call.arguments", '{"n": 1}')
            span.set_attribute("gen_ai.tool.call.result", '{"found": true}')
    rows = recorded.rows()
    trace_id = f"{root.get_span_context().trace_id:032x}"
    assert {(row.run_id, row.trace_id) for row in rows} == {(trace_id, trace_id)}
    assert recorded.tree() == [["helper", "m-1", "look"]]
    run, model, tool = rows
    assert [row.event_type for row in rows] == ["run", "llm_call", "tool_call"]
    assert (run.status, recorded.run_row().agent, recorded.run_row().status) == (
        "ok", "helper", "ok",
    )  # fmt: skip
    assert (model.model, model.model_requested, model.usage_input) == ("m-1-2026", "m-1", 12)
    assert model.prompt_hash is not None
    assert json.loads(model.attributes)["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert json.loads(model.attributes)["otel"] == {
        "convention": "gen_ai",
        "scope": "theirs",
        "name": "chat m-1",
    }
    assert (tool.tool_call_id, tool.llm_span_id, tool.call_index) == ("c1", model.span_id, 0)
    assert recorded.argument(tool) == {"n": 1}
    assert recorded.observation(tool) == {"found": True}
    assert (tool.effect, tool.observation_is_error) == ("unknown", False)
    trajectory = build(rows, recorded.sink.blobs.get)
    assert [call.tool for decision in trajectory.decisions for call in decision.calls] == ["look"]


def test_times_are_those_of_the_span_and_failures_have_their_class() -> None:
    with watched() as (recorded, tracer):
        span = tracer.start_span("tool", attributes=LOOK, start_time=5_000)
        span.record_exception(ValueError("no such row"))
        span.set_status(Status(StatusCode.ERROR, "no such row"))
        span.end(end_time=9_000)
    row = recorded.row()
    assert (row.ts_start_ns, row.ts_end_ns, row.latency_ns) == (5_000, 9_000, 4_000)
    assert (row.status, row.error_type, row.error_message) == (
        "error", "ValueError", "no such row",
    )  # fmt: skip
    assert row.observation_is_error


def test_a_span_that_follows_no_convention_is_kept_where_one_that_does_stands_beneath_it() -> None:
    with watched() as (recorded, tracer):
        with tracer.start_as_current_span("GET /"):
            with (
                tracer.start_as_current_span("middleware"),
                tracer.start_as_current_span("tool", attributes=LOOK),
                tracer.start_as_current_span("SELECT 1"),
            ):
                pass
            with tracer.start_as_current_span("cache"):
                pass
        with tracer.start_as_current_span("GET /health"):
            pass
    assert recorded.tree() == [["GET /", ["middleware", "look"]]]


def test_two_instrumentations_of_one_call_are_one_call() -> None:
    with watched() as (recorded, tracer), tracer.start_as_current_span("agent", attributes=AGENT):
        with tracer.start_as_current_span("langchain", attributes=ASK) as outer:
            outer.set_attribute("gen_ai.usage.input_tokens", 5)
            said = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 5}
            with tracer.start_as_current_span("openai", attributes=said):
                pass
        with tracer.start_as_current_span("tool", attributes=LOOK):
            said = {**LOOK, "mcp.method.name": "tools/call"}
            with tracer.start_as_current_span("tools/call look", attributes=said):
                pass
    assert recorded.run_row().usage_input == 5
    assert (recorded.run_row().llm_calls, recorded.run_row().tool_calls) == (1, 1)
    outer_row, inner_row = (row for row in recorded.rows("span"))
    kept = json.loads(outer_row.attributes)["tracekit.same_call"]
    assert kept == {"kind": "llm_call", "model_requested": "m-1", "usage_input": 5}
    assert json.loads(inner_row.attributes)["mcp.method.name"] == "tools/call"


def test_no_secret_of_a_span_is_kept() -> None:
    with (
        watched() as (recorded, tracer),
        tracer.start_as_current_span("for jo@example.com", attributes=LOOK) as span,
    ):
        span.set_attribute("gen_ai.tool.call.arguments", '{"password": "s3cret-Pa55word"}')
        span.set_attribute("note", "the password is s3cret-Pa55word")
        span.set_attribute("url", "https://x/?api_key=sk-proj-abcdefghijklmnopqrstuvwxyz12345")
        span.record_exception(ValueError("jo@example.com has s3cret-Pa55word"))
        span.set_status(Status(StatusCode.ERROR))
    text = everything(recorded)
    for secret in ("jo@example.com", "s3cret", "abcdefghijklmnopqrstuvwxyz12345"):
        assert secret not in text
    assert recorded.row().argument_state == "captured"


def test_events_of_a_span_are_kept_without_secrets_and_messages_only_as_content() -> None:
    with watched() as (recorded, tracer):
        span = tracer.start_span("chat", attributes=ASK)
        span.add_event("retry", {"after_s": 2, "password": "s3cret-Pa55word"}, 7)
        span.add_event("gen_ai.user.message", {"content": "mail jo@example.com"})
        span.add_event("for jo@example.com", {"deep": ["jo@example.com"]})
        span.record_exception(ValueError("jo@example.com has s3cret-Pa55word"))
        span.end()
    kept = json.loads(recorded.row("llm_call").attributes)["otel.events"]
    assert [event["name"] for event in kept][::2] == ["retry", "exception"]
    assert (kept[0]["time_ns"], kept[0]["attributes"]["after_s"]) == (7, 2)
    assert kept[2]["attributes"]["exception.type"] == "ValueError"
    for secret in ("jo@example.com", "s3cret"):
        assert secret not in everything(recorded)


def test_evidence_and_policies_of_others_are_noted_as_ours_are() -> None:
    found = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "docs"}
    guardrail = {"openinference.span.kind": "GUARDRAIL", "output.value": "block"}
    with watched() as (recorded, tracer), tracer.start_as_current_span("agent", attributes=AGENT):
        with tracer.start_as_current_span("retrieval", attributes=found) as span:
            span.set_attribute("gen_ai.retrieval.query.text", "rates")
            span.set_attribute("gen_ai.retrieval.documents", '[{"id": "d1"}, {"id": "d2"}]')
        with tracer.start_as_current_span("night", attributes=guardrail):
            pass
    (retrieval,) = recorded.rows("retrieval")
    assert (retrieval.effect, retrieval.evidence_ids) == ("read", ("d1", "d2"))
    assert recorded.argument(retrieval) == {"query": "rates"}
    (policy,) = recorded.rows("policy")
    assert (policy.policy_decision, policy.policy_id) == ("deny", "night")


@pytest.mark.parametrize("broken", ["receive", "place"])
def test_a_fault_of_ours_never_reaches_the_program(
    broken: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("disk full")

    with watched() as (recorded, tracer):
        monkeypatch.setattr(SpanRecorder, broken, fail)
        with tracer.start_as_current_span("tool", attributes=LOOK):
            pass
    assert "could not record a span: OSError" in caplog.text
    assert recorded.rows() == []


def test_what_cannot_be_written_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched() as (recorded, tracer):
        with monkeypatch.context() as patch:
            patch.setattr(recorded.sink, "write", lambda *_: (_ for _ in ()).throw(OSError("full")))
            with tracer.start_as_current_span("tool", attributes=LOOK):
                pass
        assert recorded.recorder.lost == 1


def test_spans_that_never_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_MOST_OPEN", 3)
    with watched() as (recorded, tracer):
        spans = [tracer.start_span("tool", attributes=LOOK) for _ in range(5)]
        for span in spans:
            span.end()
    assert len(recorded.rows()) == 3


def test_a_forked_process_ends_spans_of_its_own(tmp_path: Path) -> None:
    rows = json.loads(run_program(tmp_path, FORKED))
    assert sorted(rows) == [["agent", 1], ["in the child", 2], ["in the parent", 2]]


FORKED = """
import json, os
import tracekit
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
tracekit.configure(spans=True)
theirs = trace.get_tracer("theirs")

def look(name):
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    with theirs.start_as_current_span("execute_tool", attributes=said):
        pass

with tracekit.run(name="agent", run_id="r-1"):
    child = os.fork()
    for _ in range(2):
        look("in the parent" if child else "in the child")
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.store import open_store
store = open_store(".tracekit")
names = [row.actor for row in store.events("r-1")]
print(json.dumps([[name, names.count(name)] for name in set(names)]))
"""


def test_a_provider_is_watched_once_and_keeps_its_own_processors() -> None:
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with recording() as recorded:
        receiver = SpanRecorder(lambda: recorded.recorder)
        assert otel.watch(receiver, provider)
        assert otel.watch(receiver, provider)
        with provider.get_tracer("theirs").start_as_current_span("tool", attributes=LOOK):
            pass
    assert len(recorded.rows()) == 1
    assert [span.name for span in exporter.get_finished_spans()] == ["tool"]


PROGRAM = """
import json, threading
import tracekit
tracekit.configure(spans={early})
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider()
trace.set_tracer_provider(provider)
if not {early}:
    tracekit.configure(spans=True)
theirs = trace.get_tracer("theirs")
ASK = {{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}}
LOOK = {{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}}

@tracekit.tool(name="look")
def look():
    return 1

@tracekit.llm(model="m-1", name="ask")
def ask():
    with theirs.start_as_current_span("chat m-1", attributes=ASK):
        return "hello"

def elsewhere(context_of_run):
    token = context.attach(context_of_run)
    with theirs.start_as_current_span("in a thread", attributes=ASK):
        pass
    context.detach(token)

@tracekit.agent
def work():
    with theirs.start_as_current_span("execute_tool look", attributes=LOOK):
        look()
    with theirs.start_as_current_span("execute_tool other", attributes={{
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "other"}}):
        pass
    ask()
    thread = threading.Thread(target=elsewhere, args=(context.get_current(),))
    thread.start(); thread.join()

work()
with theirs.start_as_current_span("agent", attributes={{
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "framework"}}):
    look()
assert trace.get_tracer_provider() is provider

from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.store import RunQuery, open_store
store = open_store(".tracekit")
print(json.dumps([[[r.event_type, r.actor, r.span_id, r.parent_span_id]
                   for r in store.events(line.run_id)] for line in store.runs(RunQuery())]))
"""


@pytest.mark.parametrize("early", [True, False])
def test_spans_beneath_our_steps_are_events_of_their_run_and_no_call_is_counted_twice(
    tmp_path: Path, early: bool
) -> None:
    framework, ours = json.loads(run_program(tmp_path, PROGRAM.format(early=early)))
    by_actor: dict[str, Any] = {}
    for kind, actor, span, parent in ours:
        by_actor.setdefault(f"{kind} {actor}", []).append((span, parent))
    root = by_actor["run work"][0][0]
    assert sorted(by_actor) == [
        "llm_call ask",
        "llm_call m-1",
        "run work",
        "span look",
        "span m-1",
        "tool_call look",
        "tool_call other",
    ]
    assert by_actor["span look"][0][1] == root
    assert by_actor["tool_call look"][0][1] == by_actor["span look"][0][0]
    assert by_actor["span m-1"][0][1] == by_actor["llm_call ask"][0][0]
    assert by_actor["llm_call m-1"][0][1] == root
    assert [row[:2] for row in framework] == [["run", "framework"], ["tool_call", "look"]]
    assert framework[1][3] == framework[0][2]


INSIDE = """
import json, threading
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import tracekit
memory, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
tracekit.configure(spans=True)
theirs = trace.get_tracer("theirs")
SUB = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "sub"}

@tracekit.tool(effect="read")
def look(key):
    return key

@tracekit.tool(effect="read")
def outer():
    with theirs.start_as_current_span("GET"):
        look("c")

@tracekit.agent
def work():
    with theirs.start_as_current_span("invoke_agent sub", attributes=SUB):
        look("a")                    # the short way
        look({1, 2})                 # the general way
        with theirs.start_as_current_span("plain"):
            look("b")
        outer()

work()
from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.assembly import build
from tracekit.store import RunQuery, open_store
store = open_store(".tracekit")
(line,) = store.runs(RunQuery())
rows = list(store.events(line.run_id))
wire = {f"{s.context.span_id:016x}": f"{s.parent.span_id:016x}" for s in memory.get_finished_spans()
        if s.parent}
run = build(rows, store.blob)
print(json.dumps([[[r.actor, r.span_id, r.parent_span_id, wire.get(r.span_id)] for r in rows],
    sorted([call.tool, list(call.path)] for call in (*run.calls, *run.covered))]))
"""


def test_a_step_stands_beneath_the_span_that_it_runs_in_where_that_is_an_event_of_the_run(
    tmp_path: Path,
) -> None:
    rows, paths = json.loads(run_program(tmp_path, INSIDE))
    names = {span: actor for actor, span, _, _ in rows}
    stored = sorted((actor, names.get(parent)) for actor, _, parent, _ in rows)
    assert stored == [
        ("look", "outer"), ("look", "sub"), ("look", "sub"), ("look", "sub"),
        ("outer", "sub"), ("sub", "work"), ("work", None),
    ]  # fmt: skip
    # On the wire a span that is no event stands in between.
    assert sum(parent == sent for _, _, parent, sent in rows) == len(rows) - 2
    # What is replayed knows of our steps alone.
    assert paths == [["look", []], ["look", []], ["look", []], ["look", ["outer"]], ["outer", []]]
