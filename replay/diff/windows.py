"""Where the cheapest alignment can differ from one that is easily found, and where it cannot.

Any alignment that pairs equal steps will do to begin with. Between its gaps lie runs of pairs of
equal steps. Suppose that the cheapest alignment leaves such a run, or passes a gap another way. On
that detour no step has the partner that it had, so that it pays at least

- for every step whose action the other side does not have elsewhere, a quarter of its weight:
  a change of arguments costs half of it, and counts for two steps;
- where it leaves or joins a run of pairs, three quarters more: there, one step has no counterpart.

What it can save is what the known alignment pays in the gaps that the detour spans. Where that is
less, there is no detour, and the run of pairs stands in every cheapest alignment, also in those
that cost the same. What is left are windows around the gaps, mostly as wide as these; each is
aligned by itself, exactly. The proof asks for no similarity and no threshold: where steps repeat,
or little is shared, it fails, and the window becomes as large as the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from replay.diff.costs import APART, LEAST
from replay.diff.rows import Row
from replay.diff.table import Move

EDGE = LEAST - LEAST // 4
"""What a step without counterpart costs beyond its quarter, at least."""


@dataclass(slots=True)
class Gap:
    """A stretch of both rows between pairs of equal steps."""

    top: int
    bottom: int
    """Its steps on the left are those from ``top`` to before ``bottom``."""
    start: int
    stop: int
    """Its steps on the right."""
    cost: int = 0
    """What an alignment of it costs."""
    floor: int = 0
    """What every alignment pays for its steps, whatever they are paired with."""
    edge: int = 0
    """What a detour pays beyond that, if it ends within the gap."""
    moves: tuple[Move, ...] | None = None
    """The cheapest way through it, once that is known."""


class Detours:
    """Finds how far around each gap a detour can pay."""

    def __init__(self, left: Row, right: Row, lenient: frozenset[str]) -> None:
        self._left, self._right, self._lenient = left, right, lenient
        self._plain = not (lenient or left.often or right.often)

    def floor(self, gap: Gap) -> int:
        """Give what the steps of a gap cost in any alignment."""
        left, right, lenient = self._left, self._right, self._lenient
        total = 0
        for at in range(gap.top, gap.bottom):
            if left.actions[at] not in right.seen and left.names[at] not in lenient:
                total += left.weights[at] // 4
        for at in range(gap.start, gap.stop):
            if right.actions[at] not in left.seen and right.names[at] not in lenient:
                total += right.weights[at] // 4
        return total

    def widened(self, gaps: Sequence[Gap]) -> list[Gap]:
        """Join gaps that one detour could span, and widen each as far as a detour could lead."""
        fees = self._fees(gaps)
        since = _since(gaps, fees)
        windows: list[Gap] = []
        first, end = 0, len(gaps) - 1
        upto = -APART  # nothing comes before the first
        for at, gap in enumerate(gaps):
            upto = gap.cost - gap.floor + max(upto, -gap.edge)
            if at < end and fees[at] <= upto + since[at + 1]:
                upto -= fees[at]
                continue
            up = down = 0
            if since[first] >= EDGE:
                low = gaps[first - 1].bottom if first else 0
                up = self._reach(range(gaps[first].top - 1, low - 1, -1), since[first])
            if upto >= EDGE:
                high = gaps[at + 1].top if at < end else len(self._left)
                down = self._reach(range(gap.bottom, high), upto)
            if first == at and not up and not down:
                windows.append(gap)
            else:
                windows += self._window(gaps[first : at + 1], up, down)
            first = at + 1
            upto -= fees[at] if at < end else 0
        return windows

    def _window(self, some: Sequence[Gap], up: int, down: int) -> Sequence[Gap]:
        """Make one window of some gaps, unless no detour can save anything within it."""
        begin, end = some[0], some[-1]
        top, bottom = begin.top - up, end.bottom + down
        start, stop = begin.start - up, end.stop + down
        cost = floor = 0
        for gap in some:
            cost += gap.cost
            floor += gap.floor
        window = Gap(top, bottom, start, stop, cost, floor)
        return some if self._settled(some, window) else (window,)

    def _settled(self, gaps: Sequence[Gap], window: Gap) -> bool:
        """Whether detours cost more than they save, now that it is known which steps are near.

        A step with none of its name near it, on the other side, has no counterpart in any case.
        """
        left, right = self._left, self._right
        saved = window.cost - window.floor
        if self._plain and saved < LEAST // 2:  # which is what any pair costs that is missed
            return True
        ours = left.names[window.top : window.bottom]
        theirs = right.names[window.start : window.stop]
        for gap in gaps:
            for at in range(gap.top, gap.bottom):
                if left.names[at] not in theirs:
                    saved -= left.weights[at] - self._least(left, at)
            for at in range(gap.start, gap.stop):
                if right.names[at] not in ours:
                    saved -= right.weights[at] - self._least(right, at)
        if self._plain and saved < LEAST // 2:
            return True
        begin, missed = window.top, self._missed
        for gap in gaps:
            for at in range(begin, gap.top):
                if missed(at) <= saved:
                    return False
            begin = gap.bottom
        return all(missed(at) > saved for at in range(begin, window.bottom))

    def _least(self, row: Row, at: int) -> int:
        other = self._right if row is self._left else self._left
        if row.actions[at] in other.seen or row.names[at] in self._lenient:
            return 0
        return row.weights[at] // 4

    def _fees(self, gaps: Sequence[Gap]) -> list[int]:
        """Give what a detour pays at least that misses all pairs between two gaps."""
        if self._plain:
            spent = self._left.spent
            return [(spent[two.top] - spent[one.bottom]) // 2 for one, two in pairwise(gaps)]
        enough = sum(gap.cost for gap in gaps)
        return [self._fee(one.bottom, two.top, enough) for one, two in pairwise(gaps)]

    def _fee(self, start: int, stop: int, enough: int) -> int:
        total = 0
        for at in range(start, stop):
            if total > enough:
                break
            total += self._missed(at)
        return total

    def _missed(self, at: int) -> int:
        """Give what a detour pays for a pair of equal steps that it misses."""
        action, weight = self._left.actions[at], self._left.weights[at]
        if self._plain:
            return weight // 2
        if self._left.names[at] in self._lenient:
            return 0
        return (weight // 4) * (
            (action not in self._left.often) + (action not in self._right.often)
        )

    def _reach(self, places: range, budget: int) -> int:
        """Count the pairs on one side of a gap that a detour through it could miss."""
        reach = 0
        weights, plain = self._left.weights, self._plain
        for count, at in enumerate(places, 1):
            weight = weights[at]
            budget -= weight // 2 if plain else self._missed(at)
            if budget < EDGE:
                break
            if budget >= weight - weight // 4:
                reach = count
        return reach


def _since(gaps: Sequence[Gap], fees: Sequence[int]) -> list[int]:
    """Give the most that a detour can save from each gap on; less than 0 is none."""
    found = [0] * len(gaps)
    saved = -APART
    for at in range(len(gaps) - 1, -1, -1):
        gap = gaps[at]
        saved = gap.cost - gap.floor + max(saved, -gap.edge)
        found[at] = saved
        if at:
            saved -= fees[at - 1]
    return found
