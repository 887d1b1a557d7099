"""What each difference costs, and why.

Costs are whole numbers, in thousandths, so that sums are exact and the same in both directions.

=====================================  ==========================================================
a write without counterpart            4.0   it changed the world on one side only
a read or a user's turn without one    2.0   other information was asked for
a pure call, or speech to the user     1.0
speech beside calls without one        0.25  wording
other arguments, same tool             from 0.5 to 1.01 of the step's weight: half for being
                                       different at all, up to half by the share of leaf fields
                                       that differ, a hundredth by how unlike the texts are
a policy decided otherwise             0.4 of the weight
another observation                    0.2 of the weight
other evidence                         0.1 of the weight
other effect, same tool                0.05 of the weight
issued together or one after another   0.5 for each pair of calls that minds
another final answer                   1.0, another end of the run 1.0, another input 1.0
=====================================  ==========================================================

Every part is a metric (equality; Jaccard over leaves; normalised edit distance), a change is always
cheaper than leaving both steps without counterpart, and steps of different tools are never taken
for changes of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from replay.diff.fields import argument_fields
from replay.diff.steps import Declared, Step, policy_of

UNIT = 1000
APART = 10**9
"""Never chosen: dearer than any two steps without counterpart."""
REGROUPED = UNIT // 2
ANSWER = INPUT = STATUS = UNIT
_TEXT = 128
"""How much of two long argument texts is looked at to tell how unlike they are."""

Costs = NDArray[np.int64]


def weight(step: Step) -> int:
    """Give what the step costs where the other run has no counterpart."""
    if step.kind == "said":
        return UNIT // 4
    if step.kind == "told":
        return UNIT
    if step.kind == "turn":
        return 2 * UNIT
    if step.writes:
        return 4 * UNIT
    return 2 * UNIT if step.effect == "read" else UNIT


def change(left: Step, right: Step, rules: Mapping[str, Declared]) -> int:
    """Give what it costs to take ``right`` for a changed ``left``; 0 where nothing differs."""
    if left.kind != right.kind or left.name != right.name:
        return APART
    if left.letter == right.letter:
        return 0
    parts = 0
    if left.arguments_text != right.arguments_text and argument_fields(left, right, rules):
        common = len(left.leaves & right.leaves)
        share = 1 - common / (len(left.leaves) + len(right.leaves) - common)
        parts += 500 + round(500 * share) + round(10 * _unlike(left, right))
    if left.call is not None and right.call is not None:
        parts += 400 * (policy_of(left.call) != policy_of(right.call))
        parts += 200 * (left.outcome_text != right.outcome_text)
        parts += 100 * (sorted(left.call.evidence) != sorted(right.call.evidence))
        parts += 50 * (left.writes != right.writes)
    return parts * max(weight(left), weight(right)) // 1000


def _unlike(left: Step, right: Step) -> float:
    one, two = left.arguments_text[:_TEXT], right.arguments_text[:_TEXT]
    apart = Levenshtein.distance(one, two)
    total = len(one) + len(two) + apart
    return 2 * apart / total if total else 0.0


@dataclass(frozen=True)
class Table:
    """The costs between the steps of two rows, worked out once for each pair of letters."""

    remove: Costs
    add: Costs
    changes: Costs
    """One row a letter on the left, one column a letter on the right."""
    left: NDArray[np.intp]
    """The letter of each step on the left."""
    right: NDArray[np.intp]

    def row(self, at: int) -> Costs:
        """Give what it costs to take each step of the right for a changed ``at`` of the left."""
        costs: Costs = self.changes[self.left[at]][self.right]
        return costs


def table(left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]) -> Table:
    """Work out all costs between two rows of steps."""
    ours, our_letters = _letters(left)
    theirs, their_letters = _letters(right)
    changes = np.full((len(ours), len(theirs)), APART, dtype=np.int64)
    by_name: dict[tuple[str, str], list[int]] = {}
    for column, step in enumerate(theirs):
        by_name.setdefault((step.kind, step.name), []).append(column)
    for row, step in enumerate(ours):
        for column in by_name.get((step.kind, step.name), ()):
            changes[row, column] = change(step, theirs[column], rules)
    return Table(
        remove=np.array([weight(step) for step in left], dtype=np.int64),
        add=np.array([weight(step) for step in right], dtype=np.int64),
        changes=changes,
        left=our_letters,
        right=their_letters,
    )


def _letters(steps: Sequence[Step]) -> tuple[list[Step], NDArray[np.intp]]:
    """Number the letters of a row, and give one step for each."""
    numbers: dict[str, int] = {}
    first: list[Step] = []
    for step in steps:
        if step.letter not in numbers:
            numbers[step.letter] = len(first)
            first.append(step)
    return first, np.array([numbers[step.letter] for step in steps], dtype=np.intp)
