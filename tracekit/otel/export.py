"""Spans out by OTLP, over HTTP or gRPC. Imports the SDK.

Spans of other instrumentations pass here too, and no secret may leave the process: they are sent as
copies without. Ours are redacted when they are made.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import Attributes

from tracekit.canonical import JsonValue
from tracekit.otel.details import Content
from tracekit.otel.values import plain_value
from tracekit.redact import Redactor, Scope

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter

_OURS = "tracekit"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SDK_LOGS = "opentelemetry.sdk._logs"
_log = logging.getLogger("tracekit")


def add_exporter(
    endpoint: str | None,
    *,
    service: str,
    redactor: Callable[[], Redactor] | None,
    content: Content | None,
) -> None:
    """Add an exporter to the program's provider, or to a new one where there is none.

    Args:
        endpoint: Where to, as ``tracekit.otel.export_to`` takes it.
        service: Name of the program, where a provider is made.
        redactor: Takes the secrets out of other people's spans.
        content: Where content goes; in events it needs an exporter of its own.
    """
    exporter = make_exporter(endpoint)
    if redactor is not None:
        exporter = RedactingExporter(exporter, redactor)
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    if content is not None and content.events and (content.asked or _SDK_LOGS in sys.modules):
        from tracekit.otel.logs import send_events

        send_events(_log_exporter(endpoint), service=service, asked=content.asked)


def make_exporter(endpoint: str | None) -> SpanExporter:
    """The exporter for ``endpoint``, as ``tracekit.otel.export_to`` takes it."""
    if _is_grpc(endpoint):
        from tracekit.otel.over_grpc import GrpcExporter

        return GrpcExporter(**_grpc_target(endpoint))
    from tracekit.otel.over_http import HttpExporter

    return HttpExporter(endpoint=_http_target(endpoint, "traces"))


def _log_exporter(endpoint: str | None) -> LogRecordExporter:
    if _is_grpc(endpoint):
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
            OTLPLogExporter as GrpcExporter,
        )

        return GrpcExporter(**_grpc_target(endpoint))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter

    return HttpExporter(endpoint=_http_target(endpoint, "logs"))


def _is_grpc(endpoint: str | None) -> bool:
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "")
    return protocol == "grpc" if endpoint is None else endpoint.startswith(("grpc://", "grpcs://"))


def _grpc_target(endpoint: str | None) -> dict[str, Any]:
    if endpoint is None:
        return {}
    scheme, _, rest = endpoint.partition("://")
    return {"endpoint": rest.rstrip("/"), "insecure": scheme == "grpc"}


def _http_target(endpoint: str | None, signal: str) -> str | None:
    """Address of a signal; None leaves it to the standard variables."""
    if endpoint is None:
        return None
    return f"{endpoint.rstrip('/').removesuffix('/v1/traces')}/v1/{signal}"


class RedactingExporter(SpanExporter):
    """Takes secrets out of spans that are not ours, and hands all on.

    Where a rule fails, nothing that the span says of itself goes out but its ids and times.
    """

    def __init__(self, inner: SpanExporter, redactor: Callable[[], Redactor]) -> None:
        self._inner = inner
        self._redactor = redactor

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans`` out."""
        return self._inner.export([self._without_secrets(span) for span in spans])

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what is waiting."""
        return self._inner.force_flush(timeout_millis)

    def _without_secrets(self, span: ReadableSpan) -> ReadableSpan:
        scope = span.instrumentation_scope
        if scope is not None and scope.name == _OURS:
            return span
        try:
            return _redacted(span, self._redactor())
        except Exception as error:  # noqa: BLE001  # fails closed, and one bad span stops no batch
            _log.warning("a span is sent without what it says: %s", type(error).__name__)
            return _bare(span)


def _redacted(span: ReadableSpan, redactor: Redactor) -> ReadableSpan:
    scope = Scope()
    attributes = _clean(span.attributes, redactor, scope)
    events = [
        Event(
            redactor.redact_text(event.name, scope=scope),
            _clean(event.attributes, redactor, scope),
            event.timestamp,
        )
        for event in span.events
    ]
    links = [Link(link.context, _clean(link.attributes, redactor, scope)) for link in span.links]
    status = span.status
    if status.description is not None:
        said = redactor.redact_text(status.description, scope=scope)
        status = Status(status.status_code, said)
    name = redactor.redact_text(span.name, scope=scope)
    return _copy(span, name=name, attributes=attributes, events=events, links=links, status=status)


def _bare(span: ReadableSpan) -> ReadableSpan:
    links = [Link(link.context) for link in span.links]
    status = Status(span.status.status_code)
    return _copy(span, name="redacted", attributes={}, events=[], links=links, status=status)


def _copy(span: ReadableSpan, *, name: str, **changed: Any) -> ReadableSpan:
    return ReadableSpan(
        name=name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        kind=span.kind,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
        **changed,
    )


def _clean(attributes: Attributes, redactor: Redactor, scope: Scope) -> dict[str, Any]:
    """The attributes without secrets; values in which there was none stay the same objects."""
    given: Mapping[str, Any] = attributes or {}
    plain: dict[str, JsonValue] = {str(name): plain_value(value) for name, value in given.items()}
    found = redactor.redact(plain, scope=scope)
    if not isinstance(found.value, dict) or found.failure is not None:
        return {}
    if not found.count:
        return dict(given)
    return {
        name: given[name] if name in plain and plain[name] == value else value
        for name, value in found.value.items()
    }
