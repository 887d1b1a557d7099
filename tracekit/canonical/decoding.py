"""The way back: a JSON view and its type tags to the value that was encoded.

Tags are applied from the deepest pointer up, so that everything inside a container is rebuilt
before the container is. Nothing is imported and no user code runs, except registered codecs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.encoding import Encoded
from tracekit.canonical.exact import EACH, ORDER, restore_order
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
    for pointer, places in encoded.types.items():
        if pointer.endswith(ORDER):
            for into, key in _locate(root, pointer.removesuffix(ORDER)):
                if isinstance(into[key], dict):
                    into[key] = restore_order(into[key], places)
    tags = [pointer for pointer in encoded.types if not pointer.endswith(ORDER)]
    for pointer in sorted(tags, key=lambda pointer: -pointer.count("/")):
        _apply(root, pointer, encoded.types[pointer])
    return root[0]


def _apply(root: list[Any], pointer: str, tag: JsonValue) -> None:
    name, rest = (tag, []) if isinstance(tag, str) else _split(tag)
    read = READERS.get(name)
    if read is None:
        raise NotReplayable(f"the recorded value at {pointer!r} has the unknown type {name!r}")
    try:
        for into, key in _locate(root, pointer):
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


def _locate(root: list[Any], pointer: str) -> list[tuple[Any, Any]]:
    """Find the container and the key of each place that ``pointer`` means; none if it is gone."""
    places: list[tuple[Any, Any]] = [(root, 0)]
    for part in pointer.split("/")[1:]:
        places = [
            (into[key], child) for into, key in places for child in _children(into[key], part)
        ]
    return places


def _children(node: Any, part: str) -> Iterable[Any]:
    if isinstance(node, list):
        if part == EACH:
            return range(len(node))
        return [int(part)] if part.isdecimal() and int(part) < len(node) else []
    name = part.replace("~1", "/").replace("~0", "~")
    return [name] if isinstance(node, dict) and name in node else []


def copy_json(value: JsonValue) -> JsonValue:
    """Copy a JSON value, without recursion."""
    root = [value]
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
            if isinstance(child, (dict, list)):
                node[key] = child.copy()
                stack.append(node[key])
    return root[0]
