"""What one convention says of a span: fields of ours, each with the attributes it was read from.

Several conventions may speak on one span. Each is read by itself; ``tracekit.otel.reading`` takes
every field from the best that has it, and what was not taken stays among the attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue
from tracekit.otel.messages import parsed

_DEEPEST = 32
Read = Callable[[JsonValue], JsonValue]


@dataclass
class Fields:
    """What one convention says of one span."""

    attributes: Mapping[str, JsonValue]
    found: dict[str, tuple[JsonValue, tuple[str, ...]]] = field(default_factory=dict)
    """Field → its value, and the attributes that said it."""

    def take(self, name: str, *keys: str, read: Read | None = None) -> None:
        """Fill a field from the first of ``keys`` that says something of the right kind."""
        for key in keys:
            value = self.attributes.get(key)
            if value is None:
                continue
            made = value if read is None else read(value)
            if made is not None:
                self.put(name, made, (key,))
                return

    def put(self, name: str, value: JsonValue, keys: Iterable[str]) -> None:
        """Fill a field, unless it is filled."""
        self.found.setdefault(name, (value, tuple(keys)))

    def tree(self, prefix: str) -> tuple[JsonValue, tuple[str, ...]]:
        """What stands under ``prefix``, flattened: put together again, and its attributes."""
        start = prefix + "."
        root: dict[str, Any] = {}
        keys = [
            key
            for key, value in self.attributes.items()
            if key.startswith(start) and _put(root, key[len(start) :].split("."), value)
        ]
        return _listed(root), tuple(keys)


def _put(root: dict[str, Any], path: list[str], value: JsonValue) -> bool:
    """Put ``value`` in its place; tell whether there was one."""
    if len(path) > _DEEPEST:
        return False
    node = root
    for part in path[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            return False
    if path[-1] in node:
        return False
    node[path[-1]] = value
    return True


def _listed(node: Any) -> JsonValue:
    """Objects whose keys are all numbers are lists."""
    if not isinstance(node, dict):
        kept: JsonValue = node
        return kept
    if node and all(key.isdecimal() for key in node):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(value) for key, value in node.items()}


def text(value: JsonValue) -> JsonValue:
    """A text that says something, else None."""
    return value if isinstance(value, str) and value else None


def number(value: JsonValue) -> JsonValue:
    """A count, also where it was written as a float or as text, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if value == value and abs(value) < 2**63 else None
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 19 else None


def result(value: JsonValue) -> JsonValue:
    """What came back, where that may be text or JSON text: only an object or a list is JSON."""
    made = parsed(value)
    return made if isinstance(made, (dict, list)) else value


def listed(value: JsonValue) -> list[Any]:
    """``value`` where it is a list; alone where it is anything else, none where it is nothing."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == {} else [value]
