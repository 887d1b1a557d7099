"""Which parts of a thing are needed, asked by as few questions as can be: a search as a value.

The shortest prefix of the parts that still fails ends with a needed part, and what follows it is
not needed; that part is kept, and the prefix before it searched in the same way (Zeller,
"Yesterday, my program worked", ESEC/FSE 1999, and Hwang's binary splitting of group tests, JASA 67,
1972). Each question is put where it tells most, which is where both answers are about equally
likely, under odds that learn from the parts found so far how dense the needed ones lie, and whether
side by side. Of cuts that are as good the roundest is taken, since what belongs together often lies
at even places.

A prefix of what happened holds whatever its steps need, so that the search finds the way to a
needed step through the steps that it needs, though it knows nothing of them; where it is told
(``needs``), a part comes with them at once.

Nothing rests on the odds, and nothing on the failure being monotone: each answer is one that was
given, the last that failed is what stays, and the proof asks about each part that does. Only a run
of neighbours that all seem needed is looked into, since sets that fail only whole make every part
look so: without as many more before it, and without the first two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import exp, lgamma
from typing import Literal

_SPARE = 0.1
"""How far from even a cut may be for a rounder place."""
_DOUBTED = 0.1
"""The chance that a look into a run of neighbours finds something."""

_FEW = 8
"""Among fewer parts than that a run of neighbours is no wonder."""
_NEAR, _SURE, _FREE = (0.5, 1.0), (8.0, 1.0), (0.0, 1.0)
"""Beliefs of neighbours: where nothing is known, where all are likely, where needs are known."""


@dataclass(frozen=True, slots=True)
class Odds:
    """What is known of how the needed parts lie, from the end on.

    Apart from neighbours each part is needed with the same unknown chance, of which beta-binomial
    counting gives the chance that the next so many are not; one right before a needed part has a
    chance of its own.
    """

    size: int
    apart: int = 0
    """Needed parts that were met, not side by side."""
    beside: int = 0
    """Those right before one that is needed."""
    passed: int = 0
    """Parts that were met and are not needed."""
    near: tuple[float, float] = _NEAR
    """What is believed before of parts right before a needed one: so many needed, so many not."""

    @property
    def likely(self) -> bool:
        """Whether a part is rather needed than not."""
        return self.near[0] > self.near[1]

    def none_in(self, count: int) -> float:
        """The chance that none of the next ``count`` parts is needed."""
        if count <= 0:
            return 1.0
        met, next_one = self.apart + self.beside, 0.0
        if met or self.likely:
            next_one = (self.near[0] + self.beside) / (sum(self.near) + met)
        hit = 1.0 + self.apart
        missed = (2.0 if met < 2 else 1.0) * self.size + self.passed
        far = count - 1 if next_one else count
        run = lgamma(missed + far) - lgamma(missed) + lgamma(hit + missed)
        return (1 - next_one) * exp(run - lgamma(hit + missed + far))

    def after(self, gap: int) -> Odds:
        """What is known when ``gap`` parts were not needed and the next one was."""
        if gap == 0 and self.near[0] and (self.likely or self.apart):
            return replace(self, beside=self.beside + 1)
        return replace(self, apart=self.apart + 1, passed=self.passed + gap)


@dataclass(frozen=True, slots=True)
class Search:
    """A search under way: what stays, and what is in question."""

    kept: tuple[int, ...]
    """Places of parts that were found to be needed."""
    rest: tuple[int, ...]
    """Places that are in question, in order."""
    low: int
    """So many of the rest, or fewer, do not suffice; -1 where even none may."""
    high: int
    """So many suffice: that was asked."""
    odds: Odds
    run: int = 0
    """How many of the last that were kept lie side by side."""
    looks: tuple[Literal["before", "within"], ...] = ()
    """Looks into a run of neighbours that come first."""
    closures: tuple[frozenset[int], ...] = ()
    """Place → places that stay with it; empty where nothing is known."""

    @property
    def over(self) -> bool:
        """Whether nothing is in question any more."""
        return self.high <= 0

    @property
    def question(self) -> tuple[int, ...]:
        """The places whose parts are to be asked about, without the others."""
        if self.looks[:1] == ("within",):
            return self.kept[:-2] + self.rest[: self.high]
        return self.kept + self.rest[: self._cut]

    @property
    def answer(self) -> tuple[int, ...]:
        """The places whose parts were found to suffice so far."""
        return tuple(sorted(self.kept + self.rest[: self.high]))

    @property
    def chance(self) -> float:
        """How likely it is that the question is answered with yes."""
        if self.looks:
            return _DOUBTED
        least, most = self._known()
        return (self._suffices(self._cut) - least) / (most - least) if most > least else 0.5

    def after(self, *, fails: bool) -> Search:
        """The search once the question is answered."""
        if self.looks[:1] == ("within",):
            if not fails:
                return replace(self, looks=self.looks[1:])
            return replace(self, kept=self.kept[:-2], run=0, looks=())
        cut = self._cut
        changed = replace(self, high=cut, looks=()) if fails else replace(self, low=cut, looks=())
        return changed if changed.over or changed.high - changed.low > 1 else changed._found()

    def _found(self) -> Search:
        """The part at the end of the shortest prefix is needed."""
        place, gap = self.rest[self.high - 1], len(self.rest) - self.high
        rest = self.rest[: self.high - 1]
        kept: tuple[int, ...] = (place,)
        if self.closures:
            staying = self.closures[place]
            kept = tuple(sorted(staying - set(self.kept)))
            rest = tuple(other for other in rest if other not in staying)
        run = self.run + 1 if gap == 0 and self.kept else 1
        doubtful = run > 1 and run & (run - 1) == 0 and self._suspects
        looks: list[Literal["before", "within"]] = ["within"] if doubtful and run == 2 else []
        looks += ["before"] if doubtful and len(rest) >= run else []
        return Search(
            kept=self.kept + kept,
            rest=rest,
            low=-1,
            high=len(rest),
            odds=self.odds.after(gap),
            run=run,
            looks=tuple(looks),
            closures=self.closures,
        )

    @property
    def _suspects(self) -> bool:
        """Whether a run of neighbours is worth a look."""
        return self.odds.size >= _FEW and not self.odds.likely and not self.closures

    # --- where to cut -----------------------------------------------------------------------------

    @property
    def _cut(self) -> int:
        """How many of the rest to ask about."""
        if self.looks:
            return len(self.rest) - self.run
        least, most = self._known()
        even, spare = (least + most) / 2, (most - least) * _SPARE

        def unevenness(cut: int) -> float:
            return abs(self._suffices(cut) - even)

        middle = self._first(even)
        best = min((c for c in (middle - 1, middle) if self.low < c < self.high), key=unevenness)
        lowest = min(best, self._first(even - spare))
        highest = self._first(even + spare)
        if self._suffices(highest) > even + spare:
            highest -= 1
        return min(_roundest(lowest, max(best, highest)), key=unevenness)

    def _suffices(self, cut: int) -> float:
        """The chance that so many of the rest suffice, before anything was asked of the rest."""
        return self.odds.none_in(len(self.rest) - cut)

    def _known(self) -> tuple[float, float]:
        return (self._suffices(self.low) if self.low >= 0 else 0.0), self._suffices(self.high)

    def _first(self, chance: float) -> int:
        """The fewest of the rest that suffice with that chance, of those that can be asked."""
        low, high = self.low + 1, self.high - 1
        while low < high:
            middle = (low + high) // 2
            if self._suffices(middle) < chance:
                low = middle + 1
            else:
                high = middle
        return low


def begin(
    size: int,
    *,
    needs: Mapping[int, Collection[int]] | None = None,
    likely: bool = False,
) -> Search:
    """Begin to search so many parts, of which all together are known to fail.

    Args:
        size: How many there are.
        needs: Place → earlier places without which the part there is not valid.
        likely: Whether all of them are likely to be needed.
    """
    places = tuple(range(size))
    odds = Odds(size, near=_SURE if likely else _FREE if needs else _NEAR)
    return Search((), places, -1, size, odds, closures=closures(size, needs) if needs else ())


def closures(size: int, needs: Mapping[int, Collection[int]]) -> tuple[frozenset[int], ...]:
    """Each place with all that it needs, and those need."""
    found: list[frozenset[int]] = []
    for place in range(size):
        earlier = [found[other] for other in needs.get(place, ()) if other < place]
        found.append(frozenset({place}).union(*earlier))
    return tuple(found)


def foreseen(
    search: Search, answered: Callable[[tuple[int, ...]], bool | None]
) -> Iterator[tuple[int, ...]]:
    """Yield what may be asked next, the likeliest first.

    Args:
        search: Where the search is.
        answered: The answer to a question, where it is there already.
    """
    ahead = [(-1.0, 0, search)]
    for number in count():
        while ahead and ahead[0][2].over:
            heappop(ahead)
        if not ahead:
            return
        weight, _, state = heappop(ahead)
        question = state.question
        answer = answered(question)
        if answer is not None:
            heappush(ahead, (weight, 3 * number + 1, state.after(fails=answer)))
            continue
        yield question
        chance = state.chance
        heappush(ahead, (weight * chance, 3 * number + 1, state.after(fails=True)))
        heappush(ahead, (weight * (1 - chance), 3 * number + 2, state.after(fails=False)))


def _roundest(low: int, high: int) -> Sequence[int]:
    """The numbers from ``low`` to ``high`` that the highest power of two divides."""
    bit = 1
    while high // (2 * bit) * (2 * bit) >= low and 2 * bit <= high:
        bit *= 2
    return range(high // bit * bit, low - 1, -bit)
