"""A JSON value as subtrees that can be left out: members of objects, elements of lists.

Every cut gives a valid value. Elements that come after a cut move up, and the type marks that stand
beside the value move with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from tracekit import jsontree
from tracekit.canonical import JsonValue, json_text

Types = Mapping[str, JsonValue]


def nodes(value: JsonValue) -> Iterator[tuple[int, str, JsonValue]]:
    """Yield depth, pointer and value of each node but the root, the shallow ones first."""
    level: list[tuple[str, JsonValue]] = [("", value)]
    depth = 0
    while level:
        if depth:
            yield from ((depth, pointer, node) for pointer, node in level)
        level = [
            (f"{pointer}{jsontree.pointer([name])}", child)
            for pointer, node in level
            for name, child in _children(node)
        ]
        depth += 1


def depth_of(value: JsonValue) -> int:
    """How many levels lie beneath the root."""
    return max((depth for depth, _, _ in nodes(value)), default=0)


def texts(value: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield each text in the value with its pointer."""
    for pointer, leaf in jsontree.walk(value):
        if isinstance(leaf, str):
            yield pointer, leaf


def holds_one_of(value: JsonValue, needles: Sequence[str]) -> bool:
    """Whether one of the needles stands in the value."""
    if not needles:
        return False
    written = value if isinstance(value, str) else json_text(value)
    return any(needle in written for needle in needles)


def without(
    value: JsonValue, types: Types, pointers: Collection[str]
) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Leave out what is at ``pointers``, with the type marks that lie there."""
    by_parent: dict[str, set[str]] = defaultdict(set)
    for pointer in pointers:
        *above, name = jsontree.parts(pointer)
        by_parent[jsontree.pointer(above)].add(name)
    marks = dict(types)
    deepest_first = sorted(by_parent, key=lambda parent: -parent.count("/"))
    for parent in deepest_first:
        container = jsontree.get(value, parent)
        value = jsontree.replace(value, parent, _less(container, by_parent[parent]))
        marks = _moved(marks, parent, by_parent[parent], is_list=isinstance(container, list))
    return value, marks


def required_members(schema: Mapping[str, JsonValue] | None) -> frozenset[str]:
    """Pointers of the members that a schema requires; ``*`` stands for every element of a list."""
    found: set[str] = set()
    pending: list[tuple[str, object]] = [("", schema)]
    while pending:
        place, node = pending.pop()
        if not isinstance(node, Mapping):
            continue
        members = node.get("properties")
        required = node.get("required")
        if isinstance(required, list):
            found |= {f"{place}{jsontree.pointer([str(name)])}" for name in required}
        if isinstance(members, Mapping):
            pending += [
                (f"{place}{jsontree.pointer([name])}", child) for name, child in members.items()
            ]
        pending.append((f"{place}/*", node.get("items")))
    return frozenset(found)


def is_required(value: JsonValue, pointer: str, required: frozenset[str]) -> bool:
    """Whether a schema asks for what is at ``pointer``."""
    if not required:
        return False
    names: list[str] = []
    at = value
    for name in jsontree.parts(pointer):
        names.append("*" if isinstance(at, list) else name)
        at = jsontree.get(at, jsontree.pointer([name]))
    return jsontree.pointer(names) in required


def _children(node: JsonValue) -> Iterator[tuple[str | int, JsonValue]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list):
        yield from enumerate(node)


def _less(container: JsonValue, names: Collection[str]) -> JsonValue:
    if isinstance(container, list):
        return [child for at, child in enumerate(container) if str(at) not in names]
    assert isinstance(container, dict)
    return {name: child for name, child in container.items() if name not in names}


def _moved(
    marks: dict[str, JsonValue], parent: str, gone: Collection[str], *, is_list: bool
) -> dict[str, JsonValue]:
    moved: dict[str, JsonValue] = {}
    for pointer, mark in marks.items():
        if not pointer.startswith(parent + "/"):
            moved[pointer] = mark
            continue
        name, *below = jsontree.parts(pointer[len(parent) :])
        if name in gone:
            continue
        if is_list:
            name = str(int(name) - sum(int(other) < int(name) for other in gone))
        moved[parent + jsontree.pointer([name, *below])] = mark
    return moved
