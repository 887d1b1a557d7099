"""The two published reductions that ours is measured against, written from their papers.

``ddmin`` is that of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
IEEE TSE 28(2), 2002: subsets, then complements, then twice as many pieces. ``probdd`` is that of
Wang et al., "Probabilistic Delta Debugging", ESEC/FSE 2021: each part has a chance of being needed,
and the next candidate leaves out what promises most. Neither asks anything twice, and their first
question is the whole; ``probdd``, whose model takes the failure to be monotone, is made to prove
its result.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

Parts = tuple[int, ...]
Fails = Callable[[frozenset[int]], bool]
_PRIOR = 0.1
"""The chance of each part before anything is known, as in the paper."""


class Asked:
    """A question that is counted and never asked twice."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._known: dict[frozenset[int], bool] = {}

    def __call__(self, parts: Parts) -> bool:
        """Ask whether these parts fail."""
        key = frozenset(parts)
        if key not in self._known:
            self._known[key] = self._fails(key)
        return self._known[key]

    @property
    def calls(self) -> int:
        """How often it was really asked."""
        return len(self._known)


def ddmin(size: int, fails: Fails) -> tuple[Parts, int]:
    """Reduce; give what is left and the number of questions."""
    ask = Asked(fails)
    best: Parts = tuple(range(size))
    assert ask(best)
    return (() if ask(()) else _ddmin(best, ask)), ask.calls


def _ddmin(best: Parts, ask: Asked) -> Parts:
    pieces = 2
    while len(best) >= 2:
        subsets = _split(best, pieces)
        complements = [tuple(p for p in best if p not in set(subset)) for subset in subsets]
        if smaller := next((subset for subset in subsets if ask(subset)), None):
            best, pieces = smaller, 2
        elif smaller := next((rest for rest in complements if ask(rest)), None):
            best, pieces = smaller, max(pieces - 1, 2)
        elif pieces < len(best):
            pieces = min(len(best), pieces * 2)
        else:
            break
    return best


def _split(parts: Parts, pieces: int) -> list[Parts]:
    edges = [len(parts) * at // pieces for at in range(pieces + 1)]
    return [parts[low:high] for low, high in pairwise(edges) if low < high]


def probdd(size: int, fails: Fails) -> tuple[Parts, int]:
    """Reduce, and leave out single parts until none can be; give what is left and the count."""
    ask = Asked(fails)
    best: Parts = tuple(range(size))
    assert ask(best)
    chance = dict.fromkeys(best, _PRIOR)
    while gone := _most_promising(chance):
        rest = tuple(part for part in best if part not in gone)
        if ask(rest):
            best = rest
            for part in gone:
                del chance[part]
            continue
        none_needed = prod(1 - chance[part] for part in gone)
        for part in gone:
            chance[part] = 1.0 if len(gone) == 1 else min(1.0, chance[part] / (1 - none_needed))
    return _singly(best, ask), ask.calls


def _most_promising(chance: dict[int, float]) -> set[int]:
    """The parts to leave out next: as many as give the greatest expected gain."""
    unsure = sorted((part for part in chance if chance[part] < 1.0), key=lambda p: (chance[p], p))
    gain, taken, most = 1.0, 0, 0.0
    for count, part in enumerate(unsure, 1):
        gain *= 1 - chance[part]
        if count * gain > most:
            taken, most = count, count * gain
    return set(unsure[:taken])


def _singly(best: Parts, ask: Asked) -> Parts:
    while True:
        smaller = (tuple(p for p in best if p != part) for part in best)
        found = next((rest for rest in smaller if ask(rest)), None)
        if found is None:
            return best
        best = found
