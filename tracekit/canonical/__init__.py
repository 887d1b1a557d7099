"""Canonical JSON, digests, and the encoding of any Python value as JSON and back.

The only door to JSON text and to digests. ``text`` knows JSON values; ``encoding`` and
``decoding`` walk Python values; ``builtins``, ``objects``, ``arrays`` and ``codecs`` each know some
types and add them to the tables of the two walks.
"""

from __future__ import annotations

from pydantic import JsonValue

# Imported for what they add to the tables, in the order in which they are asked.
from tracekit.canonical import arrays as _arrays
from tracekit.canonical import buffers as _buffers
from tracekit.canonical import objects as _objects
from tracekit.canonical.codecs import register_codec
from tracekit.canonical.comparing import (
    as_compared,
    class_differences,
    class_names,
    cut_digest,
    described_parts,
    described_places,
    name_part,
    numbers_as_compared,
)
from tracekit.canonical.decoding import copy_json, decode
from tracekit.canonical.encoding import MAX_DEPTH, MAX_ELEMENTS, Encoded, Stream, encode
from tracekit.canonical.running import RunningDigest
from tracekit.canonical.text import (
    ParsedJson,
    both_bytes,
    canonical_bytes,
    canonical_text,
    digest,
    digest_bytes,
    digest_raw_text,
    json_bytes,
    json_text,
    parse_json,
    parse_json_noting,
    sound_text,
    text_of,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "Encoded",
    "JsonValue",
    "ParsedJson",
    "RunningDigest",
    "Stream",
    "as_compared",
    "both_bytes",
    "canonical_bytes",
    "canonical_text",
    "class_differences",
    "class_names",
    "copy_json",
    "cut_digest",
    "decode",
    "described_parts",
    "described_places",
    "digest",
    "digest_bytes",
    "digest_raw_text",
    "encode",
    "json_bytes",
    "json_text",
    "name_part",
    "numbers_as_compared",
    "parse_json",
    "parse_json_noting",
    "register_codec",
    "sound_text",
    "text_of",
]

del _arrays, _buffers, _objects
