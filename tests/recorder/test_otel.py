"""Spans beside our events: equal ids, other people's spans nested, names of the conventions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMON = """
import json, sys
import tracekit
from tracekit import configuration

@tracekit.tool(effect="read", name="look")
def look(n):
    if n < 0:
        raise ValueError("negative")
    return n

@tracekit.llm(model="m-1", provider="openai", name="ask")
def ask(prompt):
    return "hello"

@tracekit.llm(name="ask_any")
def ask_any(prompt):
    return "hello"

@tracekit.retrieval(name="docs")
def find(query):
    return [query]

def rows():
    configuration.recorder().sink.close()
    from tracekit.store import open_store
    store = open_store(".tracekit")
    from tracekit.store import RunQuery
    return [row for line in store.runs(RunQuery()) for row in store.events(line.run_id)]
"""
WITH_SDK = (
    COMMON
    + """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
foreign = trace.get_tracer("foreign")

@tracekit.tool(name="outer")
def outer():
    with foreign.start_as_current_span("theirs"):
        look(1)

@tracekit.agent
def work():
    outer(); ask("secret words"); ask_any("x"); find("y")
    try:
        look(-1)
    except ValueError:
        pass
    return "done"

with foreign.start_as_current_span("server"):
    work()
events = [[r.event_type, r.actor, r.trace_id, r.span_id, r.parent_span_id] for r in rows()]
spans = [
    {"name": s.name, "kind": s.kind.name, "trace": f"{s.context.trace_id:032x}",
     "span": f"{s.context.span_id:016x}",
     "parent": f"{s.parent.span_id:016x}" if s.parent else None,
     "attributes": dict(s.attributes), "status": s.status.status_code.name}
    for s in exporter.get_finished_spans()
]
ids = {r.span_id: r.event_id for r in rows()}
prompts = {r.span_id: r.prompt_hash for r in rows()}
print(json.dumps({"events": events, "spans": spans, "ids": ids, "prompts": prompts}))
"""
)
SAMPLED_OUT = WITH_SDK.replace(
    "provider = TracerProvider()",
    "from opentelemetry.sdk.trace.sampling import ALWAYS_OFF\n"
    "provider = TracerProvider(sampler=ALWAYS_OFF)",
)
WITHOUT_SDK = (
    COMMON
    + """
@tracekit.agent
def work():
    return look(1)

work()
events = [[r.event_type, r.actor, r.trace_id, r.span_id, r.parent_span_id] for r in rows()]
print(json.dumps({"events": events, "sdk": "opentelemetry.sdk" in sys.modules}))
"""
)
REMOTE = WITHOUT_SDK.replace(
    "work()\nevents",
    """
from opentelemetry import context, trace
remote = trace.SpanContext(0xabc, 0xdef, is_remote=True)
context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote)))
work()
events""",
)


def _run(tmp_path: Path, script: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_with_an_sdk_each_event_has_the_ids_of_its_span(tmp_path: Path) -> None:
    said = _run(tmp_path, WITH_SDK)
    spans = {span["span"]: span for span in said["spans"]}
    server = next(span for span in said["spans"] if span["name"] == "server")
    assert len(said["events"]) == 7
    for _kind, _actor, trace_id, span_id, _parent in said["events"]:
        assert spans[span_id]["trace"] == trace_id == server["trace"]
    by_actor = {actor: span_id for _kind, actor, _trace, span_id, _parent in said["events"]}
    assert spans[by_actor["work"]]["parent"] == server["span"]


def test_spans_of_others_nest_in_ours_and_ours_in_theirs(tmp_path: Path) -> None:
    said = _run(tmp_path, WITH_SDK)
    events = {event[1]: event for event in reversed(said["events"])}
    theirs = next(span for span in said["spans"] if span["name"] == "theirs")
    look = next(span for span in said["spans"] if span["span"] == events["look"][3])
    assert theirs["parent"] == events["outer"][3]
    assert look["parent"] == theirs["span"]
    assert events["look"][4] == events["outer"][3]


def test_names_kinds_and_attributes_are_those_of_the_conventions_and_hold_no_content(
    tmp_path: Path,
) -> None:
    said = _run(tmp_path, WITH_SDK)
    spans = [span for span in said["spans"] if span["name"] not in ("server", "theirs")]
    assert [(span["name"], span["kind"]) for span in spans] == [
        ("execute_tool look", "INTERNAL"),
        ("execute_tool outer", "INTERNAL"),
        ("chat m-1", "CLIENT"),
        ("chat", "CLIENT"),
        ("retrieval docs", "CLIENT"),
        ("execute_tool look", "INTERNAL"),
        ("invoke_agent work", "INTERNAL"),
    ]
    run_id = spans[0]["attributes"]["tracekit.run.id"]
    assert spans[2]["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.provider.name": "openai",
        "tracekit.run.id": run_id,
        "tracekit.event.id": said["ids"][spans[2]["span"]],
        "tracekit.seq": 5,
        "tracekit.prompt.hash": said["prompts"][spans[2]["span"]],
    }
    assert spans[5]["attributes"]["error.type"] == "ValueError"
    assert [span["status"] for span in spans] == ["UNSET"] * 5 + ["ERROR", "UNSET"]
    assert "secret words" not in json.dumps(said["spans"])
    assert "negative" not in json.dumps(said["spans"])


def test_a_span_that_is_sampled_out_still_lends_its_ids(tmp_path: Path) -> None:
    said = _run(tmp_path, SAMPLED_OUT)
    assert said["spans"] == []
    assert len({event[3] for event in said["events"]}) == 7
    assert len({event[2] for event in said["events"]}) == 1


def test_without_an_sdk_ids_are_ours_and_none_is_loaded(tmp_path: Path) -> None:
    said = _run(tmp_path, WITHOUT_SDK)
    (_, _, trace_id, run_span, none), (_, _, same, look_span, parent) = said["events"]
    assert (same, parent, none) == (trace_id, run_span, None)
    assert (len(trace_id), len(run_span), len(look_span)) == (32, 16, 16)
    assert not said["sdk"]


def test_a_trace_that_came_from_another_process_goes_on_in_ours(tmp_path: Path) -> None:
    said = _run(tmp_path, REMOTE)
    assert {event[2] for event in said["events"]} == {f"{0xABC:032x}"}
    spans = [event[3] for event in said["events"]]
    assert len(set(spans)) == 2
    assert f"{0xDEF:016x}" not in spans


ELSEWHERE = WITH_SDK.replace(
    "    work()\nevents",
    """    import asyncio, contextvars, gc, logging
    logging.basicConfig()

    @tracekit.tool(name="wait")
    async def wait():
        await asyncio.sleep(0)

    def held():
        with tracekit.run(name="held"):
            yield

    coroutine, generator = wait(), held()
    contextvars.copy_context().run(coroutine.send, None)
    contextvars.copy_context().run(next, generator)
    del coroutine
    gc.collect()
    generator.close()
    assert trace.get_current_span().name == "server"
events""",
)


def test_what_is_left_in_another_context_says_nothing_and_changes_no_active_span(
    tmp_path: Path,
) -> None:
    said = _run(tmp_path, ELSEWHERE)
    assert {event[1] for event in said["events"]} == {"wait", "held"}
    assert len(said["spans"]) == 3


def test_an_sdk_that_fails_at_the_span_of_a_policy_costs_no_event(tmp_path: Path) -> None:
    script = """
import json, logging, tracekit
logging.disable()
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
class Broken(SpanProcessor):
    def on_end(self, span):
        raise RuntimeError("a fault of the program's")
provider = TracerProvider()
provider.add_span_processor(Broken())
trace.set_tracer_provider(provider)

@tracekit.agent
def work():
    tracekit.policy("deny", rule="no-night")

work()
from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.store import RunQuery, open_store
store = open_store(".tracekit")
print(json.dumps([r.event_type for line in store.runs(RunQuery())
                  for r in store.events(line.run_id)]))
"""
    assert _run(tmp_path, script) == ["run", "policy"]
