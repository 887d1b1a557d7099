"""Planners that stand in for real ones: two that a case must not pass, and one that shows it can.

``follows`` does what the case's script says and nothing else; given the script without the
offending call it proves that the case can turn green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

DOES_NOTHING = "replay.distill.stand_ins:does_nothing"
STOPS_EARLY = "replay.distill.stand_ins:stops_early"
FOLLOWS = "replay.distill.stand_ins:follows"


def does_nothing(history: Sequence[Json], tools: Sequence[Json]) -> None:
    """Stop at once."""


def stops_early(
    history: Sequence[Json], tools: Sequence[Json], script: Sequence[Json]
) -> dict[str, Any] | None:
    """Make the first call of the script, and stop."""
    if _made(history):
        return None
    for decision in script:
        if decision["calls"]:
            return {"calls": list(decision["calls"])[:1]}
    return None


def follows(
    history: Sequence[Json], tools: Sequence[Json], script: Sequence[Json]
) -> dict[str, Any] | None:
    """Do what the script says, decision by decision."""
    at = _made(history)
    if at >= len(script):
        return None
    decision = script[at]
    if decision["calls"]:
        return {"calls": list(decision["calls"]), "message": decision["message"]}
    if at + 1 < len(script):
        return {"calls": [], "message": decision["message"]}
    return {"answer": decision["message"]}


def _made(history: Sequence[Json]) -> int:
    return sum(message.get("role") == "assistant" for message in history)
