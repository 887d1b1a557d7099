"""What it costs to change each of many steps to each of many others: the table's cells, worked out.

The one idea: only steps of one family can be changes of each other, and equal letters cost the
same, so the work is done once for each pair of letters of a family, in whole arrays, and for no
more rows at once than the caller asks for. The numbers are those of ``costs.change``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from replay.diff import costs
from replay.diff.arguments import Declared
from replay.diff.costs import ends_of, evidence_of, weight
from replay.diff.fields import argument_fields, outcomes_differ, skeleton_of
from replay.diff.steps import Step, policy_of

Cells = NDArray[np.int64]
_Family = tuple[bool, str]


class Prices:
    """The costs of changes between the steps of two rows, for as many rows at once as is asked."""

    def __init__(
        self, left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]
    ) -> None:
        self._left, self._right, self._rules = left, right, rules
        self._columns: dict[_Family, list[int]] = {}
        for at, step in enumerate(right):
            self._columns.setdefault(step.family, []).append(at)

    def fill(self, rows: range, columns: range, table: NDArray[np.int32]) -> None:
        """Write the costs of some rows into ``table``; cells of two families are left alone."""
        families: dict[_Family, list[int]] = {}
        for at in rows:
            families.setdefault(self._left[at].family, []).append(at)
        for family, ours in families.items():
            places = self._columns.get(family, [])
            theirs = places[bisect_left(places, columns.start) : bisect_left(places, columns.stop)]
            if theirs:
                one, mine = self._by_letter([self._left[at] for at in ours])
                two, other = self._by_letter([self._right[at] for at in theirs])
                block = self._block(one, two)
                cells = np.ix_(
                    [at - rows.start for at in ours], [at - columns.start for at in theirs]
                )
                table[cells] = block[np.ix_(mine, other)]

    def _by_letter(self, steps: Sequence[Step]) -> tuple[list[Step], list[int]]:
        """Give one step for each letter, and which of them each step is."""
        numbers: dict[str, int] = {}
        first: list[Step] = []
        for step in steps:
            if step.letter not in numbers:
                numbers[step.letter] = len(first)
                first.append(step)
        return first, [numbers[step.letter] for step in steps]

    def _block(self, ours: Sequence[Step], theirs: Sequence[Step]) -> Cells:
        """Work out what it costs to change each of ``ours`` to each of ``theirs``, one family."""
        unequal = _differ(*([step.arguments_text for step in steps] for steps in (ours, theirs)))
        parts = np.where(unequal, _argument_parts(ours, theirs), 0)
        self._forgive(ours, theirs, unequal, parts)
        for cost, facet in (
            (costs.POLICY, _policy),
            (costs.OBSERVED, _outcome),
            (costs.EVIDENCE, evidence_of),
        ):
            one, two = [facet(step) for step in ours], [facet(step) for step in theirs]
            if len({*one, *two}) > 1:
                differ = _differ(one, two)
                if cost == costs.OBSERVED:
                    _leave_unseen(ours, theirs, differ)
                parts += cost * differ
        block: Cells = parts * weight(ours[0]) // costs.UNIT
        return block

    def _forgive(
        self,
        ours: Sequence[Step],
        theirs: Sequence[Step],
        unequal: NDArray[np.bool_],
        parts: Cells,
    ) -> None:
        """Take out what the tool's matchers tolerate; asked only where all else is equal."""
        rule = self._rules.get(ours[0].name)
        if rule is None or not rule.has_leeway or ours[0].call is None:
            return
        mine, other = ([skeleton_of(step, rule) for step in steps] for steps in (ours, theirs))
        for row, column in zip(*np.nonzero(unequal & ~_differ(mine, other)), strict=True):
            if not argument_fields(ours[row], theirs[column], self._rules):
                parts[row, column] = 0


def _leave_unseen(ours: Sequence[Step], theirs: Sequence[Step], differ: NDArray[np.bool_]) -> None:
    """Take out what came back and was not kept; asked only where something was not."""
    one, two = (np.array([bool(step.unseen) for step in steps]) for steps in (ours, theirs))
    if one.any() or two.any():
        for row, column in zip(*np.nonzero(differ & (one[:, None] | two)), strict=True):
            differ[row, column] = outcomes_differ(ours[row], theirs[column])


def _argument_parts(ours: Sequence[Step], theirs: Sequence[Step]) -> Cells:
    mine, other = [step.leaves for step in ours], [step.leaves for step in theirs]
    common = _common_leaves(mine, other)
    union = (_sizes(mine) + 1)[:, None] + (_sizes(other) + 1)[None, :] - common
    share = 1 - common / union
    one, two = ([ends_of(step.arguments_text) for step in steps] for steps in (ours, theirs))
    apart = cdist(one, two, scorer=Levenshtein.distance, dtype=np.int32)
    lengths = _sizes(one)[:, None] + _sizes(two)[None, :] + apart
    unlike = 2 * apart / np.maximum(lengths, 1)
    parts: Cells = (
        costs.CHANGED + np.rint(costs.FIELDS * share) + np.rint(costs.TEXT * unlike)
    ).astype(np.int64)
    return parts


def _common_leaves(mine: Sequence[frozenset[str]], other: Sequence[frozenset[str]]) -> Cells:
    """Count the leaves that two steps share, their name among them, for all pairs at once."""
    common = np.ones((len(mine), len(other)), dtype=np.int64)
    holders: dict[str, list[int]] = {}
    for row, leaves in enumerate(mine):
        for leaf in leaves:
            holders.setdefault(leaf, []).append(row)
    theirs: dict[str, list[int]] = {}
    for column, leaves in enumerate(other):
        for leaf in leaves & holders.keys():
            theirs.setdefault(leaf, []).append(column)
    for leaf, columns in theirs.items():
        rows = holders[leaf]
        if len(rows) == 1:
            common[rows[0], columns] += 1
        else:
            common[np.ix_(rows, columns)] += 1
    return common


def _sizes(values: Sequence[frozenset[str]] | Sequence[str]) -> Cells:
    return np.array([len(value) for value in values], dtype=np.int64)


def _differ(mine: Sequence[Hashable], other: Sequence[Hashable]) -> NDArray[np.bool_]:
    numbers: dict[Hashable, int] = {}
    for value in (*mine, *other):
        numbers.setdefault(value, len(numbers))
    one = np.array([numbers[value] for value in mine])
    two = np.array([numbers[value] for value in other])
    found: NDArray[np.bool_] = one[:, None] != two[None, :]
    return found


def _policy(step: Step) -> Hashable:
    return None if step.call is None else policy_of(step.call)


def _outcome(step: Step) -> Hashable:
    return step.outcome_text
