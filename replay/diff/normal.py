"""Both runs in the normal form of their partial order, chosen so that they can be compared.

The smallest permitted order by any fixed ranking of the steps is a normal form (``order``). Ranked
by their own text, equivalent runs become the same row; runs that are not equivalent may be torn
apart by one changed letter. So a second ranking is made from the first: the steps of one run rank
as they stand, and those of the other like the step they most resemble. Either run may lead; the
cheaper alignment is kept. Nothing here looks at the order in which permitted swaps were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replay.diff.align import Alignment, align
from replay.diff.costs import change
from replay.diff.order import PartialOrder
from replay.diff.steps import Declared, Step

_SIMILAR = 40
"""Above so many leftover steps of one tool on a side, they are paired as they come."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Two runs as rows of step numbers, and the alignment between them."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    alignment: Alignment

    @property
    def pairs(self) -> list[tuple[int | None, int | None]]:
        """The alignment in step numbers."""
        return [
            (None if one is None else self.left[one], None if two is None else self.right[two])
            for one, two in self.alignment.pairs
        ]


def normal_row(order: PartialOrder) -> list[int]:
    """Put a run in its own normal form."""
    return order.linearise(
        [(0.0, f"{step.name} {step.letter}", step.index) for step in order.steps]
    )


def align_runs(
    left: PartialOrder,
    left_row: Sequence[int],
    right: PartialOrder,
    right_row: Sequence[int],
    rules: Mapping[str, Declared],
) -> Rows:
    """Align two runs, each already in its own normal form; the cheapest of two readings."""
    alike = _alike(left.steps, left_row, right.steps, right_row, rules)
    led = right.linearise(_ranks(left_row, right_row, {two: one for one, two in alike}))
    first = _aligned(left, left_row, right, led, rules)
    if first.alignment.cost == 0:
        return first
    follow = left.linearise(_ranks(right_row, left_row, dict(alike)))
    second = _aligned(left, follow, right, right_row, rules)
    return first if first.alignment.cost <= second.alignment.cost else second


def _aligned(
    left: PartialOrder,
    left_row: Sequence[int],
    right: PartialOrder,
    right_row: Sequence[int],
    rules: Mapping[str, Declared],
) -> Rows:
    found = align([left.steps[at] for at in left_row], [right.steps[at] for at in right_row], rules)
    return Rows(tuple(left_row), tuple(right_row), found)


def _ranks(
    leader: Sequence[int], follower: Sequence[int], alike: Mapping[int, int]
) -> list[tuple[float, str, int]]:
    """Rank the follower's steps by the leader's row; those without a like keep their neighbours."""
    place = {step: at for at, step in enumerate(leader)}
    ranks: list[tuple[float, str, int]] = [(0.0, "", 0)] * len(follower)
    last = -1.0
    for at, step in enumerate(follower):
        if step in alike:
            last = float(place[alike[step]])
            ranks[step] = (last, "", at)
        else:
            ranks[step] = (last + 0.5, "", at)
    return ranks


def _alike(
    left: Sequence[Step],
    left_row: Sequence[int],
    right: Sequence[Step],
    right_row: Sequence[int],
    rules: Mapping[str, Declared],
) -> list[tuple[int, int]]:
    """Pair the steps that are most probably the same, whatever the order: (left, right)."""
    waiting: dict[str, list[int]] = {}
    for two in reversed(right_row):
        waiting.setdefault(right[two].letter, []).append(two)
    pairs: list[tuple[int, int]] = []
    ours: dict[tuple[str, str], list[int]] = {}
    for one in left_row:
        found = waiting.get(left[one].letter)
        if found:
            pairs.append((one, found.pop()))
        else:
            ours.setdefault((left[one].kind, left[one].name), []).append(one)
    taken = {two for _, two in pairs}
    theirs: dict[tuple[str, str], list[int]] = {}
    for two in right_row:
        if two not in taken:
            theirs.setdefault((right[two].kind, right[two].name), []).append(two)
    for name, some in ours.items():
        pairs += _most_alike(left, some, right, theirs.get(name, []), rules)
    return pairs


def _most_alike(
    left: Sequence[Step],
    ours: Sequence[int],
    right: Sequence[Step],
    theirs: Sequence[int],
    rules: Mapping[str, Declared],
) -> list[tuple[int, int]]:
    if max(len(ours), len(theirs)) > _SIMILAR:
        return list(zip(ours, theirs, strict=False))
    ranked = sorted(
        (change(left[one], right[two], rules), abs(i - k), i + k, i, one, two)
        for i, one in enumerate(ours)
        for k, two in enumerate(theirs)
    )
    pairs: list[tuple[int, int]] = []
    used: tuple[set[int], set[int]] = set(), set()
    for *_, one, two in ranked:
        if one not in used[0] and two not in used[1]:
            pairs.append((one, two))
            used[0].add(one)
            used[1].add(two)
    return pairs
