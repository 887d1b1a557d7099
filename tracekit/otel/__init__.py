"""OpenTelemetry: the only door to it.

A span is opened beside each of our operations through the API alone, so that spans of other
instrumentation nest under it and ids agree wherever the program has set up an SDK. Without one no
span is made and our own ids are used. Names are those of the GenAI conventions; what was asked or
answered stands on a span only where that was wanted.

Beside this door: ``outgoing`` (facts to attributes), ``reading`` (other people's spans to fields of
facts), both pure; ``carriers`` (context from and to other processes); ``processor`` and ``export``,
which alone import the SDK, and only when they are asked for.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracekit.drafts import Draft
from tracekit.events import Fact
from tracekit.otel.carriers import RUN_ID_KEY, Remote, caller, environment, inherited
from tracekit.otel.outgoing import HasValue, attributes_of, policy_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from tracekit.otel.processor import Receiver
    from tracekit.redact import Redactor

__all__ = [
    "NO_SPAN",
    "OpenSpan",
    "Remote",
    "caller",
    "environment",
    "export_to",
    "send_content",
    "start_span",
    "watch",
    "watching",
]
SCOPE = "tracekit"
"""Instrumentation scope of our own spans."""

_OPERATIONS = {
    "llm_call": ("chat", "gen_ai.request.model"),
    "tool_call": ("execute_tool", "gen_ai.tool.name"),
    "retrieval": ("retrieval", "gen_ai.data_source.id"),
    "agent": ("invoke_agent", "gen_ai.agent.name"),
    "run": ("invoke_agent", "gen_ai.agent.name"),
    "policy": (None, "tracekit.policy.id"),
}
"""Kind of ours → operation, and the attribute that carries the name."""
_tracer: Tracer | None = None
_exported: set[str | None] = set()
_content = False


@dataclass(slots=True)
class OpenSpan:
    """A span that is under way. Ids are None where the program gave none."""

    span: Span | None
    context: Context | None
    trace_id: str | None
    span_id: str | None
    _ended: bool = field(default=False)
    _told: list[tuple[Fact | Draft, HasValue | None]] = field(default_factory=list)

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

    def tell(self, fact: Fact | Draft, kept: HasValue | None) -> None:
        """Let it say what ``fact`` says.

        Args:
            fact: A fact of the operation, as it was written.
            kept: What the fact keeps, redacted; it is read only where the span needs it.
        """
        if self.span is not None and self.span.is_recording():
            self._told.append((fact, kept))

    def end(self, attributes: Mapping[str, Any], *, error_type: str | None = None) -> None:
        """Close it; the second time does nothing."""
        if self._ended or self.span is None:
            return
        self._ended = True
        told, self._told = self._told, []
        said = {**attributes, **attributes_of(told, content=_content)} if told else {**attributes}
        if policy := policy_of(told):
            self.span.update_name(f"{_VERBS['policy']} {policy}")
        if error_type is not None:
            from opentelemetry.trace import Status, StatusCode

            said["error.type"] = error_type
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.set_attributes(said)
        self.span.end()


NO_SPAN = OpenSpan(None, None, None, None)
"""Stands beside an operation where there is no span."""


def start_span(
    kind: str,
    name: str | None,
    *,
    provider: str | None = None,
    parent: OpenSpan | None,
    run_id: str | None = None,
) -> OpenSpan:
    """Open a span for an operation of ``kind`` under ``parent``, or under the active span.

    Args:
        kind: Kind of the operation.
        name: What is called; of a model call the model, None where that is not known.
        provider: Who serves the model.
        parent: Where the active span is not the one to stand under, that one.
        run_id: Of an operation that opens a run: services called inside learn it as baggage.
    """
    from opentelemetry import trace

    above = parent.context if parent is not None else None
    outer = trace.get_current_span(above).get_span_context()
    if not outer.is_valid:
        if isinstance(trace.get_tracer_provider(), _silent()):
            return NO_SPAN
        above = inherited() if parent is None else above
    global _tracer  # the API's tracer is a process-wide constant
    if _tracer is None:
        _tracer = trace.get_tracer(SCOPE)
    operation, attribute = _OPERATIONS.get(kind, (None, None))
    known = {"gen_ai.operation.name": operation, attribute: name, "gen_ai.provider.name": provider}
    span = _tracer.start_span(
        " ".join(part for part in (_VERBS.get(kind, operation), name) if part) or kind,
        context=above,
        kind=trace.SpanKind.CLIENT if kind in _REMOTE else trace.SpanKind.INTERNAL,
        attributes={key: value for key, value in known.items() if key and value},
    )
    return _opened(span, above, outer.span_id, run_id)


def _opened(span: Span, above: Context | None, outer_id: int, run_id: str | None) -> OpenSpan:
    from opentelemetry import baggage, trace

    ids = span.get_span_context()
    if not ids.is_valid:
        return NO_SPAN
    # Without an SDK the API hands out the span above once more; that id is not ours.
    own = None if ids.span_id == outer_id else trace.format_span_id(ids.span_id)
    context = trace.set_span_in_context(span, above)
    if run_id is not None:
        context = baggage.set_baggage(RUN_ID_KEY, run_id, context)
    return OpenSpan(span, context, trace.format_trace_id(ids.trace_id), own)


_REMOTE = ("llm_call", "retrieval")
_VERBS = {"policy": "apply_policy"}
"""How a span is named where the conventions have no operation."""


@functools.cache
def _silent() -> tuple[type, ...]:
    """Kinds of providers that give no spans: the program has set up no SDK (yet)."""
    from opentelemetry import trace

    return (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


def send_content(*, wanted: bool) -> None:
    """Say whether our spans carry what was asked and answered, redacted; by default they do not."""
    global _content  # a property of the process, as the tracer provider is
    _content = wanted


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
        add_exporter(endpoint, service=service, redactor=redactor)
        _exported.add(endpoint)


_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(receiver: Receiver, provider: object = None) -> bool:
    """Hand every span of other instrumentations to ``receiver``; a provider is watched once.

    Args:
        receiver: Takes the spans that are over.
        provider: A tracer provider of the SDK; default the program's. It is added to, not replaced.

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

    add(TracekitSpanProcessor(receiver))
    _watched.add(provider)
    return True


def watching() -> bool:
    """Whether spans of other instrumentations are recorded by this process."""
    return bool(_watched)
