"""Our own spans: opened, told what the facts say, closed.

Beside a recorded call a span may cost no more than an empty one of the provider's. So what is known
beforehand is prepared once a name, nothing is looked up twice, and all that is said goes on the
span at once. Where nobody has set up OpenTelemetry, a call costs one look for it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tracekit.canonical import JsonValue
from tracekit.drafts import Draft
from tracekit.events import Fact
from tracekit.otel.carriers import RUN_ID_KEY, inherited
from tracekit.otel.details import Content, content_wanted, emit_details
from tracekit.otel.outgoing import HasValue, as_text, say, server_of
from tracekit.otel.setting import put_attributes, read_at_start

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, Tracer

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
_REMOTE = ("llm_call", "retrieval")
_VERBS = {"policy": "apply_policy"}
"""How a span is named where the conventions have no operation."""
_TRACE = "opentelemetry.trace"
_NAMED = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
"""Whether the environment names a provider, which the API then makes at the first question."""
_content: Content | None = None


@dataclass(frozen=True, slots=True)
class _Api:
    """The functions of the API, found once."""

    tracer: Tracer
    current: Callable[[], Context]
    current_span: Callable[[Context | None], Span]
    with_span: Callable[[Span, Context | None], Context]
    with_baggage: Callable[[str, object, Context | None], Context]
    attach: Callable[[Context], Token[Context]]
    detach: Callable[[Token[Context]], None]
    error: Status


_api: _Api | None = None
_provided = False
"""Whether the program has set up a provider; it can do so once."""


def _bound() -> _Api:
    global _api  # the API's functions and its tracer are constants of the process
    if _api is None:
        from opentelemetry import baggage, context, trace

        _api = _Api(
            trace.get_tracer(SCOPE),
            context.get_current,
            trace.get_current_span,
            trace.set_span_in_context,
            baggage.set_baggage,
            context.attach,
            context.detach,
            trace.Status(trace.StatusCode.ERROR),
        )
    return _api


def send_content(*, wanted: bool) -> None:
    """Say whether what was asked and answered goes out, redacted; by default it does not.

    It goes onto the spans and, of a model call, into an event where the program has set up logs,
    unless the standard variable says only one of them.
    """
    global _content  # a property of the process, as the tracer provider is
    _content = content_wanted() if wanted else None


def sent_content() -> Content | None:
    """Where content goes; None where none is wanted."""
    return _content


_NOTHING: Mapping[str, str] = MappingProxyType({})


class OpenSpan:
    """A span that is under way. Ids are None where the program gave none."""

    __slots__ = (
        "_content",
        "_ended",
        "_first",
        "_recording",
        "_said",
        "context",
        "kind",
        "span",
        "span_id",
    )

    def __init__(
        self,
        span: Span | None,
        context: Context | None,
        kind: str,
        span_id: str | None,
        first: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.span = span
        self.context = context
        self.kind = kind
        self.span_id = span_id
        self._first = first
        self._recording = span is not None and span.is_recording()
        self._ended = span is None
        self._said: dict[str, Any] = {}
        self._content: dict[str, JsonValue] | None = None if _content is None else {}

    @property
    def trace_id(self) -> str | None:
        """The trace that it belongs to."""
        return None if self.span is None else f"{self.span.get_span_context().trace_id:032x}"

    def attach(self) -> Token[Context] | None:
        """Make it the parent of every span opened from now on, in this context."""
        if self.context is None:
            return None
        return _bound().attach(self.context)

    def detach(self, token: Token[Context] | None) -> None:
        """Undo the ``attach`` that gave ``token``, in the same context."""
        if token is not None:
            _bound().detach(token)

    def tell(self, fact: Fact | Draft, kept: HasValue | None) -> None:
        """Let it say what ``fact`` says.

        Args:
            fact: A fact of the operation, as it was written.
            kept: What the fact keeps, redacted; it is read only where the span needs it.
        """
        if self._recording:
            say(self._said, fact, kept, self._content)

    def say(self, attributes: dict[str, Any]) -> None:
        """Let it say these, too; it takes them over."""
        if self._said:
            self._said.update(attributes)
        else:
            self._said = attributes

    def say_server(self, url: str) -> None:
        """Let it say which server is asked."""
        if self._recording:
            self.say(server_of(url))

    def end(self, attributes: Mapping[str, Any], *, error_type: str | None = None) -> None:
        """Close it; the second time does nothing."""
        span = self.span
        if self._ended or span is None:
            return
        self._ended = True
        if span.is_recording():
            said = self._said = {**self._first, **self._said, **attributes}
            if self.kind == "policy" and (policy := said.get("tracekit.policy.id")):
                span.update_name(f"{_VERBS['policy']} {policy}")
            if error_type is not None:
                said["error.type"] = error_type
                span.set_status(_bound().error)
            if self._content:
                self._add_content(span, self._content)
            put_attributes(span, said)
        span.end()

    def _add_content(self, span: Span, content: dict[str, JsonValue]) -> None:
        where = _content or Content()
        if where.events and self.kind == "llm_call":
            emit_details(self.context, {**self._said, **content})
        if where.spans:
            self._said |= as_text(content)


NO_SPAN = OpenSpan(None, None, "", None)
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
    if (parent is None or parent.context is None) and not active():
        return NO_SPAN
    api = _api or _bound()
    above = api.current() if parent is None else parent.context
    outer = api.current_span(above).get_span_context()
    if not outer.is_valid:
        if not _provided:
            return NO_SPAN
        above = (inherited() or above) if parent is None else above
    title, span_kind, first = _prepared(kind, name, provider)
    if read_at_start(api.tracer):
        span = api.tracer.start_span(title, above, span_kind, first)
    else:  # it costs less to put them on with all the rest
        span = api.tracer.start_span(title, above, span_kind)
    ids = span.get_span_context()
    if not ids.is_valid:
        return NO_SPAN
    context = api.with_span(span, above)
    if run_id is not None:
        context = api.with_baggage(RUN_ID_KEY, run_id, context)
    # Without an SDK the API hands out the span above once more; that id is not ours.
    own = None if ids.span_id == outer.span_id else f"{ids.span_id:016x}"
    return OpenSpan(span, context, kind, own, first)


@functools.lru_cache(maxsize=1024)
def _prepared(
    kind: str, name: str | None, provider: str | None
) -> tuple[str, SpanKind, dict[str, str]]:
    """Name, kind and first attributes of a span: the same for every call of one tool."""
    from opentelemetry.trace import SpanKind

    operation, attribute = _OPERATIONS.get(kind, (None, None))
    known = {"gen_ai.operation.name": operation, attribute: name, "gen_ai.provider.name": provider}
    title = " ".join(part for part in (_VERBS.get(kind, operation), name) if part) or kind
    span_kind = SpanKind.CLIENT if kind in _REMOTE else SpanKind.INTERNAL
    return title, span_kind, {key: value for key, value in known.items() if key and value}


def active() -> bool:
    """Whether a step begun here may have a span: there is a provider, or something in the context.

    This is asked for every step of programs that never heard of OpenTelemetry.
    """
    if _provided:
        return True
    trace = sys.modules.get(_TRACE)
    if trace is None and not _NAMED:
        return False
    # The public question reads the environment each time, which costs more than all of ours.
    unset = trace is not None and vars(trace).get("_TRACER_PROVIDER", trace) is None
    if (_NAMED or not unset) and _find_provider():
        return True
    return bool((_api or _bound()).current())


def _find_provider() -> bool:
    from opentelemetry import trace

    global _provided, _api  # a provider is set once a process
    silent = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
    _provided = not isinstance(trace.get_tracer_provider(), silent)
    if _provided:
        _api = None  # the tracer that is known only stands for the provider's
    return _provided
