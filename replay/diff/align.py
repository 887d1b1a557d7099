"""The cheapest alignment of two rows of steps.

Exact, never cut, in bounded memory. Equal steps that a longest common subsequence pairs are taken
for granted where it is proved that every cheapest alignment pairs them (``windows``); the windows
that are left are aligned by dynamic programming (``table``). So the work grows with what differs,
and only for rows that share little with the product of their lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import LCSseq, MatchingBlock

from replay.diff.arguments import Declared
from replay.diff.costs import LEAST, change
from replay.diff.rising import longest_rising
from replay.diff.rows import Row
from replay.diff.steps import Step
from replay.diff.table import ADD, PAIR, REMOVE, Move, solve
from replay.diff.windows import EDGE, Detours, Gap

MANY = 4_000_000
"""Of longer rows, the letters that occur once on either side are paired first."""
BITS = 1_000_000_000
"""Of so many bits may the search for a common subsequence make use."""
_MOST = 0.8
"""Where more than this share has no equal in order, there is little to take for granted."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which step stands beside which."""

    cost: int
    """In thousandths."""
    parts: tuple[tuple[int, int, int, tuple[Move, ...]], ...]
    """From a step of the left and one of the right: how many pairs of equals, then which moves."""
    cells: int = 0
    """How many cells of tables were filled."""
    held: int = 0
    """How many of them were in memory at once."""

    @property
    def pairs(self) -> tuple[tuple[int | None, int | None], ...]:
        """Positions in the two rows, in an order that both agree with; None without counterpart."""
        return tuple(self._pairs())

    def _pairs(self) -> Iterator[tuple[int | None, int | None]]:
        for row, column, equal, moves in self.parts:
            yield from zip(range(row, row + equal), range(column, column + equal), strict=True)
            row, column = row + equal, column + equal
            for move in moves:
                yield (None if move == ADD else row, None if move == REMOVE else column)
                row += move != ADD
                column += move != REMOVE


def align(
    left: Row | Sequence[Step], right: Row | Sequence[Step], rules: Mapping[str, Declared]
) -> Alignment:
    """Align two rows at the lowest cost."""
    ours = left if isinstance(left, Row) else Row(left)
    theirs = right if isinstance(right, Row) else Row(right)
    if ours.letters == theirs.letters:
        return Alignment(0, ((0, 0, len(ours), ()),))
    return _Aligner(ours, theirs, rules).aligned()


_ONE: tuple[Move, ...] = (PAIR,)


class _Aligner:
    def __init__(self, left: Row, right: Row, rules: Mapping[str, Declared]) -> None:
        self._left, self._right, self._rules = left, right, rules
        lenient = frozenset([name for name, rule in rules.items() if rule.has_leeway])
        self._detours = Detours(left, right, lenient)
        self._cells = self._held = 0

    def aligned(self) -> Alignment:
        gaps, detours = self._gaps(), self._detours
        for gap in gaps:
            self._solve(gap)
            gap.floor = detours.floor(gap)
        cost = row = column = 0
        parts = []
        for gap in detours.widened(gaps):
            moves = gap.moves or self._solve(gap)
            cost += gap.cost
            parts.append((row, column, gap.top - row, moves))
            row, column = gap.bottom, gap.stop
        parts.append((row, column, len(self._left.letters) - row, ()))
        return Alignment(cost, tuple(parts), self._cells, self._held)

    def _solve(self, gap: Gap) -> tuple[Move, ...]:
        """Align a stretch, exactly."""
        if gap.bottom - gap.top <= 1 or gap.stop - gap.start <= 1:
            return self._pair_one(gap)
        left, right = self._left, self._right
        alone = None
        if gap.cost:
            alone = min(gap.cost // LEAST, (gap.cost - gap.floor) // EDGE)
        ours, theirs = left.steps[gap.top : gap.bottom], right.steps[gap.start : gap.stop]
        found = solve(ours, theirs, self._rules, alone=alone)
        self._cells += found.cells
        self._held = max(self._held, found.held)
        gap.cost, gap.moves = found.cost, tuple(found.moves)
        gap.edge = 0 if REMOVE in gap.moves or ADD in gap.moves else EDGE
        return gap.moves

    def _pair_one(self, gap: Gap) -> tuple[Move, ...]:
        """Align a stretch of one pair at most: the best one, and of several the first."""
        left, right = self._left, self._right
        top, bottom, start, stop = gap.top, gap.bottom, gap.start, gap.stop
        saved, pair = 0, None
        for row in range(top, bottom):
            name = left.names[row]
            for column in range(start, stop):
                if name == right.names[column]:
                    cost = change(left.steps[row], right.steps[column], self._rules)
                    cost -= left.weights[row] + right.weights[column]
                    if cost < saved:
                        saved, pair = cost, (row - top, column - start)
        removed, added = bottom - top, stop - start
        gap.cost = left.spent[bottom] - left.spent[top] + right.spent[stop] - right.spent[start]
        gap.cost += saved
        self._cells += removed * added
        if pair is None:
            moves = (REMOVE,) * removed + (ADD,) * added
        elif removed == added:
            moves, gap.edge = _ONE, EDGE
        else:
            first, second = pair
            moves = (REMOVE,) * first + (ADD,) * second + _ONE
            moves += (REMOVE,) * (removed - first - 1) + (ADD,) * (added - second - 1)
        gap.moves = moves
        return moves

    def _gaps(self) -> list[Gap]:
        """List the stretches between equal steps of an alignment that is easily found."""
        ours, theirs = self._left.letters, self._right.letters
        if len(ours) * len(theirs) > MANY:
            blocks = _common(ours, theirs)
        else:
            blocks = LCSseq.editops(ours, theirs).as_matching_blocks()
        gaps = []
        row = column = most = 0
        for top, start, size in blocks:
            if top > row or start > column:
                gaps.append(Gap(row, top, column, start))
                if top - row > most < start - column:
                    most = min(top - row, start - column)
            row, column = top + size, start + size
            if ours[top:row] != theirs[start:column]:  # two letters with one hash
                return [Gap(0, len(ours), 0, len(theirs))]
        if most > _MOST * min(len(ours), len(theirs)):
            return [Gap(0, len(ours), 0, len(theirs))]
        return gaps


def _common(ours: Sequence[str], theirs: Sequence[str]) -> list[MatchingBlock]:
    """Pair the letters that occur once on either side, and what is in one order between them."""
    counts = Counter(ours), Counter(theirs)
    places = {letter: at for at, letter in enumerate(theirs) if counts[1][letter] == 1}
    pairs = [
        (at, places[letter])
        for at, letter in enumerate(ours)
        if counts[0][letter] == 1 and letter in places
    ]
    rising = longest_rising([two for _, two in pairs])
    anchors = [pair for number, pair in enumerate(pairs) if number in rising]
    found: list[MatchingBlock] = []
    row = column = 0
    for one, two in [*anchors, (len(ours), len(theirs))]:
        if row < one and column < two and (one - row) * (two - column) <= BITS:
            for block in LCSseq.editops(ours[row:one], theirs[column:two]).as_matching_blocks():
                found.append(MatchingBlock(block.a + row, block.b + column, block.size))
        if one < len(ours):
            found.append(MatchingBlock(one, two, 1))
        row, column = one + 1, two + 1
    return [*found, MatchingBlock(len(ours), len(theirs), 0)]
