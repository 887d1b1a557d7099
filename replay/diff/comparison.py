"""The result of a comparison, with its two outer forms: JSON and text.

The JSON form is public. Its ``format`` is ``tracekit-diff/1``; names are only ever added. A step
stands in it several times, so of a large value it holds the beginning, the size and the digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.diff.model import Action, Divergence, Harm, Outcome
from replay.diff.render import render
from tracekit.canonical import JsonValue, canonical_bytes, digest_bytes
from tracekit.jsontree import Difference
from tracekit.limits import cut_mark

FORMAT = "tracekit-diff/1"
LARGEST = 65_536
"""Of a value that is longer as JSON, only the beginning stands in the JSON form."""
MOST_FIELDS = 200
"""Of one difference, so many fields stand in the JSON form; the rest is counted."""


@dataclass(frozen=True)
class Comparison(Outcome):
    """Two runs, compared. Left is the expectation, usually the recorded run."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the comparison as JSON."""
        places = {id(found): at for at, found in enumerate(self.divergences)}
        form = _Form()
        return {
            "format": FORMAT,
            "same": self.same,
            "distance": self.distance,
            "left": {"name": self.left_name, "run_id": self.left_run},
            "right": {"name": self.right_name, "run_id": self.right_run},
            "counts": dict(self.counts),
            "matched_prefix": self.matched_prefix,
            "resynchronised_at": self.resynchronised_at,
            "first": None if self.first is None else form.divergence(self.first),
            "first_call": None if self.first_call is None else form.divergence(self.first_call),
            "divergences": [form.divergence(found) for found in self.divergences],
            "aligned": [
                {
                    "mark": pair.mark,
                    "left": form.action(pair.left),
                    "right": form.action(pair.right),
                    "divergences": [places[id(found)] for found in pair.divergences],
                    "partly": pair.partly,
                }
                for pair in self.aligned
            ],
            "context": [form.field(field) for field in self.context],
            "unknown": list(self.unknown),
            "unknown_writes": list(self.unknown_of(Harm.WRITE)),
        }

    def as_text(self, *, values: bool = False) -> str:
        """Write the comparison for a terminal; with ``values``, nothing is shortened."""
        return render(self, values=values)


class _Form:
    """Writes the parts of one comparison; a value that stands in several is cut once."""

    def __init__(self) -> None:
        self._cut: dict[int, JsonValue] = {}

    def divergence(self, found: Divergence) -> dict[str, JsonValue]:
        return {
            "kind": found.kind,
            "harm": int(found.harm),
            "harm_name": found.harm.name.lower(),
            "on_write": found.is_write,
            "tool": found.tool,
            "effect": found.effect,
            "decision": found.decision,
            "left_decision": found.left_decision,
            "right_decision": found.right_decision,
            "left": self.action(found.left),
            "right": self.action(found.right),
            "fields": [self.field(field) for field in found.fields[:MOST_FIELDS]],
            "fields_left_out": max(0, len(found.fields) - MOST_FIELDS),
            "cause": found.cause,
            "because": found.because,
            "seen": self._actions(found.seen),
            "seen_right": None if found.seen_right is None else self._actions(found.seen_right),
            "explanation": found.explanation,
        }

    def action(self, action: Action | None) -> JsonValue:
        if action is None:
            return None
        return {
            "decision": action.decision,
            "tool": action.tool,
            "effect": action.effect,
            "arguments": self._value(action.arguments),
            "observation": self._value(action.observation),
            "is_error": action.is_error,
            "policy": action.policy,
            "policy_id": action.policy_id,
            "event_id": action.event_id,
        }

    def field(self, field: Difference) -> JsonValue:
        return {
            "pointer": field.pointer,
            "kind": field.kind,
            "left": self._value(field.left),
            "right": self._value(field.right),
        }

    def _actions(self, actions: Sequence[Action]) -> list[JsonValue]:
        return [self.action(action) for action in actions]

    def _value(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, str | dict | list):
            return value
        # what is compared lives as long as the comparison, so that no two values share an id
        if id(value) not in self._cut:
            self._cut[id(value)] = _bounded(value)
        return self._cut[id(value)]


def _bounded(value: JsonValue) -> JsonValue:
    """Cut what is too large; of an object first its members, so that its small ones are kept."""
    data = _large(value)
    if data is None:
        return value
    if isinstance(value, dict):
        members: dict[str, JsonValue] = {
            name: inner if (own := _large(inner)) is None else cut_mark(own, digest_bytes(own))
            for name, inner in value.items()
        }
        if _large(members) is None:
            return members
    return cut_mark(data, digest_bytes(data))


def _large(value: JsonValue) -> bytes | None:
    """Give the JSON of a value that is too large."""
    if isinstance(value, str) and len(value) * 6 < LARGEST:  # no sign takes more
        return None
    data = canonical_bytes(value)
    return data if len(data) > LARGEST else None
