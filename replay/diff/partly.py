"""What two calls cannot be compared by, since it was not kept, and the classes of what was.

The one idea: of a place of which nothing is known, nothing can be said: it is no difference, and no
agreement either. Both places and classes are named by JSON Pointers into the values as they are
compared: what a matcher takes out of these does not count here either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracekit.canonical import JsonValue, class_names, described_places, digest
from tracekit.trajectory import Call, Observation

NOT_KEPT = "not kept"
"""What is known of a value that is gone."""
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Overlooked:
    """What does not count when calls of one tool are compared."""

    places: Sequence[str] = ()
    """What is taken out of the arguments."""
    sets: Sequence[str] = ()
    """Where order does not count, so that a place in it says nothing."""


def unknown_arguments(call: Call, overlooked: Overlooked) -> Mapping[str, str]:
    """Give the places of the arguments of which nothing is known, and what they are said to be."""
    state = call.argument_state
    if state in ("captured", "absent"):
        return _NOTHING
    if _is_gone(call.arguments, state):
        return {"": NOT_KEPT}
    found = described_places(call.arguments, state)
    return {
        _without_order(place, overlooked.sets): facts
        for place, facts in found.items()
        if not lies_within(place, overlooked.places)
    }


def classes_of(call: Call, overlooked: Overlooked) -> Mapping[str, str]:
    """Give the classes of the objects among the arguments, by place."""
    if not call.argument_types:
        return _NOTHING
    found: dict[str, list[str]] = {}
    for place, name in class_names(call.argument_types).items():
        if not lies_within(place, overlooked.places):
            found.setdefault(_without_order(place, overlooked.sets), []).append(name)
    return {place: " ".join(sorted(names)) for place, names in found.items()}


def unknown_result(observation: Observation) -> Mapping[str, str]:
    """Give the places of what came back of which nothing is known.

    An error is known by its class and its text, whatever became of the rest of it.
    """
    state = observation.state
    if state in ("captured", "absent"):
        return _NOTHING
    if _is_gone(observation.value, state):
        return {"": NOT_KEPT}
    if observation.is_error and (observation.error_type or observation.error_message):
        return _NOTHING
    prefix = "/value" if observation.is_error else ""
    found = described_places(observation.value, state)
    return {f"{prefix}{place}": facts for place, facts in found.items()}


def has_come_back(observation: Observation) -> bool:
    """Whether a call came back, with nothing perhaps; else the record has no end of it."""
    return observation.is_error or observation.state != "absent"


def is_whole(call: Call, cut: str) -> bool:
    """Whether the arguments are those of which only a cut, with its digest, was kept elsewhere."""
    return digest(call.arguments) == cut


def lies_within(pointer: str, places: Iterable[str]) -> bool:
    """Whether a place is one of ``places``, or within one."""
    return any(pointer == place or pointer.startswith(f"{place}/") for place in places)


def _without_order(pointer: str, sets: Sequence[str]) -> str:
    return next((place for place in sets if lies_within(pointer, (place,))), pointer)


def _is_gone(value: JsonValue, state: str) -> bool:
    """Whether no more than a digest is left."""
    return state == "reference" or (state == "truncated" and value is None)
