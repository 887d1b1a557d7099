"""What the canonical text of a JSON value loses, noted beside it: key order and whole floats.

A tool that returned ``{"b": 1.0, "a": 2}`` must return just that in a replay, since the planner may
put its text into a prompt. The canonical text is ``{"a":2,"b":1}``. So an object whose keys are not
in canonical order gets an entry at ``<pointer>/~order`` with the places its keys had, and a whole
float the tag ``float``. In a list of objects with the same keys, or of floats, an entry with ``~*``
in place of the index stands for all. No JSON pointer has a part like these, since a tilde in a key
is written ``~0``; and as parts of a pointer they survive when a value is put inside another.

Entries hold places and names of types, never data. One that no longer fits is passed over: order
is the least that a redacted or reduced value can lose.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

ORDER = "/~order"
"""Ends the pointer of an entry about key order."""
EACH = "~*"
"""Stands in a pointer for every index of a list."""
WHOLE, NEGATIVE_ZERO = "float", "-0.0"

_INTERESTING = frozenset({dict, list, float})


def note_losses(value: JsonValue) -> dict[str, JsonValue]:
    """Note what canonical text would lose of ``value``; nothing for most small values."""
    notes: dict[str, JsonValue] = {}
    if type(value) is float:
        _note_float("", value, notes)
    stack: list[tuple[str, Any, bool]] = []
    if type(value) is dict or type(value) is list:
        stack.append(("", value, False))
    while stack:
        place, node, is_ordered = stack.pop()
        alike = False
        if type(node) is dict:
            if not is_ordered:
                _note_order(place, list(node), notes)
            items: Any = node.items()
        else:
            kinds = set(map(type, node))
            if not kinds & _INTERESTING:
                continue
            alike = len(node) > 1 and _note_alike(place, node, kinds, notes)
            items = enumerate(node)
        for key, child in items:
            kind = type(child)
            if kind is dict or kind is list:
                stack.append((f"{place}/{escape(key)}", child, alike))
            elif kind is float and not alike and child.is_integer():
                _note_float(f"{place}/{escape(key)}", child, notes)
    return notes


def _note_order(place: str, names: list[str], notes: dict[str, JsonValue]) -> None:
    ordered = canonical_order(names)
    if ordered != names:
        places = {name: at for at, name in enumerate(ordered)}
        notes[place + ORDER] = [places[name] for name in names]


def _note_alike(place: str, node: list[Any], kinds: set[type], notes: dict[str, JsonValue]) -> bool:
    """Note once what holds for all elements of a list; tell whether that was possible."""
    if kinds == {dict}:
        names = list(node[0])
        if all(list(child) == names for child in node):
            _note_order(f"{place}/{EACH}", names, notes)
            return True
    if kinds == {float} and not any(child == 0 and repr(child) == "-0.0" for child in node):
        if any(child.is_integer() for child in node):
            notes[f"{place}/{EACH}"] = WHOLE
        return True
    return False


def _note_float(place: str, number: float, notes: dict[str, JsonValue]) -> None:
    if number.is_integer():
        notes[place] = NEGATIVE_ZERO if repr(number) == "-0.0" else WHOLE


def canonical_order(names: list[str]) -> list[str]:
    """Sort keys as RFC 8785 does."""
    if all(name.isascii() for name in names):
        return sorted(names)
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def restore_order(node: dict[str, Any], places: Any) -> dict[str, Any]:
    """Give an object whose keys stand as noted, or as they do where the note does not fit."""
    ordered = canonical_order(list(node))
    if not isinstance(places, list) or sorted(places) != list(range(len(ordered))):
        return node
    return {ordered[at]: node[ordered[at]] for at in places}


def escape(key: str | int) -> str:
    """Write one part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if isinstance(key, str) else str(key)
