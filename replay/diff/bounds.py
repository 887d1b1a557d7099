"""How many steps can have no counterpart in a cheapest alignment, told without aligning.

The one idea: pairing the steps as they come is one alignment, so that a cheapest costs no more; and
what a step costs at least, whatever it is paired with, can be told from what the other side holds
at all. The difference pays for so many steps without counterpart, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.diff import costs
from replay.diff.arguments import Declared
from replay.diff.costs import APART, UNIT, change, weight
from replay.diff.steps import Step


def most_alone(
    left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]
) -> int | None:
    """Give the most steps without counterpart; None where that is no less than all of them."""
    ours, theirs = _least(left, right, rules), _least(right, left, rules)
    spare = 2 * _as_they_come(left, right, rules) - sum(ours) - sum(theirs)
    steps = zip((*left, *right), (*ours, *theirs), strict=True)
    alone = spare // min(2 * weight(step) - least for step, least in steps)
    return alone if alone < len(left) + len(right) else None


def _as_they_come(
    left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]
) -> int:
    """Give the cost of pairing the first with the first, and so on."""
    total = 0
    for one, two in zip(left, right, strict=False):
        apart = weight(one) + weight(two)
        cost = APART if one.family != two.family else change(one, two, rules)
        total += min(cost, apart)
    most = min(len(left), len(right))
    return total + sum(map(weight, left[most:])) + sum(map(weight, right[most:]))


def _least(
    steps: Sequence[Step], others: Sequence[Step], rules: Mapping[str, Declared]
) -> list[int]:
    """Give for each step what any pair that it is in costs at least."""
    texts = {step.arguments_text for step in others}
    outcomes = {step.outcome_text for step in others}
    leaves = frozenset[str]().union(*[step.leaves for step in others])
    fewest = min(len(step.leaves) for step in others)
    is_known = not any(step.unseen for step in (*steps, *others))
    found = []
    for step in steps:
        parts = 0
        rule = rules.get(step.name)
        if step.arguments_text not in texts and (rule is None or not rule.has_leeway):
            # Of leaves, the name among them, so many can be common, and so many there are.
            common = len(step.leaves & leaves) + 1
            union = max(len(step.leaves) + 1, len(step.leaves) + fewest + 2 - common)
            parts += costs.CHANGED + round(costs.FIELDS * (1 - common / union))
        if is_known and step.outcome_text not in outcomes:
            parts += costs.OBSERVED
        found.append(parts * weight(step) // UNIT)
    return found
