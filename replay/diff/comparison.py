"""The result of a comparison, with its two outer forms: JSON and text.

The JSON form is public. Its ``format`` is ``tracekit-diff/1``; names are only ever added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from replay.diff.model import Action, Divergence, Outcome
from replay.diff.render import render
from tracekit.canonical import JsonValue

FORMAT = "tracekit-diff/1"


@dataclass(frozen=True)
class Comparison(Outcome):
    """Two runs, compared. Left is the expectation, usually the recorded run."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the comparison as JSON."""
        places = {id(found): at for at, found in enumerate(self.divergences)}
        return {
            "format": FORMAT,
            "same": self.same,
            "distance": self.distance,
            "left": {"name": self.left_name, "run_id": self.left_run},
            "right": {"name": self.right_name, "run_id": self.right_run},
            "counts": dict(self.counts),
            "matched_prefix": self.matched_prefix,
            "resynchronised_at": self.resynchronised_at,
            "first": None if self.first is None else _divergence(self.first),
            "first_call": None if self.first_call is None else _divergence(self.first_call),
            "divergences": [_divergence(found) for found in self.divergences],
            "aligned": [
                {
                    "mark": pair.mark,
                    "left": _action(pair.left),
                    "right": _action(pair.right),
                    "divergences": [places[id(found)] for found in pair.divergences],
                }
                for pair in self.aligned
            ],
            "context": [asdict(field) for field in self.context],
            "unknown": list(self.unknown),
        }

    def as_text(self, *, values: bool = False) -> str:
        """Write the comparison for a terminal; with ``values``, nothing is shortened."""
        return render(self, values=values)


def _divergence(found: Divergence) -> dict[str, JsonValue]:
    return {
        "kind": found.kind,
        "harm": int(found.harm),
        "harm_name": found.harm.name.lower(),
        "tool": found.tool,
        "effect": found.effect,
        "decision": found.decision,
        "left_decision": found.left_decision,
        "right_decision": found.right_decision,
        "left": _action(found.left),
        "right": _action(found.right),
        "fields": [asdict(field) for field in found.fields],
        "cause": found.cause,
        "because": found.because,
        "seen": _actions(found.seen),
        "seen_right": None if found.seen_right is None else _actions(found.seen_right),
        "explanation": found.explanation,
    }


def _actions(actions: Sequence[Action]) -> list[JsonValue]:
    return [_action(action) for action in actions]


def _action(action: Action | None) -> JsonValue:
    return None if action is None else asdict(action)
