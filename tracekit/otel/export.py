"""Spans out by OTLP, over HTTP or gRPC. Imports the SDK.

What is sent leaves through ``cleaning``, which takes the secrets out, and ``sending``, which lets
the program feel nothing of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter

from tracekit.otel.cleaning import RedactingExporter
from tracekit.otel.details import Content
from tracekit.otel.sending import SendingSpans
from tracekit.redact import Redactor

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SDK_LOGS = "opentelemetry.sdk._logs"


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
        redactor: Takes the secrets out of what is not ours.
        content: Where content goes; in events it needs an exporter of its own.
    """
    exporter = make_exporter(endpoint)
    if redactor is not None:
        exporter = RedactingExporter(exporter, redactor)
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SendingSpans(exporter))
    if content is not None and content.events and (content.asked or _SDK_LOGS in sys.modules):
        from tracekit.otel.logs import send_events

        send_events(
            _log_exporter(endpoint), service=service, asked=content.asked, redactor=redactor
        )


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
