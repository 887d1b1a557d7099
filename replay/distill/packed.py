"""Texts that are written values: JSON, or what Python prints of lists and dicts.

Tools often give back a text that holds a structure. It is taken apart as one, and written again in
the same way, so that what reads it can still read it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from replay.distill import trees
from replay.distill.draft import Draft, Place, Slot
from replay.distill.layers import Needles, by_slot, holding, likely_first, named
from tracekit import jsontree
from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.errors import InvalidJson

_LONGEST = 200_000
"""Texts longer than that are not tried; ``ast`` is slow."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Members and elements of values that are written in texts, of one depth or of every."""

    depth: int | None = None
    needles: Needles = ()
    name: str = "fields in texts"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Place of the value, pointer of the text, pointer in what it holds."""
        return likely_first(self._values(whole), self.needles)

    def likely(self, whole: Draft) -> Collection[Hashable]:
        """Those that hold what flowed."""
        return holding(self._values(whole), self.needles)

    def _values(self, whole: Draft) -> dict[tuple[Place, tuple[str, str]], JsonValue]:
        found: dict[tuple[Place, tuple[str, str]], JsonValue] = {}
        for slot, pointer, text in _texts(whole):
            for depth, inner, node in trees.nodes(unpacked(text)):
                if self.depth in (None, depth):
                    found[slot.place, (pointer, inner)] = node
        return found

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave them out of the texts."""
        for slot, places in by_slot(whole, parts):
            gone: dict[str, set[str]] = defaultdict(set)
            for pointer, inner in places:
                gone[pointer].add(inner)
            value = slot.value
            for pointer, inners in gone.items():
                text = str(jsontree.get(value, pointer))
                less, _ = trees.without(unpacked(text), {}, inners)
                value = jsontree.replace(value, pointer, packed(less, like=text))
            whole = whole.with_value(slot.place, value, slot.types)
        return whole

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the field."""
        assert isinstance(part, tuple)
        place, (pointer, inner) = part
        return f"{inner} in the text {pointer} of {named(place)}"


def deepest(draft: Draft) -> int:
    """How many levels the deepest value in a text has."""
    return max((trees.depth_of(unpacked(text)) for _, _, text in _texts(draft)), default=0)


def unpacked(text: str) -> JsonValue:
    """The list or object that a text holds; None where it holds none."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _LONGEST:
        return None
    try:
        value = parse_json(text)
    except InvalidJson:
        try:
            value = ast.literal_eval(text.strip())
            json_text(value)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return None
    return value if _is_json(value) else None


def packed(value: JsonValue, *, like: str) -> str:
    """Write a value in the way in which ``like`` is written."""
    try:
        parse_json(like)
    except InvalidJson:
        return repr(value)
    return json_text(value)


def _texts(whole: Draft) -> Iterator[tuple[Slot, str, str]]:
    for slot in whole.slots():
        if slot.place[0] == "observation":
            for pointer, text in trees.texts(slot.value):
                if unpacked(text) is not None:
                    yield slot, pointer, text


def _is_json(value: object) -> bool:
    """Whether it is a list or an object of what JSON can hold."""
    if not isinstance(value, (list, dict)):
        return False
    pending: list[object] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if not all(isinstance(name, str) for name in node):
                return False
            pending += node.values()
        elif isinstance(node, list):
            pending += node
        elif not isinstance(node, (str, int, float, bool, type(None))):
            return False
    return True
