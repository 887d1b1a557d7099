"""How bad a difference can be, by what was done and whether it happened.

The one idea: what counts is the world. A write that changed, came, went, moved, or went through on
one side only is on a write, whatever else differs before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.diff.match import Match
from replay.diff.model import Harm
from replay.diff.order import PartialOrder
from replay.diff.steps import Step, policy_of


def refusal_of(step: Step) -> str | None:
    """Name what a policy decided about a call, where it did not just let it through."""
    return None if step.call is None else policy_of(step.call)


def presence_harm(step: Step) -> Harm:
    """Rank a step that one run has and the other not."""
    match step.kind:
        case "said" | "told":
            return Harm.WORDING
        case "turn":
            return Harm.RESULT
        case "call":
            if not step.writes:
                return Harm.READ
            return Harm.REFUSAL if refusal_of(step) == "deny" else Harm.WRITE


def change_harm(one: Step, two: Step) -> Harm:
    """Rank a call that was made with other arguments."""
    if not (one.writes or two.writes):
        return Harm.CHANGED_READ
    return Harm.REFUSAL if refusal_of(one) == refusal_of(two) == "deny" else Harm.WRITE


def outcome_harm(one: Step, two: Step) -> Harm:
    """Rank a call that came back with something else: a write may have gone through here only."""
    if one.call is None or two.call is None or not (one.wrote and two.wrote):
        return Harm.RESULT
    failed = one.call.observation.is_error, two.call.observation.is_error
    return Harm.RESULT if failed[0] == failed[1] else Harm.WRITE


def order_harm(one: Step, two: Step, passed: Passed) -> Harm:
    """Rank a step that moved: a write, or past a write that it could see."""
    if one.kind == "said":
        return Harm.WORDING
    if one.writes or two.writes:
        refused = refusal_of(one) == refusal_of(two) == "deny"
        return Harm.REFUSAL if refused else Harm.WRITE
    return Harm.WRITE if passed.by(one, two) else Harm.ORDER


class Passed:
    """The writes that both runs made, to see whether a read that moved passed one."""

    def __init__(self, matches: Sequence[Match], left: PartialOrder, right: PartialOrder) -> None:
        self._orders = left, right
        self._writes = [
            (left.steps[match.left], right.steps[match.right])
            for match in matches
            if match.left is not None and match.right is not None
            if left.steps[match.left].wrote or right.steps[match.right].wrote
        ]

    def by(self, one: Step, two: Step) -> bool:
        """Whether a call, on either side, stands on the other side of a write that minds it."""
        return any(
            (one.decision - here.decision) * (two.decision - there.decision) < 0
            and (
                self._orders[0].conflict(one.index, here.index)
                or self._orders[1].conflict(two.index, there.index)
            )
            for here, there in self._writes
        )
