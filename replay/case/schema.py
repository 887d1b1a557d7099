"""Checks a value against a JSON Schema, as far as cases and contracts use it.

A keyword that is not known here is refused when the schema is read: a rule that is silently not
checked would be a test that cannot fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.case.searching import is_found
from tracekit.canonical import JsonValue, json_text
from tracekit.jsontree import pointer

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: (
        isinstance(v, (int, float)) and not isinstance(v, bool) and float(v).is_integer()
    ),
}
_SUBSCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs")
_ASSERTIONS = (
    *("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems"),
    *("maxItems", "uniqueItems", "minProperties", "maxProperties", "$ref"),
)
_NOTES = (
    *("title", "description", "default", "examples", "$comment", "$schema", "$id", "format"),
    *("deprecated", "readOnly", "writeOnly"),
)
_KNOWN = frozenset((*_SUBSCHEMAS, *_LISTS, *_NAMED, *_ASSERTIONS, *_NOTES))
_MAX_DEPTH = 100


def check_schema(schema: JsonValue, at: str = "") -> None:
    """Refuse a schema that this module cannot check in full.

    Raises:
        ValueError: it holds an unknown keyword, type, reference or pattern.
    """
    for place, part in _subschemas(schema, at):
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            raise ValueError(f"the schema at {place or '/'} is no object")
        if unknown := sorted(set(part) - _KNOWN):
            raise ValueError(f"schema keyword {unknown[0]!r} is not supported")
        kinds = part.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind not in _TYPES:
                raise ValueError(f"schema type {kind!r} is not known; one of {', '.join(_TYPES)}")
        for pattern in _patterns(part):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        reference = part.get("$ref")
        if reference is not None and _resolve(schema, str(reference)) is None:
            raise ValueError(f"schema reference {reference!r} leads nowhere")


def patterns_in(schema: JsonValue) -> list[str]:
    """Return the regular expressions in a schema."""
    return [one for _, part in _subschemas(schema, "") for one in _patterns(_object(part))]


def _patterns(part: Mapping[str, JsonValue]) -> list[str]:
    own = [str(part["pattern"])] if "pattern" in part else []
    return [*own, *_object(part.get("patternProperties"))]


def _subschemas(schema: JsonValue, at: str) -> Iterator[tuple[str, JsonValue]]:
    yield at, schema
    if not isinstance(schema, dict):
        return
    for name in _SUBSCHEMAS:
        if name in schema:
            yield from _subschemas(schema[name], f"{at}/{name}")
    for name in _LISTS:
        parts = schema.get(name)
        for place, part in enumerate(parts if isinstance(parts, list) else []):
            yield from _subschemas(part, f"{at}/{name}/{place}")
    for name in _NAMED:
        for key, part in _object(schema.get(name)).items():
            yield from _subschemas(part, f"{at}/{name}/{key}")


def faults(value: JsonValue, schema: JsonValue) -> list[tuple[str, str]]:
    """List where ``value`` breaks ``schema``: JSON pointer and what is wrong there.

    Raises:
        Undecided: looking for one of its patterns takes too long.
    """
    return list(_Check(schema).walk(value, schema, (), 0))


class _Check:
    def __init__(self, root: JsonValue) -> None:
        self._root = root

    def walk(
        self, value: JsonValue, schema: JsonValue, path: tuple[str | int, ...], depth: int
    ) -> Iterator[tuple[str, str]]:
        if schema is True:
            return
        if schema is False or not isinstance(schema, dict) or depth > _MAX_DEPTH:
            yield pointer(path), "nothing is allowed here"
            return
        if reference := schema.get("$ref"):
            yield from self.walk(value, _resolve(self._root, str(reference)), path, depth + 1)
        for wrong in _plain_faults(value, schema):
            yield pointer(path), wrong
        yield from self._combined(value, schema, path, depth)
        if isinstance(value, dict):
            yield from self._members(value, schema, path, depth)
        if isinstance(value, list):
            yield from self._elements(value, schema, path, depth)

    def _combined(
        self, value: JsonValue, schema: Mapping[str, Any], path: tuple[str | int, ...], depth: int
    ) -> Iterator[tuple[str, str]]:
        for part in schema.get("allOf", []):
            yield from self.walk(value, part, path, depth + 1)
        if "anyOf" in schema and not self._fitting(value, schema["anyOf"], path, depth):
            yield pointer(path), f"{_short(value)} is none of the allowed forms"
        if "oneOf" in schema and self._fitting(value, schema["oneOf"], path, depth) != 1:
            yield pointer(path), f"{_short(value)} is not exactly one of the allowed forms"
        if "not" in schema and self._fitting(value, [schema["not"]], path, depth):
            yield pointer(path), f"{_short(value)} is of a form that is not allowed"

    def _fitting(
        self, value: JsonValue, schemas: list[Any], path: tuple[str | int, ...], depth: int
    ) -> int:
        return sum(not any(self.walk(value, part, path, depth + 1)) for part in schemas)

    def _members(
        self,
        value: Mapping[str, JsonValue],
        schema: Mapping[str, Any],
        path: tuple[str | int, ...],
        depth: int,
    ) -> Iterator[tuple[str, str]]:
        named = schema.get("properties", {})
        by_pattern = schema.get("patternProperties", {})
        for name, item in value.items():
            wanted = [named[name]] if name in named else []
            wanted += [part for pattern, part in by_pattern.items() if is_found(pattern, name)]
            if not wanted and schema.get("additionalProperties") is False:
                yield pointer((*path, name)), "is not among the allowed names"
                continue
            for part in wanted or [schema.get("additionalProperties", True)]:
                yield from self.walk(item, part, (*path, name), depth + 1)
            if "propertyNames" in schema:
                yield from self.walk(name, schema["propertyNames"], (*path, name), depth + 1)

    def _elements(
        self,
        value: list[JsonValue],
        schema: Mapping[str, Any],
        path: tuple[str | int, ...],
        depth: int,
    ) -> Iterator[tuple[str, str]]:
        first = schema.get("prefixItems", [])
        for place, item in enumerate(value):
            part = first[place] if place < len(first) else schema.get("items", True)
            yield from self.walk(item, part, (*path, place), depth + 1)
        if "contains" in schema and not any(
            self._fitting(item, [schema["contains"]], path, depth) for item in value
        ):
            yield pointer(path), "holds no element of the wanted form"


def _plain_faults(value: JsonValue, schema: Mapping[str, Any]) -> Iterator[str]:
    kinds = schema.get("type")
    if kinds is not None:
        wanted = kinds if isinstance(kinds, list) else [kinds]
        if not any(_TYPES[kind](value) for kind in wanted):
            yield f"{_short(value)} is no {' or '.join(wanted)}"
    if "enum" in schema and not any(same(value, option) for option in schema["enum"]):
        yield f"{_short(value)} is none of {', '.join(_short(o) for o in schema['enum'])}"
    if "const" in schema and not same(value, schema["const"]):
        yield f"{_short(value)} is not {_short(schema['const'])}"
    yield from _sized_faults(value, schema)


def _sized_faults(value: JsonValue, schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_faults(value, schema)
    if isinstance(value, str):
        yield from _size_faults(len(value), schema, "Length", "characters")
        if "pattern" in schema and not is_found(schema["pattern"], value):
            yield f"{_short(value)} does not match {schema['pattern']!r}"
    if isinstance(value, list):
        yield from _size_faults(len(value), schema, "Items", "elements")
        texts = [json_text(item) for item in value] if schema.get("uniqueItems") else []
        if len(set(texts)) < len(texts):
            yield "holds an element twice"
    if isinstance(value, dict):
        yield from _size_faults(len(value), schema, "Properties", "names")
        for name in schema.get("required", []):
            if name not in value:
                yield f"lacks {name!r}"


def _number_faults(value: float, schema: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{value} is below {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{value} is above {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{value} is not above {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{value} is not below {schema['exclusiveMaximum']}"
    if "multipleOf" in schema and not float(value / schema["multipleOf"]).is_integer():
        yield f"{value} is no multiple of {schema['multipleOf']}"


def _size_faults(size: int, schema: Mapping[str, Any], what: str, unit: str) -> Iterator[str]:
    if size < schema.get(f"min{what}", 0):
        yield f"has {size} {unit}, at least {schema[f'min{what}']} are wanted"
    if size > schema.get(f"max{what}", size):
        yield f"has {size} {unit}, at most {schema[f'max{what}']} are allowed"


def same(left: JsonValue, right: JsonValue) -> bool:
    """Whether two JSON values are equal; 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def holds(value: JsonValue, part: JsonValue) -> bool:
    """Whether ``value`` has at least the fields of ``part``, at any depth of objects."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(
            name in value and holds(value[name], item) for name, item in part.items()
        )
    return same(value, part)


def _resolve(root: JsonValue, reference: str) -> JsonValue:
    found: JsonValue = root
    if not reference.startswith("#"):
        return None
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(value: JsonValue) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else text[:57] + "..."
