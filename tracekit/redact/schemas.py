"""What describes a field and is no value of it: ``{"password": {"type": "string"}}``.

The one idea: a description has nothing but the words of JSON Schema, one of its seven types, and
no examples that could be somebody's. All else under the name of a secret is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_REFERENCES = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum"})
_VALUES = ("default", "const", "example", "examples", "enum")
_WORDS = frozenset(
    {"type", "not", "description", "title", "format", "pattern", "items", "prefixItems"}
    | {"properties", "required", "additionalProperties", "patternProperties", "nullable"}
    | {"minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
    | {"readOnly", "writeOnly", "deprecated", "contentEncoding", "contentMediaType", "strict"}
    | {"$schema", "$id", "$defs", "definitions", "$comment", "if", "then", "else"}
    | _REFERENCES.union(_VALUES)
)
_HARMLESS = re.compile(r"[A-Za-z_ -]{0,24}")


def is_schema(value: JsonValue) -> bool:
    """Say whether ``value`` describes what a field holds, and is not what it holds."""
    if not isinstance(value, dict) or not value.keys() <= _WORDS:
        return False
    said = value.get("type")
    types = said if isinstance(said, list) else [said]
    typed = all(isinstance(one, str) and one in _TYPES for one in types)
    if not (typed if "type" in value else _REFERENCES & value.keys()):
        return False
    examples = (text for name in _VALUES for text in _strings(value.get(name)))
    return all(_HARMLESS.fullmatch(text) for text in examples)


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
