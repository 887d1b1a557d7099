"""What is sent leaves in the background, in silence and in bounded time. Imports the SDK.

A receiver that is away must not be felt by the program: not by a process that takes long to end,
nor by what the exporter package says on its standard error. What cannot be sent is counted and said
once; why, is told to those who listen to ``tracekit`` at debug level. The batches, the thread and
the retries are the SDK's, told to stop when the program ends.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

_LAST_MS = 1000
"""How long the last batches may take when the program ends."""
_NOISY = ("opentelemetry.", "urllib3.", "grpc.")
_log = logging.getLogger("tracekit")
_here = threading.local()


class _Hushed(logging.Filter):
    """Keeps what other people's loggers say while we send from the program's."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let through what is not about our sending."""
        if not getattr(_here, "sending", False):
            return True
        _log.debug("of sending by OTLP: %s", record.getMessage())
        return False


_HUSHED = _Hushed()


def _hush() -> None:
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_NOISY):
            logging.getLogger(name).addFilter(_HUSHED)  # the second time does nothing


class Outlet:
    """Hands batches to an exporter of the package.

    Args:
        exporter: That of spans, or of log records; one that stands before another has ``inner``.
        what: What it sends, in the plural.
    """

    def __init__(self, exporter: Any, what: str) -> None:
        self._exporter = exporter
        self._what = what
        self._sending = 0
        self._closed = False
        self.lost = 0
        """How many could not be sent."""
        _hush()

    def send(self, batch: Sequence[Any]) -> bool:
        """Send ``batch``; whether it arrived."""
        self._sending = len(batch)
        try:
            sent = bool(self._quietly(self._exporter.export, batch).name == "SUCCESS")
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            _log.debug("of sending by OTLP: %s", type(error).__name__)
            sent = False
        if not (sent or self._closed):
            self.drop(len(batch))
        self._sending = 0
        return sent

    def drop(self, count: int) -> None:
        """Count what is not sent; it is said once."""
        first, self.lost = not self.lost, self.lost + count
        if first and count:
            _log.warning(
                "%s cannot be sent by OTLP and are dropped (%d so far); what is recorded is whole",
                self._what,
                count,
            )

    def close(self, processor: Any, end: Callable[[], None]) -> None:
        """Send what waits in a batch processor of the SDK, each batch once, and let go.

        Args:
            processor: The processor.
            end: How it ends by itself.
        """
        batches = getattr(processor, "_batch_processor", None)
        bounded = batches is not None and "timeout_millis" in _parameters(batches.shutdown)
        if batches is None or not bounded:  # an SDK of another build: in its own way
            self._quietly(end)
            return
        inner = getattr(self._exporter, "inner", self._exporter)
        for holder in (inner, getattr(inner, "_client", None)):
            for name in ("_shutdown_event", "_shutdown_in_progress"):
                event = getattr(holder, name, None)
                if isinstance(event, threading.Event):
                    event.set()  # no second try of what fails from now on
        self._quietly(batches.shutdown, timeout_millis=_LAST_MS)
        self._closed = True
        self.drop(self._sending + len(getattr(batches, "_queue", ())))

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._quietly(self._exporter.shutdown)

    def _quietly(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        _here.sending = True
        try:
            return call(*args, **kwargs)
        finally:
            _here.sending = False


def _parameters(call: Any) -> Any:
    return inspect.signature(call).parameters


def room(processor: Any) -> tuple[Sequence[Any], float]:
    """What waits to be sent, and how much may, where the SDK is built in the way known here."""
    batches = getattr(processor, "_batch_processor", None)
    return getattr(batches, "_queue", ()), getattr(batches, "_max_queue_size", float("inf"))


class SpanOutlet(SpanExporter):
    """An outlet as the SDK's processors take it."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans`` out."""
        return SpanExportResult.SUCCESS if self._outlet.send(spans) else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._outlet.shutdown()


class SendingSpans(BatchSpanProcessor):
    """Sends spans in batches."""

    only_sends = True
    """It reads nothing of a span that begins; see ``setting``."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._outlet = Outlet(exporter, "spans")
        super().__init__(SpanOutlet(self._outlet))
        self._waiting, self._most = room(self)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that is over, unless too many wait."""
        if len(self._waiting) >= self._most:
            self._outlet.drop(1)
        else:
            super().on_end(span)

    def shutdown(self) -> None:
        """Send what waits, for a moment, and end."""
        self._outlet.close(self, super().shutdown)
