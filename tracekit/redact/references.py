"""What the references of a schema mean in the document that the schema stands in.

The one idea: a reference is read in all that encloses it, and where it could mean several places it
means all of them. One too many costs a reader a text, one too few shows a secret.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from tracekit.jsontree import parts
from tracekit.redact.schemas import REFERRING, describes

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue

Slot = tuple[int, str | int]
"""A place in a document: the id of the object or list around it, and its key or number there."""
Name = tuple[str, str]
"""An address or anchor, and the pointer to a place in what is known by it."""

_NAMING = ("$id", "id", "$anchor", "$dynamicAnchor")
_LONGEST_INDEX = 20
"""No list has a number of more digits, and Python may refuse to read one."""


class Spot(NamedTuple):
    """A place in a document, and what stands there."""

    around: dict[str, Any] | list[Any] | None
    """None for the whole document."""
    key: str | int
    said: JsonValue

    @property
    def slot(self) -> Slot:
        return slot(self.around, self.key)


def slot(around: JsonValue, key: str | int) -> Slot:
    """Return where something stands."""
    return id(around), key


WHOLE = slot(None, "")


def referring(value: JsonValue) -> Iterator[dict[str, Any]]:
    """Yield each object in ``value`` that refers to something, itself first."""
    pending, seen = [value], set()
    while pending:
        said = pending.pop()
        if not isinstance(said, (dict, list)) or id(said) in seen:
            continue
        seen.add(id(said))
        if isinstance(said, dict) and not REFERRING.isdisjoint(said):
            yield said
        pending += said.values() if isinstance(said, dict) else said


def definitions(document: JsonValue, under: Iterable[tuple[JsonValue, bool]]) -> dict[Slot, bool]:
    """Return where stands what is referred to under the names of secrets.

    Args:
        document: All in which references may be read.
        under: What stands under such a name in it, and whether all of that is secret, schema or
            not; so is what it refers to.
    """
    sides = sorted(under, key=lambda one: not one[1])
    waiting = [(holder, whole) for said, whole in sides for holder in referring(said)]
    found: dict[Slot, bool] = {}
    if not waiting:
        return found
    references = References(document)
    told: set[Name] = set()
    for first, whole in waiting:
        pending = [first]
        while pending:
            for spot in references.of(pending.pop(), told):
                if spot.slot not in found:
                    found[spot.slot] = whole
                    pending += referring(spot.said)
    return found


class References:
    """The references of one document.

    Args:
        document: All in which they may be read; it is not changed as long as this is used.
    """

    def __init__(self, document: JsonValue) -> None:
        self._spots: dict[int, list[Spot]] = defaultdict(list)
        self._named: dict[str, list[Spot]] = defaultdict(list)
        pending = [Spot(None, "", document)]
        while pending:
            spot = pending.pop()
            said = spot.said
            if not isinstance(said, (dict, list)):
                continue
            known = id(said) in self._spots
            self._spots[id(said)].append(spot)
            if known:
                continue
            if isinstance(said, dict):
                for name in _NAMING:
                    if isinstance(text := said.get(name), str):
                        self._named[_last(text)].append(spot)
            items = said.items() if isinstance(said, dict) else enumerate(said)
            pending += [Spot(said, key, item) for key, item in items]

    def of(self, holder: dict[str, Any], told: set[Name] | None = None) -> Iterator[Spot]:
        """Yield what an object of the document refers to.

        Args:
            holder: The object.
            told: The names that were referred to before, to which this one's are added. What has
                one of them is not yielded again: it is the same, and may be everywhere.
        """
        told = set() if told is None else told
        for word in REFERRING:
            if isinstance(text := holder.get(word), str):
                base, _, fragment = text.partition("#")
                yield from self._around(holder, base, unquote(fragment))
                name = _name(base, unquote(fragment))
                if name is not None and name not in told:
                    told.add(name)
                    yield from _at_each(self._named.get(name[0], ()), name[1])

    def _around(self, holder: dict[str, Any], base: str, fragment: str) -> Iterator[Spot]:
        """Yield what is meant in all that encloses the object."""
        if fragment.startswith("/"):
            yield from _at_each(self._enclosing(holder), fragment)
        elif not (base or fragment):
            schemas = [one for one in self._enclosing(holder) if describes(one.said)]
            yield from schemas[-1:]

    def _enclosing(self, holder: dict[str, Any]) -> list[Spot]:
        """Return the object itself and what is around it, outwards."""
        found: dict[Slot, Spot] = {}
        pending = list(self._spots[id(holder)])
        while pending:
            spot = pending.pop(0)
            if spot.slot not in found:
                found[spot.slot] = spot
                pending += self._spots[id(spot.around)] if spot.around is not None else []
        return list(found.values())


def _last(name: str) -> str:
    """Return by what an address or anchor is known: its last part."""
    return name.rstrip("#/").rpartition("/")[2].rpartition("#")[2]


def _name(base: str, fragment: str) -> Name | None:
    """Return what is meant wherever the reference stands."""
    if fragment and not fragment.startswith("/"):
        return fragment, ""
    return (_last(base), fragment) if base else None


def _at_each(roots: Iterable[Spot], fragment: str) -> Iterator[Spot]:
    steps = parts(fragment)
    for root in roots:
        if (spot := _at(root, steps)) is not None:
            yield spot


def _at(root: Spot, steps: tuple[str, ...]) -> Spot | None:
    spot = root
    for step in steps:
        around = spot.said
        if isinstance(around, dict) and step in around:
            spot = Spot(around, step, around[step])
        elif isinstance(around, list) and (at := _index(step)) is not None and at < len(around):
            spot = Spot(around, at, around[at])
        else:
            return None
    return spot


def _index(step: str) -> int | None:
    return int(step) if step.isdecimal() and len(step) <= _LONGEST_INDEX else None
