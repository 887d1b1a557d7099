"""Secrets out of what is sent: other people's spans, and what stands around them and ours.

Ours are redacted when they are made, but the resource, the scope and the trace state that go with
them are other people's words. No secret may leave the process: what has one is sent as a copy
without. Where a rule fails, ids and times go out and nothing that anyone said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, TraceState
from opentelemetry.util.types import Attributes

from tracekit.canonical import JsonValue
from tracekit.interruption import pass_on
from tracekit.otel.values import keep_newest, plain_value
from tracekit.redact import Redactor, Scope

_OURS = "tracekit"
_MOST_KNOWN = 1_000
_log = logging.getLogger("tracekit")
_T = TypeVar("_T")


class Surroundings:
    """Resources and scopes without secrets; each is looked through once, and stays one object."""

    def __init__(self) -> None:
        # By identity: a resource is compared and hashed by the text of all that it says.
        self._known: dict[int, tuple[object, Redactor, Any]] = {}

    def resource(self, given: Resource, redactor: Callable[[], Redactor]) -> Resource:
        """The resource as it may be sent; an empty one where a rule fails."""
        try:
            return self._once(given, redactor(), _clean_resource)
        except Exception as error:  # noqa: BLE001  # fails closed
            _complain(error)
            return Resource.get_empty()

    def scope(
        self, given: InstrumentationScope | None, redactor: Redactor
    ) -> InstrumentationScope | None:
        """The scope as it may be sent."""
        if given is None or given.name == _OURS:
            return given
        return self._once(given, redactor, _clean_scope)

    def _once(self, given: _T, redactor: Redactor, clean: Callable[[_T, Redactor], _T]) -> _T:
        known = self._known.get(id(given))
        if known is None or known[0] is not given or known[1] is not redactor:
            known = self._known[id(given)] = (given, redactor, clean(given, redactor))
            keep_newest(self._known, _MOST_KNOWN)
        found: _T = known[2]
        return found


class RedactingExporter(SpanExporter):
    """Takes secrets out of spans, and hands all on."""

    def __init__(self, inner: SpanExporter, redactor: Callable[[], Redactor]) -> None:
        self.inner = inner
        self._redactor = redactor
        self._around = Surroundings()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans`` out."""
        return self.inner.export([self._without_secrets(span) for span in spans])

    def shutdown(self) -> None:
        """Let go of the connection."""
        self.inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what is waiting."""
        return self.inner.force_flush(timeout_millis)

    def _without_secrets(self, span: ReadableSpan) -> ReadableSpan:
        scope = span.instrumentation_scope
        ours = scope is not None and scope.name == _OURS
        resource = self._around.resource(span.resource, self._redactor)
        try:
            redactor = self._redactor()
            context = _clean_context(span.get_span_context(), redactor)
            if not ours:
                said = _redacted(span, redactor)
                around = self._around.scope(scope, redactor)
                return _copy(span, resource, context, around, **said)
        except Exception as error:  # noqa: BLE001  # fails closed, and one bad span stops no batch
            _complain(error)
            context = _bare_context(span.get_span_context())
            if not ours:
                return _copy(span, resource, context, None, **_bare(span))
        if resource is span.resource and context is span.get_span_context():
            return span
        return _copy(
            span, resource, context, scope, name=span.name, attributes=span.attributes,
            events=span.events, links=span.links, status=span.status,
        )  # fmt: skip


def _redacted(span: ReadableSpan, redactor: Redactor) -> dict[str, Any]:
    scope = Scope()
    attributes = _clean(span.attributes, redactor, scope)  # first: secrets of fields are known then
    events = [
        Event(
            redactor.redact_text(event.name, scope=scope),
            _clean(event.attributes, redactor, scope),
            event.timestamp,
        )
        for event in span.events
    ]
    status = span.status
    if status.description is not None:
        said = redactor.redact_text(status.description, scope=scope)
        status = Status(status.status_code, said)
    links = [
        Link(_bare_context(link.context), _clean(link.attributes, redactor, scope))
        for link in span.links
    ]
    return {
        "name": redactor.redact_text(span.name, scope=scope),
        "attributes": attributes,
        "events": events,
        "links": links,
        "status": status,
    }


def _bare(span: ReadableSpan) -> dict[str, Any]:
    return {
        "name": "redacted",
        "attributes": {},
        "events": [],
        "links": [Link(_bare_context(link.context)) for link in span.links],
        "status": Status(span.status.status_code),
    }


def _copy(
    span: ReadableSpan,
    resource: Resource,
    context: SpanContext | None,
    scope: InstrumentationScope | None,
    **said: Any,
) -> ReadableSpan:
    return ReadableSpan(
        context=context,
        parent=span.parent,
        resource=resource,
        kind=span.kind,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=scope,
        **said,
    )


def _clean_resource(given: Resource, redactor: Redactor) -> Resource:
    attributes = _clean(given.attributes, redactor, Scope())
    schema = redactor.redact_text(given.schema_url or "")
    same = attributes == dict(given.attributes) and schema == (given.schema_url or "")
    return given if same else Resource(attributes, schema)


def _clean_scope(given: InstrumentationScope, redactor: Redactor) -> InstrumentationScope:
    said = (given.name, given.version or "", given.schema_url or "")
    name, version, schema = (redactor.redact_text(text) for text in said)
    attributes = _clean(given.attributes, redactor, Scope())
    same = attributes == dict(given.attributes or {}) and (name, version, schema) == said
    return given if same else InstrumentationScope(name, version, schema, attributes)


def _clean_context(ids: SpanContext | None, redactor: Redactor) -> SpanContext | None:
    """The ids; of the trace state the entries in which there is no secret, as no mask fits it."""
    if ids is None or not ids.trace_state:
        return ids
    said = dict(ids.trace_state)
    clean = _clean(said, redactor, Scope())
    kept = [(name, value) for name, value in said.items() if clean.get(name) == value]
    return ids if len(kept) == len(said) else _bare_context(ids, TraceState(kept))


def _bare_context(ids: Any, state: TraceState | None = None) -> Any:
    if ids is None or (state is None and not ids.trace_state):
        return ids
    return SpanContext(ids.trace_id, ids.span_id, ids.is_remote, ids.trace_flags, state)


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


def _complain(error: Exception) -> None:
    pass_on(error)
    _log.warning("something is sent without what it says: %s", type(error).__name__)
