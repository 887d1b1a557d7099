"""What describes a field and is no value of it: ``{"password": {"type": "string"}}``.

The one idea: a description has nothing but the words of JSON Schema, behind each what belongs
there, and at no depth a value that could be somebody's. All else under the name of a secret is a
secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING

from tracekit.redact.placeholders import is_number_placeholder, placeholder_kind

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue

NAMING = frozenset({"properties", "patternProperties"})
"""Behind these words stand schemas by the names of the fields that they describe."""
DEFINING = frozenset({"$defs", "definitions", "dependentSchemas"})
"""Behind these stand schemas by other names."""
OF_ITEMS = frozenset({"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"})
OF_OTHERS = frozenset({"additionalProperties", "unevaluatedProperties"})
OF_THE_SAME = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "propertyNames"})
VALUES = frozenset({"default", "const", "example", "examples", "enum"})
"""Behind these stand values of the field; behind the plural ones several."""
REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_TELLING = frozenset({"anyOf", "oneOf", "allOf", "enum"} | REFERRING)
_SCHEMAS = NAMING | DEFINING | OF_ITEMS | OF_OTHERS | OF_THE_SAME
FOR_READERS = frozenset({"title", "description", "$comment"})
_TEXTS = REFERRING | FOR_READERS
_TEXTS |= {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
_WORDS_ABOUT = frozenset({"format", "contentEncoding", "contentMediaType"})
_AMOUNTS = frozenset(
    {"minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems", "minProperties", "maxProperties"}
    | {"minContains", "maxContains", "uniqueItems", "readOnly", "writeOnly", "deprecated"}
    | {"nullable", "strict"}
)
WORDS = _SCHEMAS | VALUES | _TEXTS | _WORDS_ABOUT | _AMOUNTS | {"type", "required", "pattern"}
_HARMLESS = re.compile(r"[A-Za-z_ -]{0,24}")
_FORMAT = re.compile(r"[A-Za-z-]{0,24}|[a-z]{2,7}(?:32|64|4|6)|[a-z]{1,12}/[a-z.+-]{1,24}")
_SYNTAX = re.compile(
    r"\[(?:\\.|[^\]\\])*\] | \{[\d,]*\} | \\[pP]\{\w+\} | \\[A-Za-z] | \(\?[:=!<a-zA-Z]+",
    re.VERBOSE,
)
_MOST_LITERAL = 5
"""So many letters and digits of a pattern that stand for themselves are a prefix, and no secret."""
_SMALL = 10


def is_schema(value: JsonValue) -> bool:
    """Say whether ``value`` describes what a field holds, and holds nothing of it."""
    return describes(value) and _holds_nothing(value)


def describes(value: JsonValue) -> bool:
    """Say whether ``value`` is a schema, though it may hold what it describes."""
    return isinstance(value, dict) and is_typed(value) and has_known_words(value)


def has_known_words(schema: Mapping[str, JsonValue]) -> bool:
    """Whether a schema says nothing by words of its own, or nothing is left of it."""
    return all(word in WORDS or _is_redacted(said) for word, said in schema.items())


def is_typed(value: JsonValue) -> bool:
    """Say whether ``value`` says of what type something is, as a schema does."""
    if not isinstance(value, dict):
        return False
    return is_said("type", value["type"]) if "type" in value else not _TELLING.isdisjoint(value)


def is_said(word: str, said: JsonValue) -> bool:
    """Whether a schema has ``said`` behind ``word``, where neither values nor schemas stand."""
    if word == "type":
        types = said if isinstance(said, list) else [said]
        return all(
            isinstance(one, str) and (one in _TYPES or placeholder_kind(one) is not None)
            for one in types
        )
    if word in _TEXTS:
        return isinstance(said, (str, bool))
    if word in _AMOUNTS:
        return isinstance(said, (int, float)) or said is None
    if word == "required":
        names = said if isinstance(said, list) else [said]
        return all(isinstance(one, (str if names is said else bool)) for one in names)
    if not isinstance(said, str):
        return said is None and word in WORDS
    if word in _WORDS_ABOUT:
        return _FORMAT.fullmatch(said) is not None
    return word == "pattern" and _is_form(said)


def _is_form(pattern: str) -> bool:
    """Whether a pattern says how texts are made, and not which one it is."""
    literal = sum(map(str.isalnum, _SYNTAX.sub("", pattern)))
    return literal <= _MOST_LITERAL


def _holds_nothing(schema: JsonValue) -> bool:
    """Whether no value stands in a schema, nor in those inside it."""
    if isinstance(schema, list):
        return all(map(_holds_nothing, schema))
    if not isinstance(schema, dict):
        return schema is None or isinstance(schema, bool)
    return all(_says_nothing(word, said) for word, said in schema.items())


def _says_nothing(word: str, said: JsonValue) -> bool:
    if _is_redacted(said):
        return True
    if word in VALUES:
        return _is_harmless(said)
    if word in NAMING or word in DEFINING:
        return isinstance(said, dict) and all(map(_holds_nothing, said.values()))
    return _holds_nothing(said) if word in _SCHEMAS else is_said(word, said)


def _is_harmless(value: JsonValue) -> bool:
    return all(
        (_HARMLESS.fullmatch(leaf) if isinstance(leaf, str) else -_SMALL < leaf < _SMALL)
        or _is_placeholder(leaf)
        for leaf in _leaves(value)
    )


def _is_redacted(value: JsonValue) -> bool:
    return all(map(_is_placeholder, _leaves(value)))


def _is_placeholder(leaf: str | float) -> bool:
    if isinstance(leaf, str):
        return not leaf.strip("*") or placeholder_kind(leaf) is not None
    return isfinite(leaf) and is_number_placeholder(leaf)


def _leaves(value: JsonValue) -> Iterator[str | float]:
    """Yield the texts and numbers in a value."""
    pending = [value]
    while pending:
        said = pending.pop()
        if isinstance(said, (dict, list)):
            pending += said.values() if isinstance(said, dict) else said
        elif said is not None and not isinstance(said, bool):
            yield said
