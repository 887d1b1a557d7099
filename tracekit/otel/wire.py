"""Spans as the bytes of OTLP. Imports the SDK.

The exporter package builds a message object for each attribute before it writes it, which costs as
much as a whole recorded call. Protobuf is simple where one knows the message: a tag, a length and
the bytes. What is written here reads back as what the package would have sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind

_KINDS = {
    SpanKind.INTERNAL: b"\x30\x01",
    SpanKind.SERVER: b"\x30\x02",
    SpanKind.CLIENT: b"\x30\x03",
    SpanKind.PRODUCER: b"\x30\x04",
    SpanKind.CONSUMER: b"\x30\x05",
}
"""Field 6 of a span."""
_IDS = struct.Struct(">QQ")
_ID = struct.Struct(">Q")
_TIMES = struct.Struct("<cQcQ")
_FLAGS = struct.Struct("<I")
_DOUBLE = struct.Struct("<d")
_LOCAL, _REMOTE = 0x100, 0x300
"""Flags: whether the parent is remote is known, and it is."""
_LARGEST = 2**63
_CONSTANT = frozenset(
    ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name",
     "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
     "gen_ai.data_source.id", "tracekit.run.id")
)  # fmt: skip
"""Attributes that say the same on many spans."""


def spans_request(spans: Iterable[ReadableSpan]) -> bytes:
    """Write an ``ExportTraceServiceRequest``."""
    # By identity: a resource is compared and hashed by the text of all that it says.
    groups: dict[tuple[int, int], tuple[ReadableSpan, list[bytes]]] = {}
    for span in spans:
        place = id(span.resource), id(span.instrumentation_scope)
        if place not in groups:
            groups[place] = (span, [])
        groups[place][1].append(_message(b"\x12", _span(span)))
    return b"".join(
        resource_bytes(one.resource, one.instrumentation_scope, written)
        for one, written in groups.values()
    )


def resource_bytes(
    resource: Resource, scope: InstrumentationScope | None, records: Iterable[bytes]
) -> bytes:
    """Write what one scope of a resource sends, as field 1 of a request of any signal."""
    schema = _text(b"\x1a", scope.schema_url) if scope is not None else b""
    body = _message(b"\x0a", _scope(scope)) + b"".join(records) + schema
    own = _message(b"\x0a", b"".join(attributes_bytes(resource.attributes, b"\x0a")))
    whole = own + _message(b"\x12", body) + _text(b"\x1a", resource.schema_url)
    return _message(b"\x0a", whole)


def _scope(scope: InstrumentationScope | None) -> bytes:
    if scope is None:
        return b""
    own = b"".join(attributes_bytes(scope.attributes or {}, b"\x1a"))
    return _text(b"\x0a", scope.name) + _text(b"\x12", scope.version) + own


def _span(span: ReadableSpan) -> bytes:
    ids = span.get_span_context()
    assert ids is not None
    parent, status = span.parent, span.status
    parts = [
        b"\x0a\x10", _trace_id(ids.trace_id), b"\x12\x08", _ID.pack(ids.span_id),
        b"" if parent is None else b"\x22\x08" + _ID.pack(parent.span_id),
        _text(b"\x2a", span.name), _KINDS[span.kind],
        _TIMES.pack(b"\x39", span.start_time or 0, b"\x41", span.end_time or 0),
        *attributes_bytes(span.attributes or {}, b"\x4a"),
    ]  # fmt: skip
    if ids.trace_state:
        parts.append(_text(b"\x1a", ids.trace_state.to_header().replace(", ", ",")))
    if events := span.events:
        parts += [_message(b"\x5a", _event(event)) for event in events]
    if links := span.links:
        parts += [_message(b"\x6a", _link(link)) for link in links]
    code = status.status_code.value
    said = _text(b"\x12", status.description) + (bytes((0x18, code)) if code else b"")
    parts.append(_message(b"\x7a", said))
    dropped = (span.dropped_attributes, span.dropped_events, span.dropped_links)
    for tag, count in zip((b"\x50", b"\x60", b"\x70"), dropped, strict=True):
        if count:
            parts.append(tag + _number(count))
    parts += (b"\x85\x01", _flags(parent))
    return b"".join(parts)


def _event(event: Event) -> bytes:
    time = b"\x09" + struct.pack("<Q", event.timestamp or 0)
    said = b"".join(attributes_bytes(event.attributes or {}, b"\x1a"))
    dropped = event.dropped_attributes
    return (
        time + _text(b"\x12", event.name) + said + (b"\x20" + _number(dropped) if dropped else b"")
    )


def _link(link: Link) -> bytes:
    ids = link.context
    said = b"".join(attributes_bytes(link.attributes or {}, b"\x22"))
    dropped = link.dropped_attributes
    count = b"\x28" + _number(dropped) if dropped else b""
    named = b"\x0a\x10" + _trace_id(ids.trace_id) + b"\x12\x08" + _ID.pack(ids.span_id)
    return named + said + count + b"\x35" + _flags(ids)


def _trace_id(trace_id: int) -> bytes:
    return _IDS.pack(trace_id >> 64, trace_id & 0xFFFF_FFFF_FFFF_FFFF)


def _flags(parent: SpanContext | None) -> bytes:
    return _FLAGS.pack(_REMOTE if parent is not None and parent.is_remote else _LOCAL)


def attributes_bytes(attributes: Mapping[str, Any], tag: bytes) -> list[bytes]:
    """Write each attribute as a field ``tag`` of whatever has them."""
    written = []
    copy = getattr(attributes, "copy", None)  # the SDK's mapping gives its items slowly
    for key, value in (attributes if copy is None else copy()).items():
        if type(value) is not str:
            body = value_bytes(value)
            written.append(_message(tag, _key(key) + b"\x12" + _number(len(body)) + body))
        elif key in _CONSTANT:
            written.append(_constant(tag, key, value))
        else:
            written.append(_text_attribute(tag, _key(key), value.encode("utf-8", "replace")))
    return written


def _text_attribute(tag: bytes, key: bytes, text: bytes) -> bytes:
    """One attribute that is a text, as most are, in one step where its lengths are small."""
    size = len(text)
    whole = len(key) + size + 4
    if size < 126 and whole < 16_384:
        n = _NUMBERS
        return b"".join((tag, n[whole], key, b"\x12", n[size + 2], b"\x0a", n[size], text))
    return _message(tag, key + _message(b"\x12", _message(b"\x0a", text)))


@lru_cache(maxsize=2048)
def _constant(tag: bytes, key: str, value: str) -> bytes:
    return _message(tag, _key(key) + _message(b"\x12", value_bytes(value)))


@lru_cache(maxsize=1024)
def _key(key: str) -> bytes:
    return _text(b"\x0a", key)


def value_bytes(value: Any) -> bytes:
    """Write an ``AnyValue``."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    for kind, found in _WRITERS.items():
        if isinstance(value, kind):
            return found(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    return _sequence(value) if isinstance(value, Sequence) else _string(str(value))


def _string(value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    return b"\x0a" + _number(len(data)) + data


def _integer(value: int) -> bytes:
    if -_LARGEST <= value < _LARGEST:
        return b"\x18" + _number(value & 0xFFFF_FFFF_FFFF_FFFF)
    return _string(str(value))


def _sequence(values: Sequence[Any]) -> bytes:
    return _message(b"\x2a", b"".join(_message(b"\x0a", value_bytes(value)) for value in values))


def _mapping(values: Mapping[str, Any]) -> bytes:
    pairs = ((str(key), value_bytes(value)) for key, value in values.items())
    written = (_message(b"\x0a", _key(key) + _message(b"\x12", body)) for key, body in pairs)
    return _message(b"\x32", b"".join(written))


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    str: _string,
    bool: lambda value: b"\x10\x01" if value else b"\x10\x00",
    int: _integer,
    float: lambda value: b"\x21" + _DOUBLE.pack(value),
    tuple: _sequence,
    list: _sequence,
    dict: _mapping,
    bytes: lambda value: b"\x3a" + _number(len(value)) + value,
    type(None): lambda _: b"",
}
"""Exact type → how it is written; a bool is an int too, and stands before it."""
_NUMBERS = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(16_384)]


def _number(value: int) -> bytes:
    if value < 16_384:
        return _NUMBERS[value]
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _message(tag: bytes, body: bytes) -> bytes:
    return tag + _number(len(body)) + body


def _text(tag: bytes, text: str | None) -> bytes:
    """A text as a field; an empty one is left out, as its reader would take it."""
    if not text:
        return b""
    data = text.encode("utf-8", "replace")
    return tag + _number(len(data)) + data
