"""Which fields of two values differ, after what the tool's matchers tolerate.

Tolerances and time windows are no equivalence (0, 1 and 2 are one apart each), so they cannot be
taken out of a value beforehand as ignored fields are; they are applied to the list of differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from replay.diff.steps import Declared, Step
from tracekit.canonical import canonical_text
from tracekit.errors import PointerNotFound
from tracekit.jsontree import Difference, differences, replace
from tracekit.quantities import as_number, as_seconds


def argument_fields(
    left: Step, right: Step, rules: Mapping[str, Declared]
) -> tuple[Difference, ...]:
    """List the argument fields that differ and count."""
    if left.arguments_text == right.arguments_text:
        return ()
    found = differences(left.arguments, right.arguments)
    rule = rules.get(left.name)
    if rule is None or not rule.has_leeway:
        return found
    return tuple(field for field in found if not _tolerated(field, rule))


def skeleton_of(step: Step, rule: Declared) -> str:
    """Write the arguments without the places where something is tolerated.

    Where these texts differ, no tolerance makes the arguments equal.
    """
    value = step.arguments
    for place in (*rule.matchers.tolerances, *rule.matchers.windows):
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
