"""Looking at and changing JSON values by JSON Pointer (RFC 6901).

Everything here is pure: a change gives a new value, which shares with the old one whatever did not
change. No function recurses, so depth is no danger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from tracekit.errors import PointerNotFound


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two values are not the same."""

    pointer: str
    kind: Literal["changed", "added", "removed"]
    left: JsonValue
    """The value on the left; None where it was added."""
    right: JsonValue
    """The value on the right; None where it was removed."""


def pointer(parts: Iterable[str | int]) -> str:
    """Write a JSON Pointer from its parts."""
    return "".join("/" + _escape(str(part)) for part in parts)


def parts(pointer: str) -> tuple[str, ...]:
    """Read a JSON Pointer into its parts."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def get(value: JsonValue, pointer: str) -> JsonValue:
    """Return what is at ``pointer``.

    Raises:
        PointerNotFound: there is nothing.
    """
    for part in parts(pointer):
        value = _child(value, part, pointer)
    return value


def walk(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield each leaf with its pointer, in order; an empty list or object is a leaf too."""
    stack: list[tuple[str, JsonValue]] = [("", value)]
    while stack:
        place, node = stack.pop()
        if isinstance(node, (dict, list)) and node:
            stack.extend(reversed([(f"{place}/{_escape(k)}", c) for k, c in _items(node)]))
        else:
            yield place, node


def differences(left: JsonValue, right: JsonValue) -> tuple[Difference, ...]:
    """Compare field by field, lists by index.

    Numbers are equal by value (42 and 42.0), NaN equals NaN, and a bool is never a number.
    """
    found: list[Difference] = []
    stack: list[tuple[str, Any, Any]] = [("", left, right)]
    while stack:
        place, old, new = stack.pop()
        if isinstance(old, _Missing):
            found.append(Difference(place, "added", None, new))
        elif isinstance(new, _Missing):
            found.append(Difference(place, "removed", old, None))
        elif isinstance(old, dict) and isinstance(new, dict):
            names = list(old) + [name for name in new if name not in old]
            stack.extend(
                (f"{place}/{_escape(name)}", old.get(name, _MISSING), new.get(name, _MISSING))
                for name in reversed(names)
            )
        elif isinstance(old, list) and isinstance(new, list):
            stack.extend(
                (f"{place}/{at}", _at(old, at), _at(new, at))
                for at in range(max(len(old), len(new)) - 1, -1, -1)
            )
        elif not _same_leaf(old, new):
            found.append(Difference(place, "changed", old, new))
    return tuple(found)


def replace(value: JsonValue, pointer: str, new: JsonValue) -> JsonValue:
    """Give ``value`` with ``new`` at ``pointer``.

    A member may be new to its object; ``-`` or the length of a list appends.

    Raises:
        PointerNotFound: there is nothing that it could stand in.
    """
    path = parts(pointer)
    if not path:
        return new
    root, into = _copy_along(value, path, pointer)
    if isinstance(into, dict):
        into[path[-1]] = new
    elif isinstance(into, list) and path[-1] in ("-", str(len(into))):
        into.append(new)
    else:
        _child(into, path[-1], pointer)
        into[int(path[-1])] = new
    return root


def remove(value: JsonValue, pointer: str) -> JsonValue:
    """Give ``value`` without what is at ``pointer``; later elements of a list move up.

    Raises:
        PointerNotFound: there is nothing, or it is the whole value.
    """
    path = parts(pointer)
    if not path:
        raise PointerNotFound(pointer, reason="the whole value cannot be removed")
    root, into = _copy_along(value, path, pointer)
    _child(into, path[-1], pointer)
    del into[int(path[-1]) if isinstance(into, list) else path[-1]]
    return root


def _copy_along(value: JsonValue, path: tuple[str, ...], pointer: str) -> tuple[JsonValue, Any]:
    """Copy the containers on the way to the last part; give the new root and the last of them."""
    root: Any = _copy_one(value)
    into = root
    for part in path[:-1]:
        child = _copy_one(_child(into, part, pointer))
        into[int(part) if isinstance(into, list) else part] = child
        into = child
    return root, into


def _copy_one(value: JsonValue) -> JsonValue:
    return value.copy() if isinstance(value, (dict, list)) else value


def _child(value: JsonValue, part: str, pointer: str) -> JsonValue:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and part.isascii() and part.isdigit():
        if part != "0" and part.startswith("0"):
            raise PointerNotFound(pointer, reason=f"{part!r} is no index")
        if int(part) < len(value):
            return value[int(part)]
    raise PointerNotFound(pointer, reason=f"nothing at {part!r}")


def _items(node: dict[str, JsonValue] | list[JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(node, dict):
        yield from node.items()
    else:
        yield from ((str(at), child) for at, child in enumerate(node))


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


class _Missing:
    """Stands for what one side does not have."""


_MISSING = _Missing()


def _at(values: list[JsonValue], at: int) -> JsonValue | _Missing:
    return values[at] if at < len(values) else _MISSING


def _same_leaf(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right or (left != left and right != right)
    return type(left) is type(right) and bool(left == right)
