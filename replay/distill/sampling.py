"""A small value of the shape that a schema declares, for an answer that no run holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay.case.schema import check_schema, faults
from replay.case.searching import Undecided
from tracekit.canonical import JsonValue

_DEEPEST = 20
_MOST = 1_000
"""Values and letters of an answer that is made up; a larger one is not."""


def sample_of(schema: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield one value that the schema allows; nothing where none is found."""
    whole: Any = dict(schema)
    try:
        check_schema(whole)
        value = _Sampler(whole).sample(whole, 0)
        if not faults(value, whole):
            yield value
    except (ValueError, Undecided):
        return


@dataclass
class _Sampler:
    """Makes one value, and gives up on a large one."""

    root: Mapping[str, Any]
    made: int = 0
    """How many values and letters so far."""

    def sample(self, schema: Any, depth: int) -> JsonValue:
        self._grow(1)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        given = [schema[name] for name in ("const", "default") if name in schema]
        given += [value for name in ("examples", "enum") for value in schema.get(name, [])[:1]]
        if given:
            first: JsonValue = given[0]
            return first
        if "$ref" in schema:
            found: Any = self.root
            for name in str(schema["$ref"]).removeprefix("#").split("/")[1:]:
                found = found[name.replace("~1", "/").replace("~0", "~")]
            return self.sample(found, depth + 1)
        for name in ("anyOf", "oneOf", "allOf"):
            if schema.get(name):
                return self.sample(schema[name][0], depth + 1)
        return self._of_kind(schema, depth)

    def _of_kind(self, schema: Mapping[str, Any], depth: int) -> JsonValue:
        kind = schema.get("type", "object" if "properties" in schema else "null")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "object":
                members = schema.get("properties", {})
                needed = schema.get("required", [])
                return {name: self.sample(members.get(name), depth + 1) for name in needed}
            case "array":
                least = int(schema.get("minItems", 0))
                return [self.sample(schema.get("items"), depth + 1) for _ in range(least)]
            case "string":
                length = int(schema.get("minLength", 0))
                self._grow(length)
                return "x" * length
            case "boolean":
                return True
            case "integer" | "number":
                lowest: int | float = schema.get("minimum", 0)
                return max(0, lowest)
            case _:
                return None

    def _grow(self, by: int) -> None:
        self.made += by
        if self.made > _MOST:
            raise ValueError(f"the schema asks for more than {_MOST} values and letters")
