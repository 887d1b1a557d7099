"""The way back: a JSON view and its type tags to the value that was encoded.

Tags are applied from the deepest pointer up, so that everything inside a container is rebuilt
before the container is; a tag whose place is gone is passed over. Nothing is imported and no user
code runs, except registered codecs.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.encoding import Encoded
from tracekit.errors import NotReplayable


def decode(encoded: Encoded) -> object:
    """Rebuild the value; a new one on every call.

    Raises:
        NotReplayable: it was described only, a class it needs is not among the imported modules, or
            the view no longer fits its tags (a redacted number, say).
    """
    if not encoded.replayable:
        why = "; ".join(encoded.problems) or "it was recorded as a description"
        raise NotReplayable(f"the recorded value cannot be rebuilt: {why}")
    root: list[Any] = [copy_json(encoded.value)]
    for pointer in sorted(encoded.types, key=lambda pointer: -pointer.count("/")):
        _apply(root, pointer, encoded.types[pointer])
    return root[0]


def _apply(root: list[Any], pointer: str, tag: JsonValue) -> None:
    name, rest = (tag, []) if isinstance(tag, str) else _split(tag)
    read = READERS.get(name)
    if read is None:
        raise NotReplayable(f"the recorded value at {pointer!r} has the unknown type {name!r}")
    try:
        place = _locate(root, pointer)
        if place is not None:
            into, key = place
            into[key] = read(into[key], rest)
    except NotReplayable:
        raise
    except Exception as error:
        raise NotReplayable(
            f"the recorded value at {pointer!r} is no {name} any more: {type(error).__name__}",
            hint="it may have been redacted or changed since it was recorded",
        ) from error


def _split(tag: JsonValue) -> tuple[str, list[Any]]:
    if isinstance(tag, list) and tag and isinstance(tag[0], str):
        return tag[0], tag[1:]
    raise NotReplayable(f"{tag!r} is no type tag")


def _locate(root: list[Any], pointer: str) -> tuple[Any, Any] | None:
    """Find the container and the key that ``pointer`` means; none where it was taken out."""
    into: Any = root
    key: Any = 0
    for part in pointer.split("/")[1:]:
        into = into[key]
        if isinstance(into, list):
            key = int(part) if part.isdecimal() and int(part) < len(into) else None
        else:
            name = part.replace("~1", "/").replace("~0", "~")
            key = name if isinstance(into, dict) and name in into else None
        if key is None:
            return None
    return into, key


def copy_json(value: JsonValue) -> JsonValue:
    """Copy a JSON value, without recursion."""
    if not isinstance(value, (dict, list)):
        return value
    copy = value.copy()
    stack: list[Any] = [copy]
    while stack:
        node = stack.pop()
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(child, (dict, list)):  # put in its own place: no key comes or goes
                node[key] = child.copy()
                stack.append(node[key])
    return copy
