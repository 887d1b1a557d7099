"""Two runs that did the same in the same places, but for few steps: there is nothing to look for.

Where both took their steps one for one in the same decisions, and of each tool one step at most is
another, those steps stand beside each other in every cheapest alignment, whatever the order that
the runs are put in. For suppose another one. What this run did otherwise is paired with some step
of its tool, that one's like with a third, and so on, until the chain ends

- at what the other run did otherwise: then the changes along it add up to no less than the one
  change, since each part of a change tells equal from unequal, and a chain that changes arguments
  twice costs the weight of the step;
- or at a step without counterpart on either side: both together cost more than the change.

So it is enough that the change costs no more than the weight of its step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.diff.align import Alignment
from replay.diff.arguments import Declared
from replay.diff.costs import change, weight
from replay.diff.steps import Step
from replay.diff.table import PAIR, Move


def aligned_in_place(
    left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]
) -> Alignment | None:
    """Align two runs as they stand, if it is proved that nothing is cheaper; else None."""
    if len(left) != len(right):
        return None
    changed: dict[tuple[bool, str], int] = {}
    for at, (one, two) in enumerate(zip(left, right, strict=True)):
        if one.decision != two.decision:
            return None
        if one.letter != two.letter:
            if one.family != two.family or one.family in changed:
                return None
            changed[one.family] = at
    if changed and (
        any(rule.has_leeway for rule in rules.values())
        or any(step.unseen for step in (*left, *right))
    ):
        return None  # a change may cost nothing there, so that others do not add up to it
    total = begin = 0
    parts: list[tuple[int, int, int, tuple[Move, ...]]] = []
    for at in changed.values():
        cost = change(left[at], right[at], rules)
        if not 0 < cost <= weight(left[at]):
            return None
        total += cost
        parts.append((begin, begin, at - begin, (PAIR,)))
        begin = at + 1
    parts.append((begin, begin, len(left) - begin, ()))
    return Alignment(total, tuple(parts), cells=len(changed), held=min(1, len(changed)))
