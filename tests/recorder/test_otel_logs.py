"""GenAI log events: ours go out over both protocols, other people's come in with their spans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from tests.recorder.otlp_kit import RECEIVERS, Received, http_receiver, run_program
from tests.recorder.record_kit import Recorded, everything, recording
from tracekit import otel
from tracekit.foreign import SpanRecorder
from tracekit.otel import processor

DETAILS = "gen_ai.client.inference.operation.details"
PROGRAM = """
import os
if os.environ.get("LOGS"):
    from opentelemetry import _logs
    from opentelemetry.sdk._logs import LoggerProvider
    _logs.set_logger_provider(LoggerProvider())
import tracekit
tracekit.configure(otlp=os.environ["TO"], otlp_content=bool(os.environ["CONTENT"]))

@tracekit.tool(effect="read", name="look")
def look(account):
    return {"balance": 7}

@tracekit.llm(model="m-1", provider="openai", name="ask")
def ask(messages, temperature=0.5):
    if not messages[1]["content"]:
        raise TimeoutError("no answer")
    return {"id": "r-1", "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": "jo@example.com knows"}}]}

@tracekit.agent
def work():
    look(1)
    ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "who knows?"}])
    try:
        ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": ""}])
    except TimeoutError:
        pass

work()
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
logs = _logs.get_logger_provider()
if isinstance(logs, LoggerProvider):
    logs.get_logger("theirs").emit(_logs.LogRecord(body="their password is s3cret-Pa55word"))
    logs.shutdown()
trace.get_tracer_provider().shutdown()
"""


def _sent(folder: Path, received: Received, **variables: str) -> dict[str, Any]:
    run_program(folder, PROGRAM, TO=received.endpoint, **{"CONTENT": "1", **variables})
    return received.spans()


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_a_model_call_goes_out_as_a_structured_event_of_its_span_where_logs_are_set_up(
    tmp_path: Path, protocol: str
) -> None:
    with RECEIVERS[protocol]() as received:
        _sent(tmp_path, received, LOGS="1")
    answered, failed = received.log_events()
    spans = {span["span"]: span for span in received.every()}
    for event in (answered, failed):
        assert (event["name"], event["severity"], event["scope"]) == (DETAILS, 5, "tracekit")
        assert spans[event["span"]]["name"] == "chat m-1"
        assert spans[event["span"]]["trace"] == event["trace"]
    said, on_span = answered["attributes"], spans[answered["span"]]["attributes"]
    content = {
        "gen_ai.input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "who knows?"}]}
        ],
        "gen_ai.system_instructions": [{"type": "text", "content": "be brief"}],
        "gen_ai.output.messages": said["gen_ai.output.messages"],
    }
    (answer,) = content["gen_ai.output.messages"]
    assert answer["parts"][0]["content"].endswith(" knows")
    assert said == {**on_span, **content}
    assert {name: json.loads(on_span[name]) for name in content} == content
    assert failed["attributes"]["error.type"] == "TimeoutError"
    assert "gen_ai.output.messages" not in failed["attributes"]
    assert b"jo@example.com" not in b"".join(received.raw)
    assert b"s3cret" not in b"".join(received.raw)  # what others log is not sent by us


@pytest.mark.parametrize(
    ("wanted", "logs", "events", "on_spans"),
    [
        ("", "", 0, True),
        ("SPAN_ONLY", "1", 0, True),
        ("EVENT_ONLY", "", 2, False),
        ("SPAN_AND_EVENT", "", 2, True),
    ],
)
def test_the_standard_variable_says_where_content_goes(
    tmp_path: Path, wanted: str, logs: str, events: int, on_spans: bool
) -> None:
    with http_receiver() as received:
        variable = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": wanted}
        spans = _sent(tmp_path, received, LOGS=logs, **variable)
    assert len(received.log_events()) == events
    assert ("gen_ai.input.messages" in spans["chat m-1"]["attributes"]) is on_spans
    assert ("gen_ai.tool.call.arguments" in spans["execute_tool look"]["attributes"]) is on_spans


def test_without_being_asked_no_event_goes_out(tmp_path: Path) -> None:
    with http_receiver() as received:
        _sent(tmp_path, received, LOGS="1", CONTENT="")
    assert received.logs == []


class _Theirs:
    """Another instrumentation: spans without content, and a logger for what was said."""

    def __init__(self, tracer: Tracer, logs: LoggerProvider) -> None:
        self.tracer = tracer
        self._logger = logs.get_logger("theirs")

    def log(self, name: str | None, body: Any = None, **attributes: Any) -> None:
        """Emit an event in the active span."""
        record = LogRecord(
            event_name=name, body=body, attributes=attributes, severity_number=SeverityNumber.INFO
        )
        self._logger.emit(record)


@contextmanager
def watched() -> Iterator[tuple[Recorded, _Theirs]]:
    with recording() as recorded:
        provider, logs = TracerProvider(), LoggerProvider()
        otel.watch(SpanRecorder(lambda: recorded.recorder), provider, logs=logs)
        yield recorded, _Theirs(provider.get_tracer("theirs"), logs)
        provider.shutdown()
        logs.shutdown()


ASK = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.system": "openai"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}


def test_messages_that_are_only_logged_are_the_content_of_their_span() -> None:
    with (
        watched() as (recorded, theirs),
        theirs.tracer.start_as_current_span("chat", attributes=ASK),
    ):
        theirs.log("gen_ai.system.message", {"content": "be brief"})
        theirs.log("gen_ai.user.message", {"content": "mail jo@example.com"})
        theirs.log("gen_ai.assistant.message", {"tool_calls": [CALL]})
        theirs.log(None, {"id": "c1", "content": "sent"}, **{"event.name": "gen_ai.tool.message"})
        message = {"role": "assistant", "content": "done"}
        theirs.log("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": message})
        theirs.log("app.click", {"content": "no business of ours"})
        theirs.log(None, "a line of the program's log")
    row = recorded.row("llm_call")
    asked = recorded.argument(row)
    mailed = asked["messages"][1].pop("content")
    assert asked == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": "sent", "tool_call_id": "c1"},
        ],
    }
    assert mailed.startswith("mail ")
    assert recorded.observation(row) == {"role": "assistant", "content": "done"}
    assert (row.argument_state, row.observation_state) == ("captured", "captured")
    assert row.prompt_hash is not None
    for text in ("jo@example.com", "no business of ours", "a line of the program's log"):
        assert text not in everything(recorded)


def test_details_that_are_logged_count_as_attributes_of_their_span() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "whose turn?"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "yours"}]}]
    attributes = {
        **ASK,
        "gen_ai.request.model": "another",
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
        "gen_ai.usage.input_tokens": 4,
        "api_key": "s3cret-Pa55word",
    }
    with (
        watched() as (recorded, theirs),
        theirs.tracer.start_as_current_span("chat", attributes=ASK),
    ):
        theirs.log(DETAILS, None, **attributes)
    row = recorded.row("llm_call")
    assert (row.model_requested, row.usage_input) == ("m-1", 4)
    assert recorded.argument(row)["messages"] == [{"role": "user", "content": "whose turn?"}]
    assert recorded.observation(row) == {"role": "assistant", "content": "yours"}
    assert "s3cret" not in everything(recorded)


def test_a_log_that_comes_too_late_or_belongs_to_nothing_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processor, "_MOST_LOGGED", 1)
    with watched() as (recorded, theirs):
        theirs.log("gen_ai.user.message", {"content": "nowhere"})
        over = theirs.tracer.start_as_current_span("chat", attributes=ASK, end_on_exit=False)
        with over as span:
            theirs.log("gen_ai.user.message", "only this one")
            theirs.log("gen_ai.user.message", {"content": "one too many"})
            span.end()
            theirs.log("gen_ai.choice", {"message": {"content": "late"}})
    messages = recorded.argument(recorded.row("llm_call"))["messages"]
    assert messages == [{"role": "user", "content": "only this one"}]
    assert caplog.text == ""


def test_a_fault_of_ours_never_reaches_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(processor.TracekitSpanProcessor, "hear", fail)
    with (
        watched() as (recorded, theirs),
        theirs.tracer.start_as_current_span("chat", attributes=ASK),
    ):
        theirs.log("gen_ai.user.message", {"content": "hi"})
    assert "could not take a log event: OSError" in caplog.text
    assert recorded.row("llm_call").argument_state == "absent"


LATE = """
import json
import tracekit
tracekit.configure(spans=True)
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())

@tracekit.agent
def work():
    ask = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    with trace.get_tracer("theirs").start_as_current_span("chat", attributes=ask):
        _logs.get_logger("theirs").emit(
            _logs.LogRecord(event_name="gen_ai.user.message", body={"content": "hi"}))

work()
_logs.set_logger_provider(LoggerProvider())
work()
from tracekit import configuration
configuration.recorder().sink.close()
from tracekit.store import RunQuery, open_store
store = open_store(".tracekit")
print(json.dumps([row.argument_state for line in store.runs(RunQuery())
                  for row in store.events(line.run_id) if row.event_type == "llm_call"]))
"""


def test_logs_that_are_set_up_later_are_heard(tmp_path: Path) -> None:
    assert json.loads(run_program(tmp_path, LATE)) == ["captured", "absent"]
