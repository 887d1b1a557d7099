"""A span as plain data, wherever it comes from: the SDK, OTLP, a file. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    attributes: Mapping[str, JsonValue]
    time_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanData:
    """One span that is over. Ids are lower-case hex."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, JsonValue]
    events: tuple[SpanEvent, ...] = ()
    error: bool = False
    """Whether its status is that of an error."""
    message: str | None = None
    """What its status says."""
    scope: str = ""
    """Name of the instrumentation that made it."""
    scope_version: str | None = None
    dropped: int = field(default=0)
    """Attributes and events that its maker dropped."""


def keep_newest(remembered: dict[Any, Any], most: int) -> None:
    """Forget the oldest entries beyond ``most``, whatever other threads do meanwhile."""
    with suppress(RuntimeError, StopIteration):
        while len(remembered) > most:
            remembered.pop(next(iter(remembered)), None)


def plain_value(value: Any) -> JsonValue:
    """An attribute's value as JSON: sequences are lists, bytes are base64, the rest its text."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [plain_value(item) for item in value]
    return str(value)
