"""What a span beside a call asks of the provider: no more than it must, nothing where none is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext

from tests.recorder.otlp_kit import run_program
from tracekit.events import LlmCallBegun, Payload, ToolCallBegun, event_id
from tracekit.otel.outgoing import say
from tracekit.otel.setting import put_attributes, read_at_start

SAID: dict[str, Any] = {"gen_ai.tool.name": "look", "tracekit.seq": 3, "ids": ("a", "b")}


@pytest.mark.parametrize(
    "limits",
    [None, SpanLimits(max_span_attributes=2), SpanLimits(max_span_attribute_length=2)],
    ids=["none", "few attributes", "short ones"],
)
def test_attributes_that_are_put_are_those_that_the_sdk_would_have_kept(
    limits: SpanLimits | None,
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("ours")
    for put in (put_attributes, lambda span, said: span.set_attributes(said)):
        span = tracer.start_span("look", attributes={"theirs": 1, "tracekit.seq": 1})
        put(span, SAID)
        span.end()
    ours, theirs = exporter.get_finished_spans()
    assert dict(ours.attributes or {}) == dict(theirs.attributes or {})
    assert ours.dropped_attributes == theirs.dropped_attributes


def test_a_span_that_is_over_or_of_another_maker_is_told_through_the_api(
    caplog: pytest.LogCaptureFixture,
) -> None:
    span = TracerProvider().get_tracer("ours").start_span("look")
    span.end()
    put_attributes(span, SAID)
    assert "ended span" in caplog.text
    put_attributes(NonRecordingSpan(SpanContext(1, 2, is_remote=False)), SAID)


class _Reader(SpanProcessor):
    """A processor of the program's that may read what a span begins with."""


@pytest.mark.parametrize(
    ("processor", "sampler", "reads"),
    [
        (None, None, False),
        (SimpleSpanProcessor(InMemorySpanExporter()), None, False),
        (_Reader(), None, True),
        (None, TraceIdRatioBased(0.5), True),
    ],
    ids=["bare", "exporting", "a processor", "a sampler"],
)
def test_what_may_read_the_first_attributes_of_a_span_is_given_them(
    processor: SpanProcessor | None, sampler: Sampler | None, reads: bool
) -> None:
    assert not read_at_start(TracerProvider().get_tracer("ours"))
    provider = TracerProvider(sampler=sampler)
    if processor is not None:
        provider.add_span_processor(processor)
    assert read_at_start(provider.get_tracer("ours")) is reads


def test_the_name_of_the_event_is_that_of_its_row() -> None:
    for trace_id in ("a" * 32, 'no "plain" one'):
        fact = ToolCallBegun(
            writer="w",
            seq=7,
            timestamp_ns=1,
            run_id="r",
            trace_id=trace_id,
            span_id="b" * 16,
            actor="look",
            effect="read",
            argument=Payload(digest="sha256:" + "c" * 64, blob="sha256:" + "c" * 64),
        )
        said: dict[str, Any] = {}
        say(said, fact, None, None)
        assert said == {
            "tracekit.event.id": event_id("tracekit", trace_id, "b" * 16, "tool_call", 7),
            "tracekit.seq": 7,
            "tracekit.tool.argument.digest": "sha256:" + "c" * 64,
            "gen_ai.tool.type": "function",
        }


BEFORE_AND_AFTER = """
import json, sys
import tracekit
from tracekit import otel

@tracekit.tool(effect="read", name="look")
def look():
    return otel.active()

alone = [look(), "opentelemetry.trace" in sys.modules]
from opentelemetry import context, trace
with_api = look()
token = context.attach(trace.set_span_in_context(
    trace.NonRecordingSpan(trace.SpanContext(0xabc, 0xdef, is_remote=True))))
called = look()
context.detach(token)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
late = look()
spans = [span.name for span in exporter.get_finished_spans()]
print(json.dumps([alone, with_api, called, late, spans]))
"""


def test_a_provider_that_is_set_up_later_is_noticed_and_until_then_nothing_is_loaded(
    tmp_path: Path,
) -> None:
    alone, with_api, called, late, spans = json.loads(run_program(tmp_path, BEFORE_AND_AFTER))
    assert alone == [False, False]
    assert (with_api, called, late) == (False, True, True)
    assert spans == ["execute_tool look"]


class _Prompt:
    """A prompt that nobody should put together."""

    @property
    def without_messages(self) -> Any:
        return {"messages": None, "temperature": 0.5, "stop": ["."]}

    @property
    def value(self) -> Any:
        raise AssertionError("its messages were read")


def test_the_messages_of_a_prompt_are_not_read_where_no_content_is_wanted() -> None:
    stamp = {"writer": "w", "seq": 1, "timestamp_ns": 1, "trace_id": "a" * 32, "span_id": "b" * 16}
    fact = LlmCallBegun(**stamp, run_id="r", actor="ask", argument=Payload(state="captured"))
    said: dict[str, Any] = {}
    say(said, fact, _Prompt(), None)
    assert said["gen_ai.request.temperature"] == 0.5
    assert said["gen_ai.request.stop_sequences"] == (".",)
