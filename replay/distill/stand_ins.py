"""A planner that stands in for real ones, to see what a case proves.

It does what the case's script says and nothing else. Given no script it is the planner that does
nothing, given one call the one that stops early: a case must not pass them. Given what the failing
planner did without what is at fault, it shows that the case can turn green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def follows(
    history: Sequence[Json], tools: Sequence[Json], script: Sequence[Json]
) -> dict[str, Any] | None:
    """Do what the script says, decision by decision."""
    at = sum(message.get("role") == "assistant" for message in history)
    if at >= len(script):
        return None
    decision = script[at]
    if decision["calls"]:
        return {"calls": list(decision["calls"]), "message": decision["message"]}
    if at + 1 < len(script):
        return {"calls": [], "message": decision["message"]}
    return {"answer": decision["message"]}
