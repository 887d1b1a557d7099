"""Failures with a known cause, by kind: what a reduction is asked, drawn from a seed.

A puzzle has parts 0..size-1 and says of any set of them whether it fails. Its whole fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Fails = Callable[[frozenset[int]], bool]


@dataclass(frozen=True)
class Puzzle:
    """One failure."""

    size: int
    fails: Fails
    least: frozenset[int] | None = None
    """All that fails and nothing else, where there is one such set."""
    needs: dict[int, frozenset[int]] = field(default_factory=dict)
    """Part → parts without which it is not valid, those not included that these need."""


def scattered(size: int, needed: int, seed: int) -> Puzzle:
    """So many parts matter, anywhere."""
    least = frozenset(random.Random(seed).sample(range(size), needed))
    return Puzzle(size, lambda parts: least <= parts, least)


def block(size: int, needed: int, seed: int) -> Puzzle:
    """The parts that matter lie side by side."""
    first = random.Random(seed).randrange(size - needed + 1)
    least = frozenset(range(first, first + needed))
    return Puzzle(size, lambda parts: least <= parts, least)


def parity(size: int, needed: int, seed: int) -> Puzzle:
    """What matters, among a number of parts that is even if the whole's is."""
    least = scattered(size, needed, seed).least or frozenset()
    return Puzzle(size, lambda parts: least <= parts and len(parts) % 2 == size % 2)


def all_or_nothing(size: int, needed: int, seed: int) -> Puzzle:
    """What matters, and a quarter of the rest wholly or not at all."""
    chance = random.Random(seed)
    least = frozenset(chance.sample(range(size), needed))
    others = sorted(set(range(size)) - least)
    group = frozenset(chance.sample(others, size // 4))
    return Puzzle(size, lambda parts: least <= parts and parts & group in (group, frozenset()))


def alternatives(size: int, needed: int, seed: int) -> Puzzle:
    """Either of two sets suffices."""
    drawn = random.Random(seed).sample(range(size), 2 * needed + 1)
    one, other = frozenset(drawn[:needed]), frozenset(drawn[needed:])
    return Puzzle(size, lambda parts: one <= parts or other <= parts)


def interference(size: int, needed: int, seed: int) -> Puzzle:
    """What matters, without a part that hides it, or with one more that uncovers it again."""
    *drawn, hides, uncovers = random.Random(seed).sample(range(size), needed + 2)
    least = frozenset(drawn)
    return Puzzle(
        size, lambda parts: least <= parts and (hides not in parts or uncovers in parts), least
    )


def pairs(size: int, needed: int, seed: int) -> Puzzle:
    """Parts come in twos, and half of one is not valid."""
    twos = random.Random(seed).sample(range(size // 2), needed)
    least = frozenset(part for two in twos for part in (2 * two, 2 * two + 1))

    def fails(parts: frozenset[int]) -> bool:
        return least <= parts and all(part ^ 1 in parts or part ^ 1 >= size for part in parts)

    return Puzzle(size, fails, least)


def erratic(size: int, needed: int, seed: int) -> Puzzle:
    """What matters, but one set in four passes for no reason that can be seen."""
    least = scattered(size, needed, seed).least or frozenset()

    def fails(parts: frozenset[int]) -> bool:
        whole = len(parts) == size
        drawn = random.Random(hash((seed, tuple(sorted(parts))))).random()
        return least <= parts and (whole or drawn > 0.25)

    return Puzzle(size, fails)


def dependent(size: int, needed: int, seed: int) -> Puzzle:
    """Steps by turns a call and its result; 30 % of calls need the result of an earlier one.

    What breaks a dependency does not fail in the same way.
    """
    chance = random.Random(seed)
    needs: dict[int, frozenset[int]] = {}
    for step in range(size):
        if step % 2:
            needs[step] = frozenset({step - 1})
        elif step and chance.random() < 0.3:
            needs[step] = frozenset({2 * chance.randrange(step // 2) + 1})
    wanted = frozenset(chance.sample(range(size), needed))
    least = closed(wanted, needs)

    def fails(parts: frozenset[int]) -> bool:
        return wanted <= parts and all(needs.get(step, parts) <= parts for step in parts)

    return Puzzle(size, fails, least, needs)


def closed(parts: frozenset[int], needs: dict[int, frozenset[int]]) -> frozenset[int]:
    """The parts with all that they need."""
    pending, found = list(parts), set(parts)
    while pending:
        more = needs.get(pending.pop(), frozenset()) - found
        found |= more
        pending += more
    return frozenset(found)


Kind = Callable[[int, int, int], Puzzle]
SUITE: dict[str, tuple[Kind, int, int]] = {
    "nothing matters": (scattered, 64, 0),
    "1 of 64 matters": (scattered, 64, 1),
    "3 of 64 matter": (scattered, 64, 3),
    "8 of 64 matter": (scattered, 64, 8),
    "32 of 64 matter": (scattered, 64, 32),
    "60 of 64 matter": (scattered, 64, 60),
    "all 64 matter": (scattered, 64, 64),
    "a block of 8 in 64": (block, 64, 8),
    "parity, 2 of 64": (parity, 64, 2),
    "parity, 3 of 63": (parity, 63, 3),
    "all or nothing, 2 of 64": (all_or_nothing, 64, 2),
    "alternatives, 2 or 3 of 64": (alternatives, 64, 2),
    "interference, 2 of 64": (interference, 64, 2),
    "pairs, 2 in 32": (pairs, 64, 2),
    "erratic, 2 of 64": (erratic, 64, 2),
    "dependent, 2 of 100": (dependent, 100, 2),
}
"""Kind → how it is drawn, its size, how many matter."""
