"""The table of an alignment: exact dynamic programming over two stretches of two rows.

The table is filled from the end, so that of several cheapest alignments the one that pairs steps
earliest is read off. One line of it is four operations on whole arrays, since the cheapest way to
reach a cell by steps of the right alone is a running minimum. Two things keep it small. Cells that
no alignment as cheap as one already known can pass are not filled: so many steps without
counterpart as it takes to get there and back cost too much (Ukkonen's band). And of a table larger
than ``KEPT`` cells only some lines are kept; the others are worked out again, a block at a time,
where the way leads through them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from replay.diff.arguments import Declared
from replay.diff.blocks import Prices
from replay.diff.bounds import most_alone
from replay.diff.costs import change, weight
from replay.diff.steps import Step

Move = int
_Line = NDArray[np.signedinteger]
PAIR, REMOVE, ADD = 1, 2, 0
KEPT = 6_000_000
"""So many cells at most are kept at once, lines between blocks aside."""
BLOCK = 1_000_000
_INFINITE = 2**29
_LONGEST = 50_000
"""Rows that together are longer need costs of 64 bits."""
SMALL = 600
"""Tables of so few cells are filled one cell at a time."""
LARGE = 40_000
"""Of tables of more cells it is worked out first which of them need not be filled."""


@dataclass(slots=True)
class Solved:
    """The cheapest way through a stretch."""

    cost: int
    moves: list[Move]
    cells: int
    held: int = 0
    """The largest number of cells that were in memory at once."""


def solve(
    left: Sequence[Step],
    right: Sequence[Step],
    rules: Mapping[str, Declared],
    *,
    alone: int | None = None,
) -> Solved:
    """Align two stretches, of which neither is empty, at the lowest cost.

    ``alone`` says how many steps without counterpart there can be at most, where that is known;
    cells that only alignments with more of them pass are left out.
    """
    if len(left) * len(right) <= SMALL:
        return _by_cell(left, right, rules)
    if len(left) * len(right) > LARGE:
        alone = min(
            (most for most in (alone, most_alone(left, right, rules)) if most is not None),
            default=None,
        )
    return Table(left, right, rules, alone=alone).solved()


def _by_cell(left: Sequence[Step], right: Sequence[Step], rules: Mapping[str, Declared]) -> Solved:
    """Fill a small table; the same cells, without the preparations that arrays need."""
    adds = [weight(step) for step in right]
    below = [0] * (len(right) + 1)
    for at in range(len(right) - 1, -1, -1):
        below[at] = below[at + 1] + adds[at]
    table: list[list[Move]] = []
    for one in reversed(left):
        removes = weight(one)
        here = [0] * len(below)
        here[-1] = below[-1] + removes
        moves = [REMOVE] * len(right)
        for at in range(len(right) - 1, -1, -1):
            two = right[at]
            best, move = here[at + 1] + adds[at], ADD
            if (removed := below[at] + removes) <= best:
                best, move = removed, REMOVE
            if one.name == two.name:
                paired = below[at + 1]
                if one.letter != two.letter:
                    paired += change(one, two, rules)
                if paired <= best:
                    best, move = paired, PAIR
            here[at], moves[at] = best, move
        table.append(moves)
        below = here
    table.reverse()
    way: list[Move] = []
    row = column = 0
    while row < len(left) and column < len(right):
        move = table[row][column]
        way.append(move)
        row += move != ADD
        column += move != REMOVE
    way += [REMOVE] * (len(left) - row) + [ADD] * (len(right) - column)
    return Solved(below[0], way, len(left) * len(right))


@dataclass(slots=True)
class _Block:
    """Some lines of the table, and what they were worked out from."""

    rows: range
    first: int
    """The column of the first cell of ``prices``."""
    prices: _Line
    """Of each cell what pairing costs, less what adding the column's step does."""
    lines: list[_Line] = field(default_factory=list)


class Table:
    """A table that is filled in blocks of lines, from the last to the first.

    A cell holds the cost of all that is left, less that of adding all that is left on the right.
    """

    def __init__(
        self,
        left: Sequence[Step],
        right: Sequence[Step],
        rules: Mapping[str, Declared],
        *,
        alone: int | None = None,
    ) -> None:
        self._left, self._right = left, right
        self._prices = Prices(left, right, rules)
        self._kind = np.int32 if len(left) + len(right) <= _LONGEST else np.int64
        self._removes = [weight(step) for step in left]
        self._adds = np.array([weight(step) for step in right], dtype=self._kind)
        self._below, self._above = self._band(alone)
        width = min(len(right) + 1, self._above - self._below + 1)
        # within a band, a block no higher than it is wide leaves out most of what is beside it
        height = min(BLOCK // width, width) if width <= len(right) else BLOCK // width
        self._height = max(1, min(len(left), max(height, isqrt(len(left)))))
        self._keep = len(left) * width <= KEPT
        self.cells = 0
        self.held = 0

    def solved(self) -> Solved:
        """Fill the table and read the way off."""
        rows, columns = len(self._left), len(self._right)
        line: _Line = np.full(columns + 2, _INFINITE, dtype=self._kind)
        line[self._first(rows) : columns + 1] = 0
        starts = list(range(0, rows, self._height))
        blocks: dict[int, _Block] = {}
        ends: dict[int, _Line] = {}
        for start in reversed(starts):
            if not self._keep:
                ends[start] = line.copy()
            blocks[start] = self._fill(range(start, min(start + self._height, rows)), line)
            self._count(blocks, ends)
            if not self._keep and start:
                del blocks[start]
        cost = int(line[0]) + int(self._adds.sum(dtype=np.int64))
        way: list[Move] = []
        column = 0
        for start in starts:
            if (block := blocks.pop(start, None)) is None:
                block = self._fill(range(start, min(start + self._height, rows)), ends[start])
            column = self._read(block, column, way)
        way += [ADD] * (columns - column)
        return Solved(cost, way, self.cells, self.held)

    def _band(self, alone: int | None) -> tuple[int, int]:
        """Give how far a column may be from its row's number, below and above."""
        apart = len(self._right) - len(self._left)
        if alone is None:
            return -len(self._left), len(self._right)
        room = max(1, (alone - abs(apart)) // 2 + 1)
        return min(0, apart) - room, max(0, apart) + room

    def _first(self, row: int) -> int:
        return max(0, row + self._below)

    def _last(self, row: int) -> int:
        return min(len(self._right), row + self._above)

    def _fill(self, rows: range, line: _Line) -> _Block:
        """Work out the lines of ``rows`` from the one after them, in place."""
        first, last = self._first(rows.start), self._last(rows.stop - 1)
        prices = np.full((len(rows), last - first + 1), _INFINITE, dtype=self._kind)
        self._prices.fill(rows, range(first, min(last + 1, len(self._right))), prices)
        adds = self._adds[first : last + 1]
        prices[:, : len(adds)] -= adds
        block = _Block(rows, first, prices)
        width = last - first + 1
        best = np.empty(width, dtype=self._kind)
        paired = np.empty(width, dtype=self._kind)
        # the line after the last, as wide as the block; what lies before it was never reachable
        block.lines.append(line[first : last + 2].copy())
        for row in reversed(rows):
            low, high = self._first(row), self._last(row)
            size = high - low + 1
            here, more = best[:size], paired[:size]
            np.add(line[low : high + 1], self._removes[row], out=here)
            at = low - first
            np.add(line[low + 1 : high + 2], prices[row - rows.start, at : at + size], out=more)
            np.minimum(here, more, out=here)
            np.minimum.accumulate(here[::-1], out=line[low : high + 1][::-1])
            self.cells += size
            block.lines.append(line[first : last + 2].copy())
        block.lines.reverse()
        return block

    def _count(self, blocks: Mapping[int, _Block], ends: Mapping[int, _Line]) -> None:
        held = sum(map(len, ends.values()))
        for block in blocks.values():
            held += block.prices.size + sum(map(len, block.lines))
        self.held = max(self.held, held)

    def _read(self, block: _Block, column: int, way: list[Move]) -> int:
        """Follow the cheapest way through a block; give the column in which it leaves."""
        columns = len(self._right)
        for number, row in enumerate(block.rows):
            here, after = block.lines[number], block.lines[number + 1]
            while True:
                at = column - block.first
                value = int(here[at])
                if column < columns and value == int(after[at + 1]) + int(block.prices[number, at]):
                    way.append(PAIR)
                    column += 1
                    break
                if value == int(after[at]) + self._removes[row]:
                    way.append(REMOVE)
                    break
                way.append(ADD)
                column += 1
        return column
