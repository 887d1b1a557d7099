"""What to call two runs, so that every line of a comparison says which one it speaks of."""

from __future__ import annotations

import re

from tracekit.trajectory import Trajectory

_DOT = re.compile(r"\.(?!\d+\D)")
"""Parts an id; the dot of a version such as 5.1-mini does not."""
_NAME = 28
"""The longest name that a run is given in a comparison."""
_TOO_SHORT = 3
_WORDS = ("none", "both", "same", "left", "right", "neither")
"""Names that a sentence would be misread with."""


def names_for(left: Trajectory, right: Trajectory) -> tuple[str, str]:
    """Name two runs: recorded and replayed where one replays the other, else by short ids."""
    if left.run_id == right.run_id:
        return "left", "right"
    if right.replay_of == left.run_id:
        return "recorded", "replayed"
    if left.replay_of == right.run_id:
        return "replayed", "recorded"
    one, two = _telling(left.run_id, right.run_id)
    return (one, two) if one != two else ("left", "right")


def _telling(one: str, two: str) -> tuple[str, str]:
    """Cut two ids down to the parts, between dots, in which they differ."""
    head = _common(one, two)
    dots = [found.start() for found in _DOT.finditer(one)]
    start = max((dot + 1 for dot in dots if dot < head), default=0)
    tail = _common(one[start:][::-1], two[start:][::-1])
    end = max((len(one) - dot for dot in dots if dot >= len(one) - tail), default=0)
    if min(len(one), len(two)) - start - end < _TOO_SHORT:
        start = max((dot + 1 for dot in dots if dot + 1 < start), default=0)
    parts = one[start : len(one) - end], two[start : len(two) - end]
    if dots or max(len(part) for part in parts) <= _NAME:
        return _name(one, start, end), _name(two, start, end)
    length = max(8, head + 4)
    if length > _NAME:
        return "…" + one[-8:], "…" + two[-8:]
    return one[:length], two[:length]


def _name(whole: str, start: int, end: int) -> str:
    """Name a run by a part of its id; with the part before it, if that alone misleads."""
    name = _short_name(whole[start : len(whole) - end])
    if name not in _WORDS or not start:
        return name
    before = max((found.end() for found in _DOT.finditer(whole, 0, start - 1)), default=0)
    return whole[before:start] + name


def _short_name(part: str) -> str:
    """Drop leading parts of an id until it fits, then leading signs."""
    while len(part) > _NAME and (dot := _DOT.search(part)):
        part = part[dot.end() :]
    return part if len(part) <= _NAME else "…" + part[-_NAME:]


def _common(one: str, two: str) -> int:
    """Count the signs that both begin with."""
    count = 0
    for mine, other in zip(one, two, strict=False):
        if mine != other:
            break
        count += 1
    return count
