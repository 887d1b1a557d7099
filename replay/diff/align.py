"""The cheapest alignment of two rows of steps.

Exact dynamic programming, never cut. Common ends are stripped first, which cannot make it dearer:
equal steps cost nothing together and changes obey the triangle inequality. One row of the table is
three vector operations, since the cheapest way to reach a cell from the left is a running minimum.
The table is filled from the end, so that of several cheapest alignments the one that pairs steps
earliest is read off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.diff.costs import Table, table
from replay.diff.steps import Declared, Step

_PAIR, _REMOVE = 1, 2


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which step stands beside which; None where there is no counterpart."""

    cost: int
    """In thousandths."""
    pairs: tuple[tuple[int | None, int | None], ...]
    """Positions in the two rows, in an order that both rows agree with."""
    cells: int = 0
    """How many cells of the table were filled."""


def align(left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]) -> Alignment:
    """Align two rows at the lowest cost."""
    head = 0
    shorter = min(len(left), len(right))
    while head < shorter and left[head].letter == right[head].letter:
        head += 1
    tail = 0
    while tail < shorter - head and left[-1 - tail].letter == right[-1 - tail].letter:
        tail += 1
    ours, theirs = left[head : len(left) - tail], right[head : len(right) - tail]
    costs = table(ours, theirs, rules)
    cost, middle = _fill(costs, len(ours), len(theirs))
    pairs: list[tuple[int | None, int | None]] = [(at, at) for at in range(head)]
    for one, two in middle:
        pairs.append((None if one is None else one + head, None if two is None else two + head))
    pairs += [(len(left) - back, len(right) - back) for back in range(tail, 0, -1)]
    return Alignment(cost, tuple(pairs), cells=len(ours) * len(theirs))


def _fill(costs: Table, rows: int, columns: int) -> tuple[int, list[tuple[int | None, int | None]]]:
    """Fill the table from its end; return the lowest cost and the way through."""
    # adding[j]: the cost of all that the right has from j on
    adding = np.concatenate([np.cumsum(costs.add[::-1])[::-1], [0]]).astype(np.int64)
    below = adding.copy()
    moves: NDArray[np.uint8] = np.zeros((rows, columns), dtype=np.uint8)
    for at in range(rows - 1, -1, -1):
        removed = below + costs.remove[at]
        paired = below[1:] + costs.row(at)
        best = removed.copy()
        np.minimum(best[:-1], paired, out=best[:-1])
        # reach cell j by adding j..k-1 first: adding[j] - adding[k] + best[k], for the best k >= j
        here = adding + np.minimum.accumulate((best - adding)[::-1])[::-1]
        moves[at] = np.where(
            here[:-1] == paired, _PAIR, np.where(here[:-1] == removed[:-1], _REMOVE, 0)
        )
        below = here
    return int(below[0]), _read(moves, rows, columns)


def _read(moves: NDArray[np.uint8], rows: int, columns: int) -> list[tuple[int | None, int | None]]:
    way: list[tuple[int | None, int | None]] = []
    row = column = 0
    while row < rows and column < columns:
        move = moves[row, column]
        if move == _PAIR:
            way.append((row, column))
            row, column = row + 1, column + 1
        elif move == _REMOVE:
            way.append((row, None))
            row += 1
        else:
            way.append((None, column))
            column += 1
    way += [(at, None) for at in range(row, rows)]
    way += [(None, at) for at in range(column, columns)]
    return way
