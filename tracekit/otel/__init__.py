"""OpenTelemetry: the only door to it.

A span is opened beside each of our operations through the API alone, so that spans of other
instrumentation nest under it and ids agree wherever the program has set up an SDK. Without one no
span is made and our own ids are used. Names are those of the GenAI conventions; what was asked or
answered stands on a span only where that was wanted.

Behind this door: ``spans`` and ``setting`` (our spans); ``outgoing`` (facts to attributes) and
``reading`` (other people's spans to fields of facts), both pure; ``carriers`` (context from and to
other processes); ``processor`` and ``export``, which alone import the SDK, and only when they are
asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracekit.interruption import pass_on
from tracekit.otel.carriers import Remote, caller, environment
from tracekit.otel.outgoing import CallAttributes
from tracekit.otel.spans import (
    NO_SPAN,
    OpenSpan,
    active,
    send_content,
    sent_content,
    start_span,
)

if TYPE_CHECKING:
    from tracekit.otel.processor import Receiver, TracekitSpanProcessor
    from tracekit.redact import Redactor

__all__ = [
    "NO_SPAN",
    "CallAttributes",
    "OpenSpan",
    "Remote",
    "active",
    "caller",
    "environment",
    "export_to",
    "recorded_above",
    "send_content",
    "sent_content",
    "start_span",
    "watch",
    "watching",
]
_exported: set[str | None] = set()


def export_to(
    endpoint: str | None, *, service: str, redactor: Callable[[], Redactor] | None = None
) -> None:
    """Send all spans out by OTLP; installs an SDK if the program has none.

    Args:
        endpoint: Base URL; ``grpc://host:port`` (``grpcs://`` with TLS) speaks gRPC, anything else
            HTTP. None takes the standard ``OTEL_EXPORTER_OTLP_*`` variables.
        service: ``service.name`` of the resource.
        redactor: Takes the secrets out of spans that are not ours, whenever some are sent.
    """
    from tracekit.otel.export import add_exporter

    if endpoint not in _exported:  # configured twice is exported once
        add_exporter(endpoint, service=service, redactor=redactor, content=sent_content())
        _exported.add(endpoint)


_watched: weakref.WeakKeyDictionary[Any, TracekitSpanProcessor] = weakref.WeakKeyDictionary()


def watch(receiver: Receiver, provider: object = None, *, logs: object = None) -> bool:
    """Hand every span of other instrumentations to ``receiver``; a provider is watched once.

    Args:
        receiver: Takes the spans that are over.
        provider: A tracer provider of the SDK; default the program's. It is added to, not replaced.
        logs: A logger provider of the SDK, for what is logged in the spans; default the program's.

    Returns:
        Whether it is watched now: not where the program has set up no SDK (yet).
    """
    from opentelemetry import trace

    provider = trace.get_tracer_provider() if provider is None else provider
    if provider in _watched:
        return True
    add = getattr(provider, "add_span_processor", None)
    if add is None:
        return False
    from tracekit.otel.processor import TracekitSpanProcessor

    processor = TracekitSpanProcessor(receiver)
    add(processor)
    processor.listen(logs)
    _watched[provider] = processor
    return True


def watching() -> bool:
    """Whether spans of other instrumentations are recorded by this process."""
    return bool(_watched)


def recorded_above(run_id: str) -> str | None:
    """The span of another library that a step begins in, where it is an event of the run.

    None where the operation of ours that is under way stands closer.
    """
    from opentelemetry import trace

    ids = trace.get_current_span().get_span_context()
    if not ids.is_valid:
        return None
    try:
        found = (processor.recorded_at(ids, run_id) for processor in list(_watched.values()))
        inner = next((span_id for span_id in found if span_id is not None), None)
    except Exception as error:  # noqa: BLE001  # the traced program is never the victim
        pass_on(error)
        return None
    return None if inner is None else f"{inner:016x}"
