"""A small value of the shape that a schema declares, for an answer that no run holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replay.case.schema import check_schema, faults
from replay.case.searching import Undecided
from tracekit.canonical import JsonValue

_DEEPEST = 20


def sample_of(schema: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield one value that the schema allows; nothing where none is found."""
    whole: Any = dict(schema)
    try:
        check_schema(whole)
        value = _sample(whole, whole, 0)
        if not faults(value, whole):
            yield value
    except (ValueError, Undecided):
        return


def _sample(schema: Any, root: Mapping[str, Any], depth: int) -> JsonValue:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    given = [schema[name] for name in ("const", "default") if name in schema]
    given += [value for name in ("examples", "enum") for value in schema.get(name, [])[:1]]
    if given:
        first: JsonValue = given[0]
        return first
    if "$ref" in schema:
        found: Any = root
        for name in str(schema["$ref"]).removeprefix("#").split("/")[1:]:
            found = found[name.replace("~1", "/").replace("~0", "~")]
        return _sample(found, root, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _sample(schema[name][0], root, depth + 1)
    return _of_kind(schema, root, depth)


def _of_kind(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> JsonValue:
    kind = schema.get("type", "object" if "properties" in schema else "null")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            members = schema.get("properties", {})
            needed = schema.get("required", [])
            return {name: _sample(members.get(name), root, depth + 1) for name in needed}
        case "array":
            least = schema.get("minItems", 0)
            return [_sample(schema.get("items"), root, depth + 1) for _ in range(least)]
        case "string":
            return "x" * int(schema.get("minLength", 0))
        case "boolean":
            return True
        case "integer" | "number":
            lowest: int | float = schema.get("minimum", 0)
            return max(0, lowest)
        case _:
            return None
