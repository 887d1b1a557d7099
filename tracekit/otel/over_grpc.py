"""Spans over gRPC, written by ``wire``. Loads the exporter package, which does all the rest."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from tracekit.otel.wire import spans_request


class GrpcExporter(OTLPSpanExporter):
    """Sends spans as OTLP over gRPC."""

    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        """The hook that the package has for this."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(spans_request(data))
        return request
