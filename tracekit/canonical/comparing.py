"""What two values have beside their JSON views when they are compared, and what no view can say.

The one idea: a view drops types, so that a tuple is a list and a refactored caller still matches;
but it must not drop what tells two values apart. Half a character of a file's name stands in the
type table, as does the class of an object: approving an order is not rejecting it. And of a value
that is only described nothing is known that could be compared at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from sys import float_info
from typing import Any

from pydantic import JsonValue

from tracekit.canonical.text import SAFE_INT, spell_integer

_DESCRIPTIONS = ("$unreplayable", "$truncated")
_MOST_DIGITS = 300
_ROOM = int(float_info.max) + 1
"""A float has room for numbers below it."""
_MOST_SIGNS = len(f"-{_ROOM}")
_CLASS_KINDS = frozenset(("enum", "dataclass", "attrs", "namedtuple", "pydantic", "exception"))


def as_compared(value: JsonValue, types: Mapping[str, JsonValue]) -> JsonValue:
    """Return the view with all in it whole that a view writes as another text.

    A text that is no UTF-8 becomes an escaped one. A number that JSON has no room for, or that was
    a decimal or a fraction, becomes the number that it equals, and where there is none, a number of
    its own: never a text, since ``"42"`` is not ``42``.
    """
    whole: dict[str, Callable[[str], JsonValue]] = {}
    for pointer, tag in types.items():
        if isinstance(tag, list) and tag[:1] == ["str"]:
            whole[pointer] = partial(_escaped, units=tag[1])
        elif isinstance(tag, str) and tag in _NUMBERS:
            whole[pointer] = _NUMBERS[tag]
    return _replaced(value, "", whole) if whole else value


def numbers_as_compared(value: JsonValue) -> JsonValue:
    """Return the value with its large integers as :func:`as_compared` gives recorded ones.

    Imported values have them as they are, and a canonical text would write them as texts: other
    than the floats that they equal, and like texts of the same digits.
    """
    return _spelt(value) if _holds_large(value) else value


def _holds_large(value: JsonValue) -> bool:
    """Whether there is an integer that not every reader keeps, asked of every value compared."""
    waiting: list[Iterable[JsonValue]] = [(value,)]
    while waiting:
        for part in waiting.pop():
            if isinstance(part, dict):
                waiting.append(part.values())
            elif isinstance(part, list):
                waiting.append(part)
            elif type(part) is int and not -SAFE_INT <= part <= SAFE_INT:
                return True
    return False


def _spelt(value: JsonValue) -> JsonValue:
    """Copy the value, which may be nested more deeply than the interpreter's stack."""
    whole = [value]
    waiting: list[Any] = [whole]
    while waiting:
        made = waiting.pop()
        for at, part in made.items() if isinstance(made, dict) else enumerate(made):
            if isinstance(part, dict | list):
                made[at] = part.copy()
                waiting.append(made[at])
            elif type(part) is int and not -SAFE_INT <= part <= SAFE_INT:
                made[at] = _int(spell_integer(part))
    return whole[0]


def _replaced(
    value: JsonValue, pointer: str, whole: Mapping[str, Callable[[str], JsonValue]]
) -> JsonValue:
    if isinstance(value, str) and pointer in whole:
        return whole[pointer](value)
    if isinstance(value, list):
        return [_replaced(item, f"{pointer}/{at}", whole) for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            name: _replaced(item, f"{pointer}/{_escape(name)}", whole)
            for name, item in value.items()
        }
    return value


def _escape(name: str) -> str:
    """Write a name as a part of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _escaped(value: str, *, units: Any) -> JsonValue:
    known = dict(units)
    chars = (
        f"\\u{known[place]:04x}" if place in known and char == "\ufffd" else char
        for place, char in enumerate(value)
    )
    return {"$str": "".join("\\\\" if char == "\\" else char for char in chars)}


def _int(text: str) -> JsonValue:
    number = int(text) if len(text) <= _MOST_SIGNS else None
    if number is not None and abs(number) < _ROOM and int(near := float(number)) == number:
        return near
    return {"$number": text}


def _decimal(text: str) -> JsonValue:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return {"$number": text}
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return {"$number": text}
    near = float(number)
    if (abs(number) < 2**53 and Decimal(repr(near)) == number) or Decimal(near) == number:
        return near
    return {"$number": str(number.normalize())}


def _fraction(text: str) -> JsonValue:
    if "/" not in text:
        return _int(text)
    if len(text) <= _MOST_SIGNS:
        number = Fraction(text)
        near = float(number)
        if number in (Fraction(repr(near)), Fraction(near)):
            return near
    return {"$number": text}


_NUMBERS: dict[str, Callable[[str], JsonValue]] = {
    "int": _int,
    "decimal": _decimal,
    "fraction": _fraction,
}


def described_parts(value: JsonValue, state: str) -> tuple[str, ...]:
    """Name the parts of a kept value that are only described: nothing is known to equal them.

    Args:
        value: The view.
        state: The state that it was kept in. A value that is whole may hold anything.
    """
    places = described_places(value, state)
    return tuple(sorted(map(name_part, places, places.values()))) if places else ()


def name_part(pointer: str, facts: str) -> str:
    """Name a part that is only described, and what is known of it."""
    place = pointer.replace("~1", "/").replace("~0", "~") or "the whole"
    return f"{place} ({facts})" if facts else place


def described_places(value: JsonValue, state: str) -> dict[str, str]:
    """Give the JSON Pointers of the parts that are only described, and what is known of each."""
    if state == "redacted":
        return {"": ""}
    if state != "truncated":
        return {}
    if cut_digest(value) is not None:  # all that was in it is known by that
        return {}
    found: dict[str, str] = {}
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        pointer, part = waiting.pop()
        if isinstance(part, list):
            waiting += [(f"{pointer}/{at}", item) for at, item in enumerate(part)]
        elif isinstance(part, dict):
            if len(part) == 1 and (facts := _description(part)) is not None:
                found[pointer] = facts
            else:
                waiting += [(f"{pointer}/{_escape(name)}", item) for name, item in part.items()]
    return found


def cut_digest(value: object) -> str | None:
    """Return the digest of the whole of which ``value`` is a cut; None where it is none."""
    if not isinstance(value, (dict, Mapping)) or value.keys() != {"$truncated"}:
        return None
    facts = value["$truncated"]
    known = facts.get("digest") if isinstance(facts, dict) else None
    return known if isinstance(known, str) else None


def _description(part: Mapping[str, JsonValue]) -> str | None:
    """What a description says: the class, or how large it was; None where it is none."""
    name, facts = next(iter(part.items()))
    if name not in _DESCRIPTIONS or not isinstance(facts, dict):
        return None
    if "bytes" in facts:
        return f"{facts['bytes']} bytes"
    return str(facts.get("type", "unknown")).rpartition(":")[2]


def class_differences(
    left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]
) -> tuple[str, ...]:
    """Name the places at which both values have an object, but not of one class.

    Classes are told apart by their own name: a module may be another one in the next version. One
    side may have plain data where the other has an object.
    """
    one, two = class_names(left), class_names(right)
    return tuple(
        f"{pointer or 'the whole'}: {one[pointer]}, {two[pointer]}"
        for pointer in sorted(one.keys() & two.keys())
        if one[pointer] != two[pointer]
    )


def class_names(types: Mapping[str, JsonValue]) -> dict[str, str]:
    """Give the class of every object of a value, by JSON Pointer, as two are compared."""
    names = ((pointer, _class_name(tag)) for pointer, tag in types.items())
    return {pointer: name for pointer, name in names if name is not None}


def _class_name(tag: JsonValue) -> str | None:
    if not isinstance(tag, list) or len(tag) < 2 or tag[0] not in _CLASS_KINDS:
        return None
    name, _, _ = str(tag[1]).rpartition(":")[2].partition("[")
    return name.rpartition(".")[2]
