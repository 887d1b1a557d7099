"""Spans over HTTP, written by ``wire``. Loads the exporter package.

The package's exporter does all but the writing: addresses, headers, TLS, compression, retries.
Where it is built in another way than is known here, it writes them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from tracekit.otel.wire import spans_request


class HttpExporter(OTLPSpanExporter):
    """Sends spans as OTLP over HTTP."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans``; a request that is too large is left to the package, which says so."""
        send = getattr(getattr(self, "_client", None), "export", None)
        most = getattr(self, "_max_request_size", None)
        if send is None or most is None or self._shutdown:
            return super().export(spans)
        request = spans_request(spans)
        if 0 < most < len(request):
            return super().export(spans)
        sent = send(request).success
        return SpanExportResult.SUCCESS if sent else SpanExportResult.FAILURE
