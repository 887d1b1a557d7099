"""What is sent reads back as what the exporter package would have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from tracekit.otel.wire import spans_request

TEXTS = st.text(max_size=200)
WHOLE = st.integers(min_value=-(2**63), max_value=2**63 - 1)
PLAIN = st.one_of(st.none(), st.booleans(), WHOLE, st.floats(allow_nan=False), TEXTS, st.binary())
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=8,
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["gen_ai.tool.name", "tracekit.run.id", "x"]) | TEXTS, VALUES, max_size=6
)
TIMES = st.integers(min_value=1, max_value=2**63)
CONTEXTS = st.builds(
    SpanContext,
    st.integers(min_value=1, max_value=2**128 - 1),
    st.integers(min_value=1, max_value=2**64 - 1),
    is_remote=st.booleans(),
    trace_state=st.sampled_from([TraceState(), TraceState([("a", "1"), ("b", "2")])]),
)
STATUSES = st.one_of(
    st.just(Status()),
    st.just(Status(StatusCode.OK)),
    TEXTS.map(lambda said: Status(StatusCode.ERROR, said)),
)
SPANS = st.builds(
    ReadableSpan,
    name=TEXTS,
    context=CONTEXTS,
    parent=st.none() | CONTEXTS,
    attributes=ATTRIBUTES,
    events=st.lists(st.builds(Event, TEXTS, ATTRIBUTES, TIMES), max_size=2),
    links=st.lists(st.builds(Link, CONTEXTS, ATTRIBUTES), max_size=2),
    kind=st.sampled_from(list(SpanKind)),
    status=STATUSES,
    start_time=TIMES,
    end_time=TIMES,
    resource=st.sampled_from(
        [Resource({"service.name": "one"}), Resource({"n": 1}, "https://schema.test")]
    ),
    instrumentation_scope=st.sampled_from(
        [
            InstrumentationScope("tracekit"),
            InstrumentationScope("theirs", "1.2", "https://schema.test", {"a": 1}),
        ]
    ),
)


def _by_scope(request: ExportTraceServiceRequest) -> list[tuple[bytes, bytes, str, str, bytes]]:
    return sorted(
        (
            resource.resource.SerializeToString(deterministic=True),
            scope.scope.SerializeToString(deterministic=True),
            resource.schema_url,
            scope.schema_url,
            span.SerializeToString(deterministic=True),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


@settings(max_examples=150)
@given(st.lists(SPANS, max_size=4))
def test_spans_read_back_as_the_package_would_have_sent_them(spans: Sequence[ReadableSpan]) -> None:
    sent = ExportTraceServiceRequest.FromString(spans_request(spans))
    assert _by_scope(sent) == _by_scope(encode_spans(spans))


@pytest.mark.parametrize(
    ("value", "text"),
    [(2**63, "9223372036854775808"), ("half \ud800", "half ?"), (object, str(object))],
    ids=["a number that is too large", "half a character", "no value at all"],
)
def test_a_value_that_otlp_has_no_form_for_costs_nothing_else(value: object, text: str) -> None:
    said: Mapping[str, Any] = {"odd": value, "n": 1}
    span = ReadableSpan("look", SpanContext(1, 2, is_remote=False), attributes=said)
    sent = ExportTraceServiceRequest.FromString(spans_request([span]))
    (read,) = sent.resource_spans[0].scope_spans[0].spans
    assert [attribute.value.string_value for attribute in read.attributes] == [text, ""]
    assert read.attributes[1].value.int_value == 1
