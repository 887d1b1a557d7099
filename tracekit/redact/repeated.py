"""JSON texts in which a key stands more than once in an object: nothing of them is passed over.

The one idea: such an object is read as several that follow each other, each without a key twice.
Their names and values stand in the order of the text, so it can be written anew as any other.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from tracekit.redact.names import named_value


class Repeated(list[Any]):
    """What one object says that has a key more than once: objects that have each key once."""

    def told(self) -> list[tuple[str, str] | None]:
        """Return, of each part, the key of what may be the value of a name, and that name."""
        said = (
            named_value({"value": None, name: item}) for part in self for name, item in part.items()
        )
        name = next((one[1] for one in said if one is not None), None)
        return [
            None if name is None else ("value" if "value" in part else "Value", name)
            for part in self
        ]


def read_all(text: str) -> Any:
    """Return what a JSON text says, as ``json.loads`` does, and all that it says twice.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_object)


def repeats_a_key(text: str, value: Any) -> bool:
    """Whether JSON in which a key may stand twice was read as ``value`` without one of the two.

    It may say so of others, which spell a quote as a number.
    """
    # Of what was passed over at least the quotes of its name are missing.
    return "\\u0022" in text or orjson.dumps(value).count(b'"') != text.count('"')


def _object(pairs: list[tuple[str, Any]]) -> Any:
    whole = dict(pairs)
    if len(whole) == len(pairs):
        return whole
    parts = Repeated([{}])
    for name, item in pairs:
        if name in parts[-1]:
            parts.append({})
        parts[-1][name] = item
    return parts
