"""OpenTelemetry: the only door to it.

A span is opened beside each of our operations through the API alone, so that spans of other
instrumentation nest under it and ids agree wherever the program has set up an SDK. Without one no
span is made and our own ids are used. Names are those of the GenAI conventions; what was asked or
answered never stands on a span.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_OPERATIONS = {
    "llm_call": ("chat", "gen_ai.request.model"),
    "tool_call": ("execute_tool", "gen_ai.tool.name"),
    "retrieval": ("retrieval", "gen_ai.data_source.id"),
    "agent": ("invoke_agent", "gen_ai.agent.name"),
    "run": ("invoke_agent", "gen_ai.agent.name"),
}
"""Kind of ours → operation, and the attribute that carries the name."""
_tracer: Tracer | None = None
_exported: set[str | None] = set()


@dataclass(slots=True)
class OpenSpan:
    """A span that is under way. Ids are None where the program gave none."""

    span: Span | None
    context: Context | None
    trace_id: str | None
    span_id: str | None
    _ended: bool = field(default=False)

    def attach(self) -> Token[Context] | None:
        """Make it the parent of every span opened from now on, in this context."""
        if self.context is None:
            return None
        from opentelemetry import context as otel_context

        return otel_context.attach(self.context)

    def detach(self, token: Token[Context] | None) -> None:
        """Undo the ``attach`` that gave ``token``, in the same context."""
        if token is None:
            return
        from opentelemetry import context as otel_context

        otel_context.detach(token)

    def end(self, attributes: Mapping[str, Any], *, error_type: str | None = None) -> None:
        """Close it; the second time does nothing."""
        if self._ended or self.span is None:
            return
        self._ended = True
        from opentelemetry.trace import Status, StatusCode

        self.span.set_attributes(attributes)
        if error_type is not None:
            self.span.set_attribute("error.type", error_type)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


NO_SPAN = OpenSpan(None, None, None, None)
"""Stands beside an operation where there is no span."""


def start_span(
    kind: str, name: str | None, *, provider: str | None = None, parent: OpenSpan | None
) -> OpenSpan:
    """Open a span for an operation of ``kind`` under ``parent``, or under the active span.

    Args:
        kind: Kind of the operation.
        name: What is called; of a model call the model, None where that is not known.
        provider: Who serves the model.
        parent: Where the active span is not the one to stand under, that one.
    """
    from opentelemetry import trace

    above = parent.context if parent is not None else None
    outer = trace.get_current_span(above).get_span_context()
    if not outer.is_valid and isinstance(trace.get_tracer_provider(), _silent()):
        return NO_SPAN
    global _tracer  # the API's tracer is a process-wide constant
    if _tracer is None:
        _tracer = trace.get_tracer("tracekit")
    operation, attribute = _OPERATIONS.get(kind, (None, None))
    known = {"gen_ai.operation.name": operation, attribute: name, "gen_ai.provider.name": provider}
    span = _tracer.start_span(
        " ".join(part for part in (operation, name) if part) or kind,
        context=above,
        kind=trace.SpanKind.CLIENT if kind in _REMOTE else trace.SpanKind.INTERNAL,
        attributes={key: value for key, value in known.items() if key and value},
    )
    ids = span.get_span_context()
    if not ids.is_valid:
        return NO_SPAN
    # Without an SDK the API hands out the span above once more; that id is not ours.
    own = None if ids.span_id == outer.span_id else trace.format_span_id(ids.span_id)
    context = trace.set_span_in_context(span, above)
    return OpenSpan(span, context, trace.format_trace_id(ids.trace_id), own)


_REMOTE = ("llm_call", "retrieval")


@functools.cache
def _silent() -> tuple[type, ...]:
    """Kinds of providers that give no spans: the program has set up no SDK (yet)."""
    from opentelemetry import trace

    return (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


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

    if endpoint in _exported:
        return  # configured twice is exported once
    url = None if endpoint is None else endpoint.rstrip("/") + "/v1/traces"
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    _exported.add(endpoint)
