"""Giving renamed arguments the names that the record has for them.

All are read before any is written, so that names may be swapped. Where two arguments would stand at
one recorded place, the call is no recorded one, and that is said instead of dropping one of them.
What held nothing but renamed arguments (an object that groups them now) goes with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.matching.values import ArgumentMap
from tracekit import jsontree
from tracekit.canonical import JsonValue, canonical_bytes
from tracekit.contract import Contract, Matchers
from tracekit.errors import PointerNotFound

Moves = Sequence[tuple[str, str]]
"""Pointers: where the argument is now, and where the record has it."""
_GONE: Any = object()
"""Stands where an argument was, so that the others of a list keep their places."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Arguments under their recorded names; as they were asked where that cannot be."""

    arguments: dict[str, JsonValue]
    changed: bool = False
    clash: str = ""
    """Why no recorded call is equal to this one."""


def moves_of(maps: Iterable[ArgumentMap], old_tool: str, new_tool: str) -> Moves:
    """Give the renames of arguments that are for calls of one tool as another."""
    return tuple(
        (rename.new_pointer, rename.old_pointer)
        for rename in maps
        if (rename.old_tool, rename.new_tool) == (old_tool, new_tool)
        and rename.new_pointer is not None
        and rename.old_pointer is not None
    )


def rename_arguments(
    asked: Mapping[str, JsonValue], moves: Moves, defaults: Mapping[str, JsonValue]
) -> Renamed:
    """Put each argument where the record has it; one that the call does not use is no matter.

    Args:
        asked: The arguments as they are now.
        moves: What was renamed.
        defaults: Of the parameters now. One that holds its default was not said, and gives way.
    """
    as_asked = dict(asked)
    taken = {new: _at(as_asked, new) for new, _ in moves}
    taken = {new: value for new, value in taken.items() if value is not _GONE}
    if not taken:
        return Renamed(as_asked)
    whole: JsonValue = as_asked
    for new in sorted(taken, key=_order):
        if _at(whole, new) is not _GONE:  # else it went with what it stood in
            whole = jsontree.replace(whole, new, _GONE)
    for old in sorted({old for new, old in moves if new in taken}, key=_order):
        here = [(new, taken[new]) for new, target in moves if target == old and new in taken]
        if (there := _at(whole, old)) is not _GONE:
            here.append((old, there))
        said = [one for one in here if not is_default(one[0][1:], one[1], defaults)] or here[:1]
        try:
            whole = jsontree.replace(whole, old, said[0][1])
        except PointerNotFound:
            return Renamed(as_asked, clash=_clash(old, [said[0][0]]))
        if len(said) > 1:
            return Renamed(as_asked, clash=_clash(old, [place for place, _ in said]))
    for new in sorted(taken, key=_order, reverse=True):
        if _is_gap(whole, new):
            whole = _closed(whole, new)
    assert isinstance(whole, dict)
    return Renamed(whole, changed=True)


def rename_places(types: Mapping[str, JsonValue], moves: Moves) -> Mapping[str, JsonValue]:
    """Put the marks of renamed arguments where the record has them."""
    if not moves or not types:
        return types
    return {renamed_place(place, moves): mark for place, mark in types.items()}


def rename_contract(now: Contract | None, then: Contract | None, moves: Moves) -> Contract | None:
    """Give what is declared now, of the arguments as they were then."""
    if now is None or then is None or not (moves or now.name != then.name):
        return now
    key, matchers = now.idempotency_field, now.matchers
    moved = Matchers(
        ignore=tuple(renamed_place(place, moves) for place in matchers.ignore),
        sets=tuple(renamed_place(place, moves) for place in matchers.sets),
        tolerances={renamed_place(at, moves): n for at, n in matchers.tolerances.items()},
        windows={renamed_place(at, moves): n for at, n in matchers.windows.items()},
    )
    changes = {
        "name": then.name,
        "parameters": then.parameters,
        "argument_schema": then.argument_schema,
        "idempotency_field": None if key is None else renamed_place(key, moves),
        "matchers": moved,
    }
    return now.model_copy(update=changes)


def is_default(name: str, value: JsonValue, defaults: Mapping[str, JsonValue]) -> bool:
    """Tell whether an argument holds the default of its parameter."""
    return name in defaults and canonical_bytes(defaults[name]) == canonical_bytes(value)


def _clash(old: str, places: Sequence[str]) -> str:
    """Say why the arguments at ``places`` cannot stand where the record has ``old``."""
    text = f"--map makes {places[0]} the recorded {old}, and the call has"
    if len(places) == 1:
        return f"{text} nothing that it could stand in"
    other = f"another {old}" if places[1] == old else f"{places[1]} for {old}"
    return f"{text} {other} as well: no recorded call is equal to both"


def renamed_place(place: str, moves: Moves) -> str:
    """Say where the record has what is at ``place`` now."""
    for new, old in moves:
        if place == new or place.startswith(f"{new}/"):
            return old + place[len(new) :]
    return place


def _at(whole: JsonValue, pointer: str) -> Any:
    try:
        return jsontree.get(whole, pointer)
    except PointerNotFound:
        return _GONE


def _is_gap(whole: JsonValue, pointer: str) -> bool:
    try:
        return jsontree.get(whole, pointer) is _GONE
    except PointerNotFound:
        return False


def _closed(whole: JsonValue, gap: str) -> JsonValue:
    """Take a gap out, and what it stood in where nothing else did."""
    whole = jsontree.remove(whole, gap)
    around = gap.rpartition("/")[0]
    while around and not jsontree.get(whole, around):
        whole = jsontree.remove(whole, around)
        around = around.rpartition("/")[0]
    return whole


def _order(pointer: str) -> tuple[tuple[int, str], ...]:
    """What stands in something after it, and the places of a list in their order."""
    return tuple((len(part), part) for part in jsontree.parts(pointer))
