"""The reference R that recorded calls are measured against, and the payload of both.

R is a bare OpenTelemetry SDK span with the payload as ``json.dumps`` attributes, a batch processor
and an exporter that does nothing. Only OpenTelemetry is imported here: other packages are measured
against R in an environment of theirs, in which tracekit is not installed.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class NoExport(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop the spans."""
        return SpanExportResult.SUCCESS


def payload(size: int) -> dict[str, Any]:
    """Make an object of about ``size`` bytes of JSON: words, numbers and nested rows."""
    words = [string.ascii_lowercase[n % 20 :][:6] for n in range(40)]
    rows: list[dict[str, Any]] = []
    made: dict[str, Any] = {"query": " ".join(words[:8]), "limit": 50, "rows": rows}
    while len(json.dumps(made)) < size - 60:
        n = len(rows)
        rows.append({"id": n, "name": words[n % 40], "score": n + 0.5, "open": n % 2 == 0})
    return made


def reference(given: dict[str, Any], answer: dict[str, Any]) -> Callable[[int], None]:
    """Give the loop that makes so many spans, one inside the span of an agent."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NoExport()))
    tracer = provider.get_tracer("reference")

    def bare(request: dict[str, Any]) -> dict[str, Any]:
        with tracer.start_as_current_span("execute_tool look") as span:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"request": request}))
            span.set_attribute("gen_ai.tool.call.result", json.dumps(answer))
        return answer

    def loop(calls: int) -> None:
        with tracer.start_as_current_span("invoke_agent bench"):
            for _ in range(calls):
                bare(given)

    return loop
