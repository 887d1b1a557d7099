"""What each difference costs, and why.

Costs are whole numbers, in thousandths, so that sums are exact and the same in both directions.

=====================================  ==========================================================
a write without counterpart            4.0   it changed the world on one side only
a read or a user's turn without one    2.0   other information was asked for
a pure call without one                1.0   nothing was asked for and nothing changed
something said without one             0.5   wording
other arguments, same tool             from 0.5 to 1.01 of the step's weight: half for being
                                       different at all, up to half by the share of leaf fields
                                       that differ, a hundredth by how unlike the texts are
a policy decided otherwise             0.4 of the weight
another observation                    0.2 of the weight
other evidence                         0.1 of the weight
issued together or one after another   0.5 for each pair of calls that minds, where no step differs
another final answer                   1.0, another end of the run 1.0, another input 1.0
=====================================  ==========================================================

Every part is a metric (equality; Jaccard over leaves; normalised edit distance). A change is always
cheaper than leaving both steps without counterpart, and steps of different tools are never taken
for changes of each other. A tool whose effect the two sides declare differently has the worse one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

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
    if step.kind in ("said", "told"):
        return UNIT // 2
    if step.kind == "turn":
        return 2 * UNIT
    if step.writes:
        return 4 * UNIT
    return 2 * UNIT if step.effect == "read" else UNIT


def change(left: Step, right: Step, rules: Mapping[str, Declared]) -> int:
    """Give what it costs to take ``right`` for a changed ``left``; 0 where nothing differs."""
    if left.family != right.family:
        return APART
    return int(_block([left], [right], rules)[0, 0])


def _block(ours: Sequence[Step], theirs: Sequence[Step], rules: Mapping[str, Declared]) -> Costs:
    """Work out what it costs to change each of ``ours`` to each of ``theirs``; all of one name."""
    texts = _texts(ours), _texts(theirs)
    unequal = _differ(*texts)
    parts = np.where(unequal, _argument_parts(ours, theirs, *texts), 0)
    rule = rules.get(ours[0].name)
    if rule is not None and rule.has_leeway:
        for row, column in zip(*np.nonzero(unequal), strict=True):
            if not argument_fields(ours[row], theirs[column], rules):
                parts[row, column] = 0
    for cost, facet in ((400, _policy), (200, _outcome), (100, _evidence)):
        parts += cost * _differ([facet(step) for step in ours], [facet(step) for step in theirs])
    costs: Costs = parts * weight(ours[0]) // UNIT
    return costs


def _argument_parts(
    ours: Sequence[Step], theirs: Sequence[Step], mine: Sequence[str], other: Sequence[str]
) -> Costs:
    numbers: dict[str, int] = {}
    for step in (*ours, *theirs):
        for leaf in step.leaves:
            numbers.setdefault(leaf, len(numbers))
    common = _common_leaves(ours, theirs, numbers)
    sizes = _sizes([step.leaves for step in ours]), _sizes([step.leaves for step in theirs])
    share = 1 - common / (sizes[0][:, None] + sizes[1][None, :] - common)
    mine, other = [text[:_TEXT] for text in mine], [text[:_TEXT] for text in other]
    apart = cdist(mine, other, scorer=Levenshtein.distance, dtype=np.int32)
    lengths = _sizes(mine)[:, None] + _sizes(other)[None, :] + apart
    unlike = 2 * apart / np.maximum(lengths, 1)
    parts: Costs = (500 + np.rint(500 * share) + np.rint(10 * unlike)).astype(np.int64)
    return parts


def _common_leaves(
    ours: Sequence[Step], theirs: Sequence[Step], numbers: Mapping[str, int]
) -> Costs:
    """Count the leaves that two steps share, for all pairs: a product of two sparse tables."""
    common = np.zeros((len(ours), len(theirs)), dtype=np.int64)
    holders: list[list[int]] = [[] for _ in numbers]
    for column, step in enumerate(theirs):
        for leaf in step.leaves:
            holders[numbers[leaf]].append(column)
    places = [np.array(columns, dtype=np.intp) for columns in holders]
    for row, step in enumerate(ours):
        for leaf in step.leaves:
            common[row, places[numbers[leaf]]] += 1
    return common


def _sizes(values: Sequence[Sized]) -> Costs:
    return np.array([len(value) for value in values], dtype=np.int64)


def _differ(mine: Sequence[Hashable], other: Sequence[Hashable]) -> NDArray[np.bool_]:
    numbers: dict[Hashable, int] = {}
    for value in (*mine, *other):
        numbers.setdefault(value, len(numbers))
    one = np.array([numbers[value] for value in mine])
    two = np.array([numbers[value] for value in other])
    found: NDArray[np.bool_] = one[:, None] != two[None, :]
    return found


def _texts(steps: Sequence[Step]) -> list[str]:
    return [step.arguments_text for step in steps]


def _policy(step: Step) -> Hashable:
    return None if step.call is None else policy_of(step.call)


def _outcome(step: Step) -> Hashable:
    return step.outcome_text


def _evidence(step: Step) -> Hashable:
    return None if step.call is None else tuple(sorted(step.call.evidence))


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
    rows, columns = _by_name(ours), _by_name(theirs)
    for name in rows.keys() & columns.keys():
        block = _block(
            [ours[row] for row in rows[name]], [theirs[column] for column in columns[name]], rules
        )
        changes[np.ix_(rows[name], columns[name])] = block
    return Table(
        remove=np.array([weight(step) for step in left], dtype=np.int64),
        add=np.array([weight(step) for step in right], dtype=np.int64),
        changes=changes,
        left=our_letters,
        right=their_letters,
    )


def _by_name(steps: Sequence[Step]) -> dict[tuple[bool, str], list[int]]:
    found: dict[tuple[bool, str], list[int]] = {}
    for at, step in enumerate(steps):
        found.setdefault(step.family, []).append(at)
    return found


def _letters(steps: Sequence[Step]) -> tuple[list[Step], NDArray[np.intp]]:
    """Number the letters of a row, and give one step for each."""
    numbers: dict[str, int] = {}
    first: list[Step] = []
    for step in steps:
        if step.letter not in numbers:
            numbers[step.letter] = len(first)
            first.append(step)
    return first, np.array([numbers[step.letter] for step in steps], dtype=np.intp)
