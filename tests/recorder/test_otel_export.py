"""Spans out by OTLP, to a real receiver, over both protocols."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.model_server import ModelServer
from tests.recorder.otlp_kit import RECEIVERS, ROOT, Received, http_receiver, run_program

PROGRAM = """
import json, os, sys
import tracekit
tracekit.configure(otlp=os.environ["TO"] if os.environ.get("TO") else True, service="billing",
                   otlp_content=bool(os.environ.get("CONTENT")))

@tracekit.tool(effect="read", name="look")
def look(account, password):
    if account < 0:
        raise TimeoutError("no answer for hunter2-in-error")
    tracekit.policy("deny", rule="no-night", reason="after hours, ask jo@example.com")
    tracekit.evidence("metric-1", "metric-2"); tracekit.evidence("metric-1")
    tracekit.state({"n": 0}, {"n": 1}); tracekit.state({"n": 1}, {"n": 2})
    return {"balance": 7}

@tracekit.retrieval(name="docs")
def find(query):
    return [query]

@tracekit.llm(model="m-1", provider="openai", name="ask")
def ask(messages, temperature=0.5, max_tokens=9):
    return {"id": "r-1", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "look", "arguments": "{}"}}]}}]}

@tracekit.agent
def work():
    ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "whose turn?"}])
    look(1, "s3cret-Pa55word")
    find("rates")
    try:
        look(-1, "s3cret-Pa55word")
    except TimeoutError:
        pass

work()
from opentelemetry import trace
trace.get_tracer_provider().shutdown()
from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.store import RunQuery, open_store
store = open_store(".tracekit")
print(json.dumps([{
    "event_id": r.event_id, "seq": r.seq, "trace": r.trace_id, "span": r.span_id,
    "kind": r.event_type, "name": r.actor, "argument": r.argument_digest, "run": r.run_id,
    "evidence": r.evidence_ids, "state": [r.state_before, r.state_after],
    "observation": r.observation_digest, "prompt": r.prompt_hash, "system": r.system_hash}
    for line in store.runs(RunQuery()) for r in store.events(line.run_id)]))
"""


def _sent(folder: Path, received: Received, **variables: str) -> tuple[dict[str, Any], list[Any]]:
    rows = json.loads(run_program(folder, PROGRAM, TO=received.endpoint, **variables))
    return received.spans(), rows


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_every_step_arrives_with_the_names_of_the_conventions_and_what_the_event_says(
    tmp_path: Path, protocol: str
) -> None:
    with RECEIVERS[protocol]() as received:
        spans, rows = _sent(tmp_path, received)
    by_span = {row["span"]: row for row in rows}
    assert received.services() == {"billing"}
    assert sorted(spans) == [
        "apply_policy no-night",
        "chat m-1",
        "execute_tool look",
        "invoke_agent work",
        "retrieval docs",
    ]
    for span in spans.values():
        row = by_span[span["span"]]
        assert span["trace"] == row["trace"]
        assert span["attributes"]["tracekit.run.id"] == row["run"]
        assert span["attributes"]["tracekit.event.id"] == row["event_id"]
        assert span["attributes"]["tracekit.seq"] == row["seq"]
    chat = spans["chat m-1"]["attributes"]
    assert (
        chat
        | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m-1",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.response.id": "r-1",
            "gen_ai.response.finish_reasons": ["tool_call"],
            "tracekit.prompt.hash": by_span[spans["chat m-1"]["span"]]["prompt"],
            "tracekit.system.hash": by_span[spans["chat m-1"]["span"]]["system"],
        }
        == chat
    )
    find, row = spans["retrieval docs"], by_span[spans["retrieval docs"]["span"]]
    assert find["attributes"]["tracekit.tool.argument.digest"] == row["argument"]
    assert find["attributes"]["tracekit.tool.observation.digest"] == row["observation"]
    assert "gen_ai.tool.type" not in find["attributes"]
    failed = spans["execute_tool look"]  # the second one, which failed
    assert failed["attributes"]["error.type"] == "TimeoutError"
    assert failed["status"] == 2
    assert failed["attributes"]["gen_ai.tool.type"] == "function"


def test_a_policy_decision_is_a_span_beneath_its_step(tmp_path: Path) -> None:
    with http_receiver() as received:
        spans, rows = _sent(tmp_path, received)
    span = spans["apply_policy no-night"]
    looks = [row["span"] for row in rows if row["name"] == "look"]
    assert span["parent"] == looks[0]
    assert span["kind"] == 1
    said = span["attributes"]
    assert "gen_ai.operation.name" not in said
    assert (said["tracekit.policy.decision"], said["tracekit.policy.id"]) == ("deny", "no-night")
    assert said["tracekit.policy.reason"].startswith("after hours, ask ")
    assert "jo@example.com" not in said["tracekit.policy.reason"]


def test_evidence_and_state_stand_on_the_span_of_their_step(tmp_path: Path) -> None:
    with http_receiver() as received:
        _, rows = _sent(tmp_path, received)
    look = next(s["attributes"] for s in received.every() if s["name"] == "execute_tool look")
    row = next(row for row in rows if row["name"] == "look")
    assert look["tracekit.evidence.ids"] == row["evidence"] == ["metric-1", "metric-2"]
    assert [look["tracekit.state.before"], look["tracekit.state.after"]] == row["state"]
    assert look["tracekit.event.id"] == row["event_id"]


def test_without_being_asked_no_content_goes_out(tmp_path: Path) -> None:
    with http_receiver() as received:
        _sent(tmp_path, received)
    everything = b"".join(received.raw)
    for text in (b"whose turn?", b"be brief", b"balance", b"s3cret", b"hunter2", b"rates"):
        assert text not in everything


def test_content_that_is_wanted_goes_out_as_json_text_without_secrets(tmp_path: Path) -> None:
    with http_receiver() as received:
        spans, _ = _sent(tmp_path, received, CONTENT="1")
    chat = spans["chat m-1"]["attributes"]
    assert json.loads(chat["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "whose turn?"}]}
    ]
    assert json.loads(chat["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "be brief"}
    ]
    assert json.loads(chat["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}],
        }
    ]
    look = spans["execute_tool look"]["attributes"]
    assert json.loads(look["gen_ai.tool.call.arguments"])["account"] == -1
    assert "gen_ai.tool.call.result" not in look
    assert b"s3cret" not in b"".join(received.raw)


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_the_standard_variables_say_where_to(tmp_path: Path, protocol: str) -> None:
    with RECEIVERS[protocol]() as received:
        scheme, _, rest = received.endpoint.partition("://")
        run_program(
            tmp_path,
            PROGRAM,
            TO="",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{rest}",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf" if scheme == "http" else "grpc",
        )
    assert "invoke_agent work" in received.spans()


FOREIGN = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider()
trace.set_tracer_provider(provider)
import tracekit
tracekit.configure(otlp=os.environ["TO"], redact=[{rule}])
with trace.get_tracer("theirs").start_as_current_span("GET jo@example.com") as span:
    span.set_attribute("password", "s3cret-Pa55word")
    span.set_attribute("http.url", "https://x/?api_key=sk-proj-abcdefghijklmnopqrstuvwxyz123456")
    span.set_attribute("gen_ai.usage.input_tokens", 7)
    span.set_attribute("sizes", [1, 2])
    span.add_event("exception", {{"exception.message": "jo@example.com is unknown"}})
    span.set_status(trace.Status(trace.StatusCode.ERROR, "jo@example.com is unknown"))
with trace.get_tracer("theirs").start_as_current_span("plain") as span:
    span.set_attribute("n", 1)
assert trace.get_tracer_provider() is provider
provider.shutdown()
"""


def test_secrets_in_other_peoples_spans_do_not_leave(tmp_path: Path) -> None:
    with http_receiver() as received:
        run_program(tmp_path, FOREIGN.format(rule=""), TO=received.endpoint)
    everything = b"".join(received.raw)
    for secret in (b"jo@example.com", b"s3cret", b"abcdefghijklmnopqrstuvwxyz123456"):
        assert secret not in everything
    spans = received.spans()
    assert spans["plain"]["attributes"] == {"n": 1}
    (theirs,) = (span for name, span in spans.items() if name.startswith("GET "))
    assert theirs["attributes"]["gen_ai.usage.input_tokens"] == 7
    assert theirs["attributes"]["sizes"] == [1, 2]
    assert theirs["status"] == 2


def test_a_rule_that_fails_lets_nothing_of_a_span_out(tmp_path: Path) -> None:
    rule = "lambda text: 1 / 0"
    with http_receiver() as received:
        run_program(tmp_path, FOREIGN.format(rule=rule), TO=received.endpoint)
    everything = b"".join(received.raw)
    for said in (b"jo@example.com", b"s3cret", b"sk-proj", b"is unknown", b"http.url"):
        assert said not in everything


def test_a_receiver_that_is_away_costs_no_event(tmp_path: Path) -> None:
    script = PROGRAM.replace(
        "trace.get_tracer_provider().shutdown()", "import logging; logging.disable()"
    )
    rows = json.loads(
        run_program(
            tmp_path,
            script + "\nsys.stdout.flush(); os._exit(0)",
            TO="http://127.0.0.1:9",
        )
    )
    assert [row["kind"] for row in rows].count("tool_call") == 2


def test_importing_tracekit_loads_neither_the_sdk_nor_an_exporter(tmp_path: Path) -> None:
    loaded = run_program(
        tmp_path,
        "import sys, tracekit; print([m for m in sys.modules if 'sdk' in m or 'grpc' in m])",
    )
    assert loaded.strip() == "[]"


AWAY = """
import os, time
import tracekit
tracekit.configure(otlp=os.environ["TO"])

@tracekit.agent
def work():
    pass

work()
from opentelemetry import trace
began = time.monotonic()
trace.get_tracer_provider().shutdown()
print(time.monotonic() - began)
"""


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_receiver_that_says_nothing_keeps_no_process_and_is_told_of_once(
    tmp_path: Path, scheme: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        took, said = _away(tmp_path, address)
    assert took < 3  # a second, and what starting a thread may take on a busy machine
    assert said == [
        "spans cannot be sent by OTLP and are dropped (1 so far); what is recorded is whole"
    ]


def test_a_receiver_that_refuses_is_asked_once_more_and_no_longer_at_the_end(
    tmp_path: Path,
) -> None:
    took, said = _away(tmp_path, "http://127.0.0.1:9")
    assert took < 3
    assert len(said) == 1


def _away(folder: Path, address: str) -> tuple[float, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", AWAY],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TO": address},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout), done.stderr.splitlines()


AROUND = """
import os
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz123456"
said = {{"service.name": "billing", "db.password": "s3cret-Pa55word"}}
provider = TracerProvider(resource=Resource.create(said))
trace.set_tracer_provider(provider)
import tracekit
tracekit.configure(otlp=os.environ["TO"], spans=True, redact=[{rule}])
state = TraceState([("rojo", "1"), ("vendor", KEY)])
remote = SpanContext(1 << 100, 1 << 40, True, TraceFlags(1), state)
theirs = trace.get_tracer("lib of jo@example.com", "1.2", attributes={{"token": KEY}})

@tracekit.agent
def work():
    with theirs.start_as_current_span("chat", attributes={{"gen_ai.operation.name": "chat"}}):
        pass

with trace.use_span(NonRecordingSpan(remote)):
    work()
provider.shutdown()
"""


@pytest.mark.parametrize(("rule", "service"), [("", {"billing"}), ("lambda text: 1 / 0", set())])
def test_no_secret_leaves_in_what_stands_around_a_span(
    tmp_path: Path, rule: str, service: set[str]
) -> None:
    with http_receiver() as received:
        run_program(tmp_path, AROUND.format(rule=rule), TO=received.endpoint)
    everything = b"".join(received.raw)
    for secret in (b"s3cret", b"jo@example.com", b"abcdefghijklmnopqrstuvwxyz123456"):
        assert secret not in everything
    assert {span["name"] for span in received.every()} >= {"invoke_agent work"}
    assert received.services() == service
    assert (b"rojo" in everything) == (not rule)
    for file in (tmp_path / ".tracekit").rglob("*"):
        assert not file.is_file() or b"jo@example.com" not in file.read_bytes()


RESPONSES = """
import os, sys
import openai, tracekit
tracekit.configure(otlp=os.environ["TO"])
client = openai.OpenAI(api_key="none", base_url=os.environ["MODEL"])

@tracekit.agent
def work():
    client.responses.create(model="m", input="hi", max_output_tokens=9, conversation="conv_1",
                            text={"format": {"type": "json_object"}})

work()
from opentelemetry import trace
trace.get_tracer_provider().shutdown()
"""


def test_a_call_of_the_responses_api_says_what_one_of_chat_says(tmp_path: Path) -> None:
    with http_receiver() as received, ModelServer() as model:
        run_program(tmp_path, RESPONSES, TO=received.endpoint, MODEL=model.url)
    said = received.spans()["chat m"]["attributes"]
    port = int(model.url.split(":")[2].split("/")[0])
    assert said["gen_ai.response.id"].startswith("resp_")
    assert {
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.request.max_tokens": 9,
        "gen_ai.output.type": "json",
        "gen_ai.conversation.id": "conv_1",
        "server.address": "127.0.0.1",
        "server.port": port,
    }.items() <= said.items()
