"""Which fields of two values differ, after what the tool's matchers tolerate.

Tolerances and time windows are no equivalence (0, 1 and 2 are one apart each), so they cannot be
taken out of a value beforehand as ignored fields are; they are applied to the list of differences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace as with_parts
from typing import Literal

from replay.diff.arguments import Declared, came_back
from replay.diff.partly import has_come_back, is_whole, lies_within, unknown_result
from replay.diff.steps import Step
from tracekit.canonical import JsonValue, canonical_text, cut_digest
from tracekit.errors import PointerNotFound
from tracekit.jsontree import Difference, differences, replace
from tracekit.quantities import as_number, as_seconds
from tracekit.trajectory import Observation

_NUMBER = "/$number"
"""Where a number of its own stands in what is compared, and in no value as it was kept."""
_INTEGER = re.compile(r"-?[0-9]+")
_MOST_DIGITS = 400


def argument_fields(
    left: Step, right: Step, rules: Mapping[str, Declared]
) -> tuple[Difference, ...]:
    """List the argument fields that differ and count."""
    if left.arguments_text == right.arguments_text:
        return ()
    found = _differences(left.arguments, right.arguments)
    rule = rules.get(left.name)
    if rule is not None and rule.has_leeway:
        if rule.unknown and _is_cut_of(left, right):
            return ()
        found = tuple(field for field in found if not _tolerated(field, rule))
        found = _known(found, left.unknown, right.unknown)
    if left.classes and right.classes:
        found += _known(_of_other_classes(left, right), left.unknown, right.unknown)
    return found


def outcomes_differ(left: Step, right: Step) -> bool:
    """Whether what came back differs, as far as it is known."""
    if left.outcome_text == right.outcome_text:
        return False
    if not left.unseen and not right.unseen:
        return True
    return bool(outcome_fields(left, right))


def outcome_fields(left: Step, right: Step) -> tuple[Difference, ...]:
    """List where what came back differs, as far as it is known."""
    assert left.call is not None  # only calls have outcomes
    assert right.call is not None
    one, two = left.call.observation, right.call.observation
    here = has_come_back(one), has_come_back(two)
    if here[0] != here[1] and not (left.unseen or right.unseen):
        kind: Literal["added", "removed"] = "removed" if here[0] else "added"
        return (Difference("", kind, *(came_back(each) for each in (one, two))),)
    return result_fields(one, two)


def result_fields(one: Observation, two: Observation) -> tuple[Difference, ...]:
    """List where two values, each kept in its own way, differ as far as they are known."""
    found = _differences(came_back(one), came_back(two))
    if one.is_error != two.is_error:  # that much is known of any
        return found
    return _known(found, unknown_result(one), unknown_result(two))


def _differences(one: JsonValue, two: JsonValue) -> tuple[Difference, ...]:
    """List where two values differ as they are compared; a number that is no float is one leaf."""
    return tuple(
        with_parts(
            field,
            pointer=field.pointer.removesuffix(_NUMBER),
            left=_number(field.left, inside=field.pointer.endswith(_NUMBER)),
            right=_number(field.right, inside=field.pointer.endswith(_NUMBER)),
        )
        for field in differences(one, two)
    )


def _number(value: JsonValue, *, inside: bool) -> JsonValue:
    """Give the number that stands for itself among the values that are compared."""
    text = value if inside else None
    if isinstance(value, dict) and value.keys() == {"$number"}:
        text = value["$number"]
    if isinstance(text, str) and len(text) <= _MOST_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    return value


def _known(
    found: tuple[Difference, ...], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Leave out what lies where nothing is known; but that something is there, or not, is known."""
    places = [*ours, *theirs]
    if not places:
        return found
    return tuple(
        field
        for field in found
        if not lies_within(field.pointer, places)
        or (field.kind != "changed" and field.pointer in places)
    )


def _of_other_classes(left: Step, right: Step) -> tuple[Difference, ...]:
    return tuple(
        Difference(place, "changed", f"an object of {ours}", f"an object of {theirs}")
        for place, ours in sorted(left.classes.items())
        if (theirs := right.classes.get(place, ours)) != ours
    )


def _is_cut_of(left: Step, right: Step) -> bool:
    """Whether one side has the whole of what the other has only a cut of, by its digest."""
    one, two = cut_digest(left.arguments), cut_digest(right.arguments)
    for cut, whole in ((one, right.call), (two, left.call)):
        if cut is not None and None in (one, two) and whole is not None:
            return is_whole(whole, cut)
    return False


def skeleton_of(step: Step, rule: Declared) -> str:
    """Write the arguments without the places where something is tolerated or not known.

    Where these texts differ, no tolerance makes the arguments equal.
    """
    value = step.arguments
    for place in (*rule.matchers.tolerances, *rule.matchers.windows, *rule.unknown):
        with suppress(PointerNotFound):
            value = replace(value, place, None)
    return canonical_text(value)


def _tolerated(field: Difference, rule: Declared) -> bool:
    if field.kind != "changed":
        return False
    for place, allowed in rule.matchers.tolerances.items():
        if _at(field.pointer, place):
            return _near(as_number(field.left), as_number(field.right), allowed)
    for place, allowed in rule.matchers.windows.items():
        if _at(field.pointer, place):
            return _near(as_seconds(field.left), as_seconds(field.right), allowed)
    return False


def _at(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(place.rstrip("/") + "/")


def _near(one: float | None, two: float | None, allowed: float) -> bool:
    return one is not None and two is not None and abs(one - two) <= allowed
