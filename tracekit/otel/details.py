"""What a model was asked and answered, as the event that the conventions have for it.

On spans content is text, since most readers take nothing else; in the event it is structured. Which
of the two is wanted is said by the variable that other GenAI instrumentations obey, too.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit import conditions

if TYPE_CHECKING:
    from opentelemetry.context import Context

DETAILS = "gen_ai.client.inference.operation.details"
_log = logging.getLogger("tracekit")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True)
class Content:
    """Where content goes."""

    spans: bool = True
    events: bool = True
    asked: bool = False
    """Whether events were asked for by name: then they are sent even where nobody set up logs."""


def content_wanted() -> Content:
    """Where content goes that is wanted: as the standard variable says, else wherever it can."""
    match os.environ.get(_CAPTURE, "").strip().upper():
        case "SPAN_ONLY":
            return Content(events=False)
        case "EVENT_ONLY":
            return Content(spans=False, asked=True)
        case "SPAN_AND_EVENT":
            return Content(asked=True)
        case _:
            return Content()


@functools.cache
def _has_events() -> bool:
    """Whether a log record can be an event; it is said once where it cannot."""
    from opentelemetry import _logs

    found = "event_name" in inspect.signature(_logs.LogRecord.__init__).parameters
    if not found:
        _log.warning("this OpenTelemetry has no log events, so model calls go out as spans only")
    return found


def emit_details(context: Context | None, attributes: Mapping[str, Any]) -> None:
    """Emit the event of a model call, in the context of its span; without set-up logs nothing."""
    if "opentelemetry.sdk._logs" not in sys.modules or not _has_events():
        return
    from opentelemetry import _logs

    record = _logs.LogRecord(
        timestamp=conditions.now_ns(),
        context=context,
        severity_number=_logs.SeverityNumber.DEBUG,
        attributes=dict(attributes),
        event_name=DETAILS,
    )
    _logs.get_logger("tracekit").emit(record)
