"""OpenTelemetry: the only door to it.

A span is opened beside each of our operations through the API alone, so that spans of other
instrumentation nest under it and ids agree wherever the program has set up an SDK. Without one, the
API hands out an invalid context and our own ids are used. Names are those of the GenAI conventions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_SPAN_NAMES = {
    "llm_call": "chat {}",
    "tool_call": "execute_tool {}",
    "retrieval": "retrieval {}",
    "agent": "invoke_agent {}",
    "run": "invoke_agent {}",
}
_OPERATIONS = {
    "llm_call": "chat",
    "tool_call": "execute_tool",
    "retrieval": "retrieval",
    "agent": "invoke_agent",
    "run": "invoke_agent",
}
_NAME_ATTRIBUTES = {
    "llm_call": "gen_ai.request.model",
    "tool_call": "gen_ai.tool.name",
    "retrieval": "gen_ai.data_source.id",
    "agent": "gen_ai.agent.name",
    "run": "gen_ai.agent.name",
}
_tracer: Tracer | None = None


@dataclass(slots=True)
class OpenSpan:
    """A span that is under way. Ids are None where the program has no SDK."""

    span: Span
    context: Context
    trace_id: str | None
    span_id: str | None
    _ended: bool = field(default=False)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the parent of every span opened inside."""
        from opentelemetry import context as otel_context

        token = otel_context.attach(self.context)
        try:
            yield
        finally:
            otel_context.detach(token)

    def end(self, attributes: Mapping[str, Any], *, error_type: str | None = None) -> None:
        """Close it; the second time does nothing."""
        if self._ended:
            return
        self._ended = True
        if self.span_id is None:
            return
        from opentelemetry.trace import Status, StatusCode

        self.span.set_attributes(attributes)
        if error_type is not None:
            self.span.set_attribute("error.type", error_type)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


def start_span(
    kind: str, name: str, attributes: Mapping[str, Any], *, parent: OpenSpan | None
) -> OpenSpan:
    """Open a span for an operation of ``kind`` under ``parent``, or under the active span."""
    from opentelemetry import trace

    global _tracer  # the API's tracer is a process-wide constant
    if _tracer is None:
        _tracer = trace.get_tracer("tracekit")
    known: dict[str, Any] = dict(attributes)
    if kind in _OPERATIONS:
        known["gen_ai.operation.name"] = _OPERATIONS[kind]
        known[_NAME_ATTRIBUTES[kind]] = name
    span_kind = trace.SpanKind.CLIENT if kind == "llm_call" else trace.SpanKind.INTERNAL
    label = _SPAN_NAMES.get(kind, "{}").format(name)
    span = _tracer.start_span(
        label, context=parent.context if parent else None, kind=span_kind, attributes=known
    )
    context = trace.set_span_in_context(span, parent.context if parent else None)
    ids = span.get_span_context()
    if not span.is_recording() or not ids.is_valid:
        return OpenSpan(span, context, None, None)
    return OpenSpan(
        span, context, trace.format_trace_id(ids.trace_id), trace.format_span_id(ids.span_id)
    )


def export_to(endpoint: str | None, *, service: str) -> None:
    """Send all spans out by OTLP over HTTP; installs an SDK if the program has none.

    Args:
        endpoint: Base URL; None takes the standard ``OTEL_EXPORTER_OTLP_*`` variables.
        service: ``service.name`` of the resource.
    """
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    url = None if endpoint is None else endpoint.rstrip("/") + "/v1/traces"
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
