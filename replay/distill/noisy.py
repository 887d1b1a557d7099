"""The search for needed parts where an answer may be wrong.

Where a cut lies is not known but believed: each place has a chance, each answer shifts the chances
as far as it can be trusted, and the next question is put where its answer tells most (Burnashev and
Zigangirov, Problems of Information Transmission 10, 1974; Karp and Kleinberg, "Noisy Binary Search
and Its Applications", SODA 2007). So doubt is spent on the few places that are left, and not on
every step. What comes out of it is then tested by itself, with bounded error: that it fails, and
without each of its parts passes; a search that went astray is made again.

That it fails is tested against failing a quarter as often as it should, so that a single chance
failure is no case, and an oracle that answers by chance is told as undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import log2
from typing import Generic, TypeVar

from replay.distill.passes import Layer, Proof
from replay.distill.problem import Problem
from replay.distill.search import Odds
from replay.distill.sprt import Evidence, Noise, Undecided

T = TypeVar("T")
_LOOSE = 0.02
"""The error that is allowed in finding one place, since all is tested at the end."""
_ATTEMPTS = 8
_PATIENCE = 400
"""Questions about one place after which it will not be found."""


@dataclass
class Doubts(Generic[T]):
    """A problem whose answers may be wrong, and what they say so far."""

    problem: Problem[T]
    noise: Noise
    error: float
    """How often the outcome may be wrong."""
    _evidence: Evidence = field(init=False)
    _rates: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.noise)
        often = 1 - self.noise.missed
        self._rates = Evidence(Noise(self.noise.missed, max(self.noise.alarmed, often / 4)))

    def ask(self, candidate: T) -> bool:
        """Ask once."""
        fails = self.problem.sample(candidate)
        key = self.problem.key_of(candidate)
        self._evidence.add(key, fails=fails)
        self._rates.add(key, fails=fails)
        return fails

    def passes(self, candidate: T, *, among: int) -> bool:
        """Whether a candidate passes, as one of so many that are tested."""
        return not self._decide(self._evidence, candidate, among)

    def fails(self, candidate: T, *, among: int) -> bool:
        """Whether a candidate fails about as often as the whole, as one of so many."""
        return self._decide(self._rates, candidate, among)

    def _decide(self, evidence: Evidence, candidate: T, among: int) -> bool:
        other = self._rates if evidence is self._evidence else self._evidence
        key = self.problem.key_of(candidate)

        def again() -> bool:
            fails = self.problem.sample(candidate)
            other.add(key, fails=fails)
            return fails

        return evidence.decide(key, again, error=self.error / (3 * among))

    @cached_property
    def best_share(self) -> float:
        """The chance of "it suffices" at which an answer tells most."""
        low, high = 0.0, 1.0
        for _ in range(40):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if self._told(left) < self._told(right):
                low = left
            else:
                high = right
        return (low + high) / 2

    def _told(self, share: float) -> float:
        """How many bits an answer tells where that share of the chances suffices."""
        missed, alarmed = self.noise.missed, self.noise.alarmed
        seen = share * (1 - missed) + (1 - share) * alarmed
        return _bits(seen) - share * _bits(missed) - (1 - share) * _bits(alarmed)


def _bits(chance: float) -> float:
    if not 0 < chance < 1:
        return 0.0
    return -chance * log2(chance) - (1 - chance) * log2(1 - chance)


def reduce_in_doubt(
    problem: Problem[T],
    layers: Sequence[Layer[T]],
    singly: Sequence[Layer[T]] | None = None,
    *,
    noise: Noise,
    error: float = 0.01,
) -> tuple[Proof, ...]:
    """Shrink the best of ``problem`` until no single part can be left out, as far as can be told.

    Args:
        problem: What to shrink.
        layers: How to take it apart, the coarse ways first.
        singly: The ways whose parts are tried one by one at the end; default ``layers``.
        noise: How often an answer is wrong.
        error: How often the outcome may be.

    Raises:
        Spent: the budget is used up; the best so far stands.
        Undecided: the answers contradict each other; the failure is flaky beyond that noise.
    """
    doubts = Doubts(problem, noise, error)
    if not doubts.fails(problem.best, among=1):
        raise Undecided("the whole does not fail as often as it should")
    for layer in layers:
        _keep_needed(doubts, layer)
    return _prove(doubts, layers if singly is None else singly)


def _keep_needed(doubts: Doubts[T], layer: Layer[T]) -> None:
    """Drop the parts that the failure can do without."""
    whole = doubts.problem.best
    parts = list(layer.parts(whole))

    def candidate(places: Sequence[int]) -> T:
        staying = {parts[place] for place in places}
        return layer.without(whole, [part for part in parts if part not in staying])

    if not parts:
        return
    for _ in range(_ATTEMPTS):
        kept = _needed(doubts, len(parts), candidate)
        if len(kept) == len(parts):
            return
        found = candidate(kept)
        if doubts.fails(found, among=len(kept) + 1):
            doubts.problem.take(found)
            return
    raise Undecided(f"{_ATTEMPTS} searches found nothing that fails as often as the whole")


def _needed(
    doubts: Doubts[T], size: int, candidate: Callable[[Sequence[int]], T]
) -> tuple[int, ...]:
    kept: tuple[int, ...] = ()
    rest, odds = tuple(range(size)), Odds(size)
    while rest:
        length = _shortest(doubts, odds, kept, rest, candidate)
        if not length:
            break
        odds = odds.after(len(rest) - length)
        kept, rest = (*kept, rest[length - 1]), rest[: length - 1]
    return tuple(sorted(kept))


def _shortest(
    doubts: Doubts[T],
    odds: Odds,
    kept: tuple[int, ...],
    rest: tuple[int, ...],
    candidate: Callable[[Sequence[int]], T],
) -> int:
    """The length of the shortest prefix of ``rest`` that suffices beside ``kept``."""
    size = len(rest)
    suffices = [odds.none_in(size - length) for length in range(size + 1)]
    chances = [suffices[0], *(b - a for a, b in pairwise(suffices))]
    missed, alarmed = doubts.noise.missed, doubts.noise.alarmed
    for _ in range(_PATIENCE):
        likeliest = max(chances)
        if likeliest >= 1 - _LOOSE:
            return chances.index(likeliest)
        cut = _cut(chances, doubts.best_share)
        fails = doubts.ask(candidate(kept + rest[:cut]))
        enough, short = (1 - missed, alarmed) if fails else (missed, 1 - alarmed)
        chances = [c * (enough if at <= cut else short) for at, c in enumerate(chances)]
        total = sum(chances)
        chances = [chance / total for chance in chances]
    raise Undecided(f"{_PATIENCE} answers do not tell which part is needed")


def _cut(chances: Sequence[float], share: float) -> int:
    """The length at which the chance that it suffices is nearest to ``share``."""
    below = list(accumulate(chances[:-1]))
    return min(range(len(below)), key=lambda at: abs(below[at] - share))


def _prove(doubts: Doubts[T], layers: Sequence[Layer[T]]) -> tuple[Proof, ...]:
    """Leave out each single part until none can be; say which were tried in vain."""
    problem = doubts.problem
    while True:
        whole = problem.best
        single = [(layer, part) for layer in layers for part in layer.parts(whole)]
        found = [(layer, part, layer.without(whole, [part])) for layer, part in single]
        smaller = next(
            (less for _, _, less in found if not doubts.passes(less, among=len(found) + 1)), None
        )
        if smaller is None:
            return tuple(
                Proof(layer.name, part, layer.label(whole, part)) for layer, part, _ in found
            )
        problem.take(smaller)
