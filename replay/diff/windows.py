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
    moves: list[Move] | None = None
    """The cheapest way through it, once that is known."""


class Detours:
    """Finds how far around each gap a detour can pay."""

    def __init__(self, left: Row, right: Row, lenient: frozenset[str]) -> None:
        self._left, self._right, self._lenient = left, right, lenient
        self._plain = not (lenient or left.often or right.often)

    def floor(self, gap: Gap) -> int:
        """Give what the steps of a gap cost in any alignment."""
        left, right = self._left, self._right
        total = 0
        for at in range(gap.top, gap.bottom):
            if left.actions[at] not in right.seen and left.names[at] not in self._lenient:
                total += left.weights[at] // 4
        for at in range(gap.start, gap.stop):
            if right.actions[at] not in left.seen and right.names[at] not in self._lenient:
                total += right.weights[at] // 4
        return total

    def widened(self, gaps: Sequence[Gap]) -> list[Gap]:
        """Join gaps that one detour could span, and widen each as far as a detour could lead."""
        fees = self._fees(gaps)
        upto, since = _savings(gaps, fees)
        windows: list[Gap] = []
        first, end = 0, len(gaps) - 1
        for at, gap in enumerate(gaps):
            if at < end and fees[at] <= upto[at] + since[at + 1]:
                continue
            up = down = 0
            if since[first] >= EDGE:
                low = gaps[first - 1].bottom if first else 0
                up = self._reach(range(gaps[first].top - 1, low - 1, -1), since[first])
            if upto[at] >= EDGE:
                high = gaps[at + 1].top if at < end else len(self._left)
                down = self._reach(range(gap.bottom, high), upto[at])
            windows += self._window(gaps[first : at + 1], up, down)
            first = at + 1
        return windows

    def _window(self, some: Sequence[Gap], up: int, down: int) -> Sequence[Gap]:
        """Make one window of some gaps, unless no detour can save anything within it."""
        begin, end = some[0], some[-1]
        if len(some) == 1 and not up and not down:
            return some
        top, bottom = begin.top - up, end.bottom + down
        start, stop = begin.start - up, end.stop + down
        if self._without_kin(some, self._left.names[top:bottom], self._right.names[start:stop]):
            return some
        cost, floor = sum(gap.cost for gap in some), sum(gap.floor for gap in some)
        return (Gap(top, bottom, start, stop, cost, floor),)

    def _without_kin(self, gaps: Sequence[Gap], left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether no step of these gaps has one near it, on the other side, to be paired with."""
        for gap in gaps:
            if gap.top < gap.bottom and gap.start < gap.stop:
                return False
            for name in self._left.names[gap.top : gap.bottom]:
                if name in right:
                    return False
            for name in self._right.names[gap.start : gap.stop]:
                if name in left:
                    return False
        return True

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
        for count, at in enumerate(places, 1):
            weight = self._left.weights[at]
            budget -= self._missed(at)
            if budget < EDGE:
                break
            if budget >= weight - weight // 4:
                reach = count
        return reach


def _savings(gaps: Sequence[Gap], fees: Sequence[int]) -> tuple[list[int], list[int]]:
    """Give the most that a detour can save up to, and from, each gap; less than 0 is none."""
    upto, since = [], []
    alone = [gap.cost - gap.floor for gap in gaps]
    saved = -APART  # nothing comes before the first
    for gap, most, fee in zip(gaps, alone, (0, *fees), strict=True):
        saved = most + max(saved - fee, -gap.edge)
        upto.append(saved)
    saved = -APART
    for gap, most, fee in zip(reversed(gaps), reversed(alone), (0, *reversed(fees)), strict=True):
        saved = most + max(saved - fee, -gap.edge)
        since.append(saved)
    since.reverse()
    return upto, since
