"""Values read as quantities, for matchers that allow a tolerance or a window."""

from __future__ import annotations

from datetime import UTC, datetime

from tracekit.canonical import JsonValue


def as_number(value: JsonValue) -> float | None:
    """Read a number; None for anything else, true and false included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def as_seconds(value: JsonValue) -> float | None:
    """Read Unix seconds or an ISO 8601 time; one without a zone counts as UTC."""
    if not isinstance(value, str):
        return as_number(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
