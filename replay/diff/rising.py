"""Longest rising subsequences: as many pairs as both sides have in one order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from operator import lt


def longest_rising(values: Sequence[int]) -> set[int]:
    """Give the positions of a longest rising subsequence."""
    if all(map(lt, values, islice(values, 1, None))):
        return set(range(len(values)))
    ends: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for position, value in enumerate(values):
        slot = bisect_left(ends, value)
        before.append(holders[slot - 1] if slot else -1)
        ends[slot : slot + 1] = [value]
        holders[slot : slot + 1] = [position]
    found: set[int] = set()
    position = holders[-1] if holders else -1
    while position >= 0:
        found.add(position)
        position = before[position]
    return found
