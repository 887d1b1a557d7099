"""Shakes up what fixed conditions leave to chance: where objects lie, when threads switch.

Two processes that do the same mostly put their objects in the same order and switch threads at the
same places, so a planner that goes by either (a set of objects without a hash of their own, threads
that race) looks steady until something else changes. A replay that is repeated is stirred, each
time otherwise, so that it shows.
"""

from __future__ import annotations

import os
import sys
from typing import Any

VARIABLE = "_TRACEKIT_REPLAY_STIR"
"""Tells the planner's process how it is stirred; taken away before the planner is imported."""
_BLOCKS = 256
_SMALL = range(48, 513, 16)
"""Sizes of small objects, which lie side by side with their like."""
_SWITCH_S = (0.005, 0.00001, 0.0005)
_kept: list[Any] = []


def asked_for() -> int:
    """Take away the variable; return its number, and 0 where nothing is to be stirred."""
    return int(os.environ.pop(VARIABLE, "0"))


def stir(number: int) -> None:
    """Let what this process makes from now on lie otherwise, and threads switch otherwise."""
    if not number:
        return
    sys.setswitchinterval(_SWITCH_S[number % len(_SWITCH_S)])
    _scatter([object() for _ in range(_BLOCKS)], number)
    _scatter([(1 << 40) + place for place in range(_BLOCKS)], number)
    for size in _SMALL:
        _scatter([bytes(size - sys.getsizeof(b"")) for _ in range(_BLOCKS)], number)


def _scatter(blocks: list[Any], number: int) -> None:
    """Give most of them back in an odd order, in which their places are then taken again."""
    step = 2 * number + 1 + 36 * (number % 3)
    order = [place * step % _BLOCKS for place in range(_BLOCKS)]
    _kept.extend(blocks[place] for place in order[::8])
    for place in order:
        blocks[place] = None
