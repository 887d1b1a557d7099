"""Canonical JSON, digests, and the encoding of any Python value as JSON and back.

The only door to JSON text and to digests. ``text`` knows JSON values, ``encoding`` and ``decoding``
know Python values, ``classes`` knows which classes may be rebuilt.
"""

from __future__ import annotations

from pydantic import JsonValue

from tracekit.canonical.text import (
    ParsedJson,
    canonical_bytes,
    canonical_text,
    digest,
    digest_bytes,
    digest_raw_text,
    json_bytes,
    json_text,
    parse_json,
    parse_json_noting,
)

__all__ = [
    "JsonValue",
    "ParsedJson",
    "canonical_bytes",
    "canonical_text",
    "digest",
    "digest_bytes",
    "digest_raw_text",
    "json_bytes",
    "json_text",
    "parse_json",
    "parse_json_noting",
]
