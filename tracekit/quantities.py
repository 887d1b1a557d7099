"""Values read as quantities: for matchers that allow a tolerance, and for what a run used.

A record may hold any number, also one that a float cannot, or that nothing can have cost.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, isfinite

from tracekit.canonical import JsonValue

MOST = 1e15
"""More than any run uses of anything. Sums of what is less are sums of what is less."""


def as_number(value: JsonValue) -> float | None:
    """Read a finite number; None for anything else, true and false included."""
    found = as_written(value)
    return found if found is not None and isfinite(found) else None


def as_written(value: JsonValue) -> float | None:
    """Read any number as a float, one that is too large for it as infinite; None for the rest."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def is_amount(value: float) -> bool:
    """Tell whether a run can have used so much of something: not less than nothing, nor NaN."""
    return 0 <= value <= MOST


def as_seconds(value: JsonValue) -> float | None:
    """Read Unix seconds or an ISO 8601 time; one without a zone counts as UTC."""
    if not isinstance(value, str):
        return as_number(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
