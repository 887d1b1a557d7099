"""Other people's spans, as they end. Imports the SDK.

A span is handed on when it is over and says which convention it follows; by then its maker has told
all of it. One that follows none is handed on only if one that does stands beneath it, so that no
step loses its place. Ours are known by their scope and passed over. Nothing here raises into the
program, waits, or drops: what is handed on is written before ``end()`` of the span comes back.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, StatusCode, format_span_id, format_trace_id

from tracekit.interruption import pass_on, warn
from tracekit.otel.carriers import run_id_in
from tracekit.otel.details import DETAILS
from tracekit.otel.reading import Reading, read, told_kind
from tracekit.otel.values import SpanData, SpanEvent, keep_newest, plain_value

_OURS = "tracekit"
_MOST_OPEN = 50_000
"""Spans under way that are remembered; those that never end must not fill the memory."""
_MOST_LOGGED = 10_000
"""Events that are kept of one span."""


@dataclass(slots=True, eq=False)
class Place:
    """Where a span stands: known when it begins, in the thread and context that began it."""

    span: Span
    parent: Place | None
    run_id: str | None
    """Of the run it began in, where there was one."""
    known: Any = None
    """What the receiver knew then."""
    holds: bool = False
    """Whether a span that was handed on stands beneath it."""
    below: set[tuple[str, str]] = field(default_factory=set)
    """Kind and name of what was handed on right beneath it."""
    ours_below: set[tuple[str, str]] = field(default_factory=set)
    """The same of our own operations."""
    logged: list[SpanEvent] = field(default_factory=list)
    """Events of its own that went out as logs."""

    recorded: bool = False
    """Whether it is known, while it is under way, that it will be handed on."""

    @property
    def ours(self) -> bool:
        """Whether it stands beside an operation of ours."""
        return _is_ours(self.span)


class Receiver(Protocol):
    """Takes other people's spans."""

    def place(self, run_id: str | None) -> Any:
        """Remember what is under way now: a span began, in the run ``run_id`` if in any."""

    def receive(self, span: SpanData, reading: Reading, place: Place) -> None:
        """Keep a span that is over."""


class TracekitSpanProcessor(SpanProcessor):
    """Hands the spans of other instrumentations to a receiver, each as it ends."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        # Without a lock, which a fork could leave held: each step on the dict is atomic.
        self._open: dict[tuple[int, int], Place] = {}
        self._listens = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember where a span began."""
        try:
            self._started(span, parent_context)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            _complain(error)

    def on_end(self, span: ReadableSpan) -> None:
        """Hand a span on that is over."""
        try:
            self._ended(span)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            _complain(error)

    def hear(self, trace_id: int, span_id: int, event: SpanEvent) -> None:
        """Keep an event that was logged in a span under way; of one that is over it is too late."""
        place = self._open.get((trace_id, span_id))
        if place is not None and not place.ours and len(place.logged) < _MOST_LOGGED:
            place.logged.append(event)

    def recorded_at(self, ids: SpanContext, run_id: str) -> int | None:
        """The innermost span from ``ids`` up to one of ours that is to be recorded in that run."""
        place = self._open.get((ids.trace_id, ids.span_id))
        while place is not None and not place.ours:
            if place.run_id == run_id and _will_be_recorded(place):
                return place.span.get_span_context().span_id
            place = place.parent
        return None

    def listen(self, provider: object = None) -> None:
        """Take log events, too, from ``provider`` or the program's, as soon as there is one."""
        if self._listens or "opentelemetry.sdk._logs" not in sys.modules:
            return
        from tracekit.otel.logs import listen

        self._listens = listen(self, provider)

    def shutdown(self) -> None:
        """Forget what is under way."""
        self._open.clear()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits here."""
        return True

    def _started(self, span: Span, context: Context | None) -> None:
        above = span.parent
        parent = self._open.get((above.trace_id, above.span_id)) if above else None
        run_id = run_id_in(context)
        place = Place(span, parent, run_id)
        if not place.ours:
            self.listen()
            place.known = self._receiver.place(run_id)
        elif parent is not None:
            parent.ours_below.add(told_kind(span.name, span.attributes or {}))
        ids = span.get_span_context()
        self._open[ids.trace_id, ids.span_id] = place
        keep_newest(self._open, _MOST_OPEN)

    def _ended(self, span: ReadableSpan) -> None:
        ids = span.get_span_context()
        if ids is None:
            return
        place = self._open.pop((ids.trace_id, ids.span_id), None)
        if place is None or place.ours:
            return
        data = _with_logged(span_data(span), place.logged)
        reading = read(data)
        if not reading.convention and not place.holds:
            return
        if _seen_elsewhere(reading, place):
            reading = reading.as_span()
        if place.parent is not None:
            place.parent.holds = True
            place.parent.below.add((reading.kind, reading.actor))
        self._receiver.receive(data, reading, place)


def _will_be_recorded(place: Place) -> bool:
    """Whether a span under way is handed on when it ends, as far as it has told by now."""
    if not (place.recorded or place.holds):
        place.recorded = bool(read(span_data(place.span)).convention)
    return place.recorded or place.holds


def _seen_elsewhere(reading: Reading, place: Place) -> bool:
    """Whether the same call is a row already: ours always, of others the inner model, outer tool.

    Two instrumentations of one call nest. It is one call, so one of the rows is only a span.
    """
    mine = (reading.kind, reading.actor)
    above = _above(place)
    beneath_ours = place.parent is not None and place.parent.ours
    match reading.kind:
        case "llm_call":  # names of models differ between the layers
            below = {kind for kind, _ in place.below | place.ours_below}
            return "llm_call" in below or (beneath_ours and above[0] == "llm_call")
        case "tool_call" | "retrieval":
            return mine in (above, *place.below, *place.ours_below)
        case "agent":
            return mine in place.ours_below or (beneath_ours and above == mine)
        case _:
            return False


def _above(place: Place) -> tuple[str, str]:
    if place.parent is None:
        return ("", "")
    above = place.parent.span
    return told_kind(above.name, above.attributes or {})


def _is_ours(span: ReadableSpan) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name == _OURS


def span_data(span: ReadableSpan) -> SpanData:
    """A span of the SDK as plain data."""
    ids = span.get_span_context()
    assert ids is not None
    scope = span.instrumentation_scope
    return SpanData(
        trace_id=format_trace_id(ids.trace_id),
        span_id=format_span_id(ids.span_id),
        parent_span_id=format_span_id(span.parent.span_id) if span.parent else None,
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes={name: plain_value(value) for name, value in (span.attributes or {}).items()},
        events=tuple(_event(event) for event in span.events),
        error=span.status.status_code is StatusCode.ERROR,
        message=span.status.description,
        scope=scope.name if scope is not None else "",
        scope_version=scope.version if scope is not None else None,
        dropped=span.dropped_attributes + span.dropped_events,
    )


def _event(event: Event) -> SpanEvent:
    said = {name: plain_value(value) for name, value in (event.attributes or {}).items()}
    return SpanEvent(event.name, said, event.timestamp or 0)


def _with_logged(span: SpanData, logged: list[SpanEvent]) -> SpanData:
    """The span with what its maker logged: messages as its events, details as its attributes."""
    if not logged:
        return span
    details = [event.attributes for event in logged if event.name == DETAILS]
    messages = [event for event in logged if event.name != DETAILS]
    attributes = {name: value for said in details for name, value in said.items()}
    return replace(
        span, attributes={**attributes, **span.attributes}, events=(*span.events, *messages)
    )


def _complain(error: BaseException) -> None:
    pass_on(error)
    warn("tracekit could not record a span: %s", type(error).__name__)
