"""Log events of GenAI: those of other instrumentations come in, ours go out. Imports the SDK.

Instrumentations of the conventions up to 1.36, and newer ones on demand, tell what was asked and
answered in log events and not on their spans. What is logged while a span is under way is kept with
it. An event is only told by its name: other logs are none of our business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.resources import Resource

from tracekit.interruption import pass_on, warn
from tracekit.otel.cleaning import Surroundings
from tracekit.otel.details import DETAILS
from tracekit.otel.genai import OLD_EVENTS
from tracekit.otel.sending import Outlet, room
from tracekit.otel.values import SpanEvent, plain_value
from tracekit.redact import Redactor

_TAKEN = frozenset((*OLD_EVENTS, "gen_ai.choice", DETAILS))
_OURS = "tracekit"


class Listener(Protocol):
    """Takes events of spans that are under way."""

    def hear(self, trace_id: int, span_id: int, event: SpanEvent) -> None:
        """An event was logged in that span."""


class TracekitLogProcessor(LogRecordProcessor):
    """Hands the GenAI events of other instrumentations to a listener, each as it is logged."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def on_emit(self, log_record: Any) -> None:
        """Hand a record on that is such an event."""
        try:
            self._heard(log_record)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            pass_on(error)
            warn("tracekit could not take a log event: %s", type(error).__name__)

    def shutdown(self) -> None:
        """Nothing is held here."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits here."""
        return True

    def _heard(self, log_record: Any) -> None:
        scope = log_record.instrumentation_scope
        record = log_record.log_record
        said: Mapping[str, Any] = record.attributes or {}
        name = getattr(record, "event_name", None) or said.get("event.name")
        if name not in _TAKEN or not record.span_id or (scope is not None and scope.name == _OURS):
            return
        body = plain_value(record.body)
        told = body if isinstance(body, dict) else {} if body is None else {"content": body}
        event = SpanEvent(name, {n: plain_value(v) for n, v in said.items()} | told)
        self._listener.hear(record.trace_id, record.span_id, event)


def listen(listener: Listener, provider: object = None) -> bool:
    """Add to ``provider``, default the program's; tell whether there is one."""
    provider = _logs.get_logger_provider() if provider is None else provider
    add = getattr(provider, "add_log_record_processor", None)
    if add is not None:
        add(TracekitLogProcessor(listener))
    return add is not None


class _Cleaned(LogRecordExporter):
    """Takes the secrets out of the resource, and hands all on to an outlet."""

    def __init__(self, outlet: Outlet, redactor: Callable[[], Redactor] | None) -> None:
        self._outlet = outlet
        self._redactor = redactor
        self._known = Surroundings()

    def export(self, batch: Sequence[Any]) -> LogRecordExportResult:
        """Send ``batch`` out."""
        make = self._redactor
        if make is not None:
            batch = [
                replace(one, resource=self._known.resource(one.resource, make)) for one in batch
            ]
        arrived = self._outlet.send(batch)
        return LogRecordExportResult.SUCCESS if arrived else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._outlet.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits here."""
        return True


class _OwnOnly(BatchLogRecordProcessor):
    """Sends what we log; what others log is for the program to send."""

    def __init__(
        self, exporter: LogRecordExporter, redactor: Callable[[], Redactor] | None
    ) -> None:
        self._outlet = Outlet(exporter, "log events")
        super().__init__(_Cleaned(self._outlet, redactor))
        self._waiting, self._most = room(self)

    def on_emit(self, log_record: Any) -> None:
        scope = log_record.instrumentation_scope
        if scope is None or scope.name != _OURS:
            return
        if len(self._waiting) >= self._most:
            self._outlet.drop(1)
        else:
            super().on_emit(log_record)

    def shutdown(self) -> None:
        """Send what waits, for a moment, and end."""
        self._outlet.close(self, super().shutdown)


def send_events(
    exporter: LogRecordExporter,
    *,
    service: str,
    asked: bool,
    redactor: Callable[[], Redactor] | None,
) -> None:
    """Send our events where the program has set up logs, and, if ``asked`` for, in any case."""
    provider = _logs.get_logger_provider()
    if not isinstance(provider, LoggerProvider):
        if not asked:
            return
        provider = LoggerProvider(resource=Resource.create({"service.name": service}))
        _logs.set_logger_provider(provider)
    provider.add_log_record_processor(_OwnOnly(exporter, redactor))
