"""Both runs in the normal form of their partial order, chosen so that they can be compared.

The smallest permitted order by any fixed ranking of the steps is a normal form (``order``). Ranked
by their own text, equivalent runs become the same row; of runs that are not equivalent one changed
letter may move a step far away. Where that may have happened, another ranking is made: the steps of
one run rank as they stand, and those of the other like the step they most resemble. The runs take
turns in leading; the cheapest alignment is kept. In which order permitted swaps were recorded never
changes the cost; it decides only between alignments that cost the same. Of small runs the best
orders are looked for together (``joint``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from replay.diff.align import Alignment, align
from replay.diff.arguments import Declared
from replay.diff.blocks import Prices
from replay.diff.costs import change
from replay.diff.joint import best_orders
from replay.diff.order import PartialOrder
from replay.diff.steps import Step

_ROUNDS = 3
"""How often the runs may take turns in leading; once where the table has very many cells."""
_MANY = 250_000
_SINGLE = 30
"""So few costs are worked out one by one."""
_SIMILAR = 40
"""Above so many leftover steps of one tool on a side, they are paired as they come."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Two runs as rows of step numbers, and the alignment between them."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    alignment: Alignment

    @property
    def pairs(self) -> list[tuple[int | None, int | None]]:
        """The alignment in step numbers."""
        return [
            (None if one is None else self.left[one], None if two is None else self.right[two])
            for one, two in self.alignment.pairs
        ]


def normal_row(order: PartialOrder) -> list[int]:
    """Put a run in its own normal form."""
    return order.linearise(
        [(0.0, f"{step.name} {step.letter}", step.index) for step in order.steps]
    )


def align_runs(
    left: PartialOrder,
    left_row: Sequence[int],
    right: PartialOrder,
    right_row: Sequence[int],
    rules: Mapping[str, Declared],
) -> Rows:
    """Align two runs, each already in its own normal form; the cheapest of several readings."""
    best = _aligned(left, left_row, right, right_row, rules)
    if _may_be_better(best, left.steps, right.steps):
        alike = _alike(best, left.steps, right.steps, rules)
        there, back = dict(alike), {two: one for one, two in alike}
        ours, theirs = left_row, right_row
        for turn in range(_ROUNDS if best.alignment.cells <= _MANY else 1):
            led = right.linearise(_ranks(ours, right_row, back, early=turn == 0))
            following = left.linearise(_ranks(theirs, left_row, there, early=turn == 0))
            readings = (
                best,
                _aligned(left, ours, right, led, rules),
                _aligned(left, following, right, theirs, rules),
            )
            cheapest = min(readings, key=lambda rows: rows.alignment.cost)
            if cheapest is best and ours is not left_row:
                break
            best, ours, theirs = cheapest, following, led
            if not _may_be_better(best, left.steps, right.steps):
                break
    few = len(left_row) * len(right_row) <= _SINGLE and best.alignment.cost
    if few or _may_be_better(best, left.steps, right.steps):
        best = _together(best, left, right, rules)
    return _as_recorded(best, left, right, rules)


def _together(
    best: Rows, left: PartialOrder, right: PartialOrder, rules: Mapping[str, Declared]
) -> Rows:
    """Look for the orders of both runs together, where there are not too many."""
    rows = best_orders(left, right, lambda: _costs(left.steps, right.steps, rules))
    if rows is None:
        return best
    found = _aligned(left, rows[0], right, rows[1], rules)
    return found if found.alignment.cost < best.alignment.cost else best


def _as_recorded(
    best: Rows, left: PartialOrder, right: PartialOrder, rules: Mapping[str, Declared]
) -> Rows:
    """Prefer the order in which the runs were recorded, where it is as cheap: people know it."""
    if best.alignment.cost == 0:
        return best
    rows = tuple(range(len(left.steps))), tuple(range(len(right.steps)))
    if (best.left, best.right) == rows:
        return best
    plain = _aligned(left, rows[0], right, rows[1], rules)
    return plain if plain.alignment.cost == best.alignment.cost else best


def _may_be_better(rows: Rows, left: Sequence[Step], right: Sequence[Step]) -> bool:
    """Whether more lines differ than would have to, or more that did something else."""
    return any(
        _excess(rows, [key(step) for step in left], [key(step) for step in right])
        for key in (attrgetter("letter"), attrgetter("action"))
    )


def _excess(rows: Rows, left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether more lines are unequal than there have to be, going by what steps have in common."""
    least = max(len(left), len(right)) - (Counter(left) & Counter(right)).total()
    unequal = sum(one is None or two is None or left[one] != right[two] for one, two in rows.pairs)
    return unequal > least


def _aligned(
    left: PartialOrder,
    left_row: Sequence[int],
    right: PartialOrder,
    right_row: Sequence[int],
    rules: Mapping[str, Declared],
) -> Rows:
    found = align(left.row.in_order(left_row), right.row.in_order(right_row), rules)
    return Rows(tuple(left_row), tuple(right_row), found)


def _ranks(
    leader: Sequence[int], follower: Sequence[int], alike: Mapping[int, int], *, early: bool
) -> list[tuple[float, str, int]]:
    """Rank the follower's steps by the leader's row.

    Those without a like come as ``early`` as they may, since others may wait for them and they for
    none, or else keep their neighbours.
    """
    place = {step: at for at, step in enumerate(leader)}
    ranks: list[tuple[float, str, int]] = [(0.0, "", 0)] * len(follower)
    last = -1.0
    for at, step in enumerate(follower):
        if step in alike:
            last = float(place[alike[step]])
            ranks[step] = (last, "", at)
        else:
            ranks[step] = (-1.0 if early else last + 0.5, "", at)
    return ranks


def _alike(
    rows: Rows,
    left: Sequence[Step],
    right: Sequence[Step],
    rules: Mapping[str, Declared],
) -> list[tuple[int, int]]:
    """Pair the steps that are most probably the same, whatever the order: (left, right)."""
    pairs = [
        (one, two)
        for one, two in rows.pairs
        if one is not None and two is not None and left[one].letter == right[two].letter
    ]
    done = {one for one, _ in pairs}, {two for _, two in pairs}
    waiting: dict[str, list[int]] = {}
    for two in reversed(rows.right):
        if two not in done[1]:
            waiting.setdefault(right[two].letter, []).append(two)
    ours: dict[tuple[bool, str], list[int]] = {}
    for one in rows.left:
        if one in done[0]:
            continue
        if found := waiting.get(left[one].letter):
            pairs.append((one, found.pop()))
        else:
            ours.setdefault(left[one].family, []).append(one)
    taken = {two for _, two in pairs}
    theirs: dict[tuple[bool, str], list[int]] = {}
    for two in rows.right:
        if two not in taken:
            theirs.setdefault(right[two].family, []).append(two)
    for name, some in ours.items():
        pairs += _most_alike(left, some, right, theirs.get(name, []), rules)
    return pairs


def _most_alike(
    left: Sequence[Step],
    ours: Sequence[int],
    right: Sequence[Step],
    theirs: Sequence[int],
    rules: Mapping[str, Declared],
) -> list[tuple[int, int]]:
    if max(len(ours), len(theirs)) > _SIMILAR:
        return list(zip(ours, theirs, strict=False))
    if not theirs:
        return []
    costs = _costs([left[one] for one in ours], [right[two] for two in theirs], rules)
    ranked = sorted(
        (cost, abs(i - k), i + k, i, one, two)
        for i, one in enumerate(ours)
        for k, (two, cost) in enumerate(zip(theirs, costs[i], strict=True))
    )
    pairs: list[tuple[int, int]] = []
    used: tuple[set[int], set[int]] = set(), set()
    for *_, one, two in ranked:
        if one not in used[0] and two not in used[1]:
            pairs.append((one, two))
            used[0].add(one)
            used[1].add(two)
    return pairs


def _costs(
    ours: Sequence[Step], theirs: Sequence[Step], rules: Mapping[str, Declared]
) -> list[list[int]]:
    if len(ours) * len(theirs) <= _SINGLE:
        return [[change(one, two, rules) for two in theirs] for one in ours]
    costs = np.zeros((len(ours), len(theirs)), dtype=np.int32)
    Prices(ours, theirs, rules).fill(range(len(ours)), range(len(theirs)), costs)
    found: list[list[int]] = costs.tolist()
    return found
