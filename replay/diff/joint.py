"""The orders of two small runs that suit each other best, looked for together, and exactly.

Which steps are done in either run is a state; a step of one of them, or a pair, leads to the next.
The cheapest way from nothing done to all done names an order of either run that it permits, and of
all such orders those that can be aligned at the lowest cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from replay.diff.costs import weight
from replay.diff.order import PartialOrder

Ways = Mapping[int, Sequence[int]]
"""A set of steps that are done, as bits → those that may be next."""
_LONGEST = 32
"""Longer runs are not looked at."""
_MOST = 32 * 32
"""So many states are; five steps in any order on either side have that many."""
_Move = tuple[int | None, int | None]


def best_orders(
    left: PartialOrder,
    right: PartialOrder,
    costs_of: Callable[[], Sequence[Sequence[int]]],
) -> tuple[list[int], list[int]] | None:
    """Find the orders of two runs that cost the least to align; None where there are too many.

    Args:
        left: One run.
        right: The other.
        costs_of: Works out what it costs to take each step of the other for each of the one.
    """
    length, width = len(left.steps), len(right.steps)
    if max(length, width) > _LONGEST or (length + 1) * (width + 1) > _MOST:
        return None
    ours = left.ways(_MOST // (width + 1))
    theirs = right.ways(_MOST // len(ours)) if ours else None
    if not ours or not theirs:
        return None
    if (len(ours), len(theirs)) == (length + 1, width + 1):
        return None  # neither has any other order
    weights = [weight(step) for step in left.steps], [weight(step) for step in right.steps]
    moves = _cheapest(ours, theirs, costs_of(), weights)
    rows: tuple[list[int], list[int]] = [], []
    done = (0, 0)
    while done in moves:
        one, two = moves[done]
        done = _after(done, one, two)
        for row, step in zip(rows, (one, two), strict=True):
            if step is not None:
                row.append(step)
    return rows


def _cheapest(
    ours: Ways,
    theirs: Ways,
    costs: Sequence[Sequence[int]],
    weights: tuple[Sequence[int], Sequence[int]],
) -> dict[tuple[int, int], _Move]:
    """Name the first move of the cheapest way on from each state, the last states first."""
    left: dict[tuple[int, int], int] = {}
    moves: dict[tuple[int, int], _Move] = {}
    columns = sorted(theirs, key=int.bit_count, reverse=True)
    for row in sorted(ours, key=int.bit_count, reverse=True):
        for column in columns:
            ways: list[tuple[int, _Move]] = []
            for one in ours[row]:
                then = row | 1 << one
                ways += [
                    (costs[one][two] + left[then, column | 1 << two], (one, two))
                    for two in theirs[column]
                ]
                ways.append((weights[0][one] + left[then, column], (one, None)))
            for two in theirs[column]:
                ways.append((weights[1][two] + left[row, column | 1 << two], (None, two)))
            if ways:
                left[row, column], moves[row, column] = min(ways, key=lambda way: way[0])
            else:
                left[row, column] = 0
    return moves


def _after(done: tuple[int, int], one: int | None, two: int | None) -> tuple[int, int]:
    return (
        done[0] | (0 if one is None else 1 << one),
        done[1] | (0 if two is None else 1 << two),
    )
