"""Context from elsewhere: the trace and the run that this process goes on with.

It comes from the active OpenTelemetry context, where a server or a queue has put what its headers
said, else from the environment that a parent process set (``TRACEPARENT``, ``BAGGAGE``). The run id
travels in baggage. What comes from outside is checked: an id that is none counts as not there.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context

RUN_ID_KEY = "tracekit.run.id"
"""Baggage entry and span attribute that name the run."""
_LONGEST = 8192
"""Characters of a carrier, as the standard has it; what is longer would be printed whole."""
_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class Remote:
    """Where this process was called from."""

    trace_id: str
    span_id: str
    run_id: str | None


def run_id_in(context: Context | None) -> str | None:
    """The run id that ``context`` (default the active one) carries as baggage."""
    from opentelemetry import baggage

    found = baggage.get_baggage(RUN_ID_KEY, context)
    return found if isinstance(found, str) and _RUN_ID.fullmatch(found) else None


def caller() -> Remote | None:
    """What is active in this context, else what the parent process said; None if neither is."""
    if "opentelemetry.trace" not in sys.modules and not os.environ.get("TRACEPARENT"):
        return None
    from opentelemetry import trace

    context: Context | None = None
    ids = trace.get_current_span().get_span_context()
    if not ids.is_valid:
        context = inherited()
        if context is None:
            return None
        ids = trace.get_current_span(context).get_span_context()
    return Remote(
        trace.format_trace_id(ids.trace_id), trace.format_span_id(ids.span_id), run_id_in(context)
    )


def inherited() -> Context | None:
    """The context that the environment hands down, None where that names no valid span."""
    traceparent = os.environ.get("TRACEPARENT")
    if not traceparent:
        return None
    from opentelemetry import context as otel_context
    from opentelemetry import trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
    given = {name.lower(): os.environ.get(name, "") for name in names}
    carrier = {name: said for name, said in given.items() if 0 < len(said) <= _LONGEST}
    context = TraceContextTextMapPropagator().extract(carrier, otel_context.Context())
    if not trace.get_current_span(context).get_span_context().is_valid:
        return None
    return W3CBaggagePropagator().extract(carrier, context)


def environment(trace_id: str, span_id: str, run_id: str) -> dict[str, str]:
    """The variables that let a child process go on with a step.

    Args:
        trace_id: Trace of the step.
        span_id: The step, unless a span is active inside it.
        run_id: Run of the step; replaces what the active baggage says.
    """
    from opentelemetry import baggage, trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    if trace.get_current_span().get_span_context().is_valid:
        TraceContextTextMapPropagator().inject(carrier)
    W3CBaggagePropagator().inject(carrier, baggage.set_baggage(RUN_ID_KEY, run_id))
    return {name.upper(): value for name, value in carrier.items()}
