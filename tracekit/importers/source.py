"""A parsed file, and complaints about it that name the place.

Text that UTF-8 cannot carry (a lone half of a surrogate pair) is replaced once, here, and noted, so
that nothing after it has to care.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.canonical import JsonValue, parse_json_noting
from tracekit.errors import ImportFormatError, InvalidJson

_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Source:
    """The content of one file."""

    path: Path
    value: JsonValue
    notes: dict[str, JsonValue] = field(default_factory=dict)
    """What reading it lost."""

    def fault(self, ref: str, what: str) -> ImportFormatError:
        """Make the error that names the place and what is wrong there."""
        return ImportFormatError(f"{self.path}: at {ref or '/'}: {what}")

    def take_object(self, value: object, ref: str) -> dict[str, Any]:
        """Take ``value`` as a JSON object.

        Raises:
            ImportFormatError: it is none.
        """
        if not isinstance(value, dict):
            raise self.fault(ref, f"an object was expected, not {_kind(value)}")
        return value

    def take_array(self, value: object, ref: str) -> list[Any]:
        """Take ``value`` as a JSON array.

        Raises:
            ImportFormatError: it is none.
        """
        if not isinstance(value, list):
            raise self.fault(ref, f"an array was expected, not {_kind(value)}")
        return value


def read_source(path: Path, data: bytes) -> Source:
    """Parse the file's content.

    Raises:
        ImportFormatError: it is not JSON.
    """
    try:
        parsed = parse_json_noting(data)
    except InvalidJson as error:
        raise ImportFormatError(f"{path}: {error.message}") from error
    notes: dict[str, JsonValue] = {}
    if parsed.duplicate_keys:
        notes["duplicate_keys"] = list(parsed.duplicate_keys)
    value = parsed.value
    if _ESCAPED_HALF.search(data):
        whole = _without_halves(value)
        if whole != value:
            value, notes["replaced_surrogates"] = whole, True
    return Source(path=path, value=value, notes=notes)


def text_or_none(value: object) -> str | None:
    """Take ``value`` where it is a text."""
    return value if isinstance(value, str) else None


def _without_halves(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_halves(item) for item in value]
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a text", type(None): "null"}
    return names.get(type(value), "a number or a truth value")
