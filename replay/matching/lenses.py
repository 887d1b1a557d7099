"""Lenses: ways of looking at arguments under which two calls count as the same.

Each lens gives a key, so that a question is a look-up. What a key cannot say (a number within a
tolerance) is asked of the few calls that share the key. A write is only ever seen through a lens
that leaves out nothing but its declared idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tracekit import jsontree
from tracekit.canonical import JsonValue, canonical_text, digest
from tracekit.contract import Contract, Matchers
from tracekit.errors import PointerNotFound
from tracekit.quantities import as_number, as_seconds


class View(Protocol):
    """What a look-up needs of a way of looking at arguments."""

    @property
    def name(self) -> str:
        """Tells views apart: two with one name see the same."""

    @property
    def by_key_alone(self) -> bool:
        """Whether equal keys are enough."""

    def key(self, arguments: JsonValue) -> str:
        """Digest of what this view sees exactly."""

    def agrees(self, recorded: JsonValue, asked: JsonValue) -> bool:
        """Tell whether what the key leaves out is close enough."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A way of looking at arguments that leaves out what was declared.

    ``name`` tells lenses apart: two with one name see the same.
    """

    name: str
    ignore: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    tolerances: Mapping[str, float] = field(default_factory=dict)
    windows: Mapping[str, float] = field(default_factory=dict)

    def key(self, arguments: JsonValue) -> str:
        """Digest of what this lens sees exactly."""
        seen = arguments
        for pointer in (*self.ignore, *self.tolerances, *self.windows):
            seen = _blanked(seen, pointer)
        for pointer in self.sets:
            seen = _sorted(seen, pointer)
        return digest(seen)

    @property
    def by_key_alone(self) -> bool:
        """Whether equal keys are enough."""
        return not self.tolerances and not self.windows

    def agrees(self, recorded: JsonValue, asked: JsonValue) -> bool:
        """Tell whether what the key leaves out is close enough."""
        return _all_within(recorded, asked, self.tolerances, as_number) and _all_within(
            recorded, asked, self.windows, as_seconds
        )


EXACT = Lens("exact")


def idempotency_lens(contract: Contract | None) -> Lens | None:
    """Return the lens that leaves out the caller's idempotency key; None where none is declared."""
    if contract is None or contract.idempotency_field is None:
        return None
    return Lens(f"idempotency {contract.idempotency_field}", ignore=(contract.idempotency_field,))


def matcher_lens(
    contracts: Iterable[Contract | None],
    ignore: tuple[str, ...],
    windows: Mapping[str, float],
) -> Lens | None:
    """Return the lens of a read: what its contracts and the user declare; None without any."""
    known = [contract for contract in contracts if contract is not None]
    declared: list[Matchers] = [contract.matchers for contract in known]
    keys = [c.idempotency_field for c in known if c.idempotency_field is not None]
    ignored = _unique([*keys, *ignore, *(p for m in declared for p in m.ignore)])
    sets = _unique(p for m in declared for p in m.sets)
    tolerances = _widest(m.tolerances for m in declared)
    widest = _widest([*(m.windows for m in declared), windows])
    if not (ignored or sets or tolerances or widest):
        return None
    name: list[JsonValue] = [list(ignored), list(sets), dict(tolerances), dict(widest)]
    return Lens(f"matchers {canonical_text(name)}", ignored, sets, tolerances, widest)


def _unique(pointers: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(pointers)))


def _widest(tables: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for table in tables:
        for pointer, width in table.items():
            found[pointer] = max(width, found.get(pointer, width))
    return found


def _blanked(value: JsonValue, pointer: str) -> JsonValue:
    """Take the value at ``pointer`` out; a missing one and any other are then the same."""
    try:
        return jsontree.remove(value, pointer)
    except PointerNotFound:
        return value


def _sorted(value: JsonValue, pointer: str) -> JsonValue:
    try:
        items = jsontree.get(value, pointer)
    except PointerNotFound:
        return value
    if not isinstance(items, list):
        return value
    return jsontree.replace(value, pointer, sorted(items, key=canonical_text))


def _all_within(
    recorded: JsonValue,
    asked: JsonValue,
    widths: Mapping[str, float],
    read: Callable[[JsonValue], float | None],
) -> bool:
    for pointer, width in widths.items():
        old, new = _at(recorded, pointer), _at(asked, pointer)
        if old is _NOTHING or new is _NOTHING:
            if old is not new:
                return False
            continue
        if canonical_text(old) == canonical_text(new):  # type: ignore[arg-type]  # _NOTHING is ruled out
            continue
        left, right = read(old), read(new)  # type: ignore[arg-type]  # _NOTHING is ruled out
        # `not <=` and no `>`: a NaN is within nothing.
        if left is None or right is None or not abs(left - right) <= width:
            return False
    return True


_NOTHING = object()


def _at(value: JsonValue, pointer: str) -> object:
    try:
        return jsontree.get(value, pointer)
    except PointerNotFound:
        return _NOTHING
