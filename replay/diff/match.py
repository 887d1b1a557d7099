"""Labels put on an alignment: what moved, and what was made anew.

The alignment knows only pairs and steps without counterpart. A step that is missing here and added
there is a move; so are changes that are each other's reverse. Of those as few as possible are
named: a longest row of pairs that both sides have in one order counts as standing still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replay.diff.normal import Rows
from replay.diff.order import PartialOrder
from replay.diff.rising import longest_rising
from replay.diff.steps import Step

_Pair = tuple[int, int]
_TRIES = 8
"""How many of the steps without counterpart, and of those in groups, are tried."""


@dataclass(frozen=True, slots=True)
class Match:
    """A step and its counterpart, by number; None where there is none."""

    left: int | None
    right: int | None
    moved: bool = False


def label_moves(rows: Rows, left: Sequence[Step], right: Sequence[Step]) -> list[Match]:
    """Find the moves in an alignment."""
    kept: list[_Pair] = []
    changed: list[_Pair] = []
    missing: list[int] = []
    added: list[int] = []
    for one, two in rows.pairs:
        if one is not None and two is not None:
            same = left[one].arguments_text == right[two].arguments_text
            (kept if same else changed).append((one, two))
        elif one is not None:
            missing.append(one)
        elif two is not None:
            added.append(two)
    exchanged = _exchanged(changed, missing, added, left, right)
    missing += [one for one, _ in exchanged]
    added += [two for _, two in exchanged]
    again = _pair_again(missing, added, left, right)
    settled = {one for one, _ in again}, {two for _, two in again}
    alone = {
        (one, two) for one, two in exchanged if one not in settled[0] and two not in settled[1]
    }
    still = [*kept, *(pair for pair in changed if pair not in exchanged or pair in alone)]
    if exchanged:
        still, again = _settle(rows, still, again)
    if again:
        still, again = _shortest_moves(rows, still, again, (left, right))
    matches = [Match(*pair) for pair in still]
    matches += [Match(*pair, moved=True) for pair in again]
    paired = {m.left for m in matches}, {m.right for m in matches}
    matches += [Match(one, None) for one in missing if one not in paired[0]]
    matches += [Match(None, two) for two in added if two not in paired[1]]
    return matches


def _exchanged(
    changed: Sequence[_Pair],
    missing: Iterable[int],
    added: Iterable[int],
    left: Sequence[Step],
    right: Sequence[Step],
) -> set[_Pair]:
    """Name the changed pairs whose both halves have an equal elsewhere."""
    pool = set(changed)
    while True:
        here = Counter(left[one].action for one in (*missing, *(one for one, _ in pool)))
        there = Counter(right[two].action for two in (*added, *(two for _, two in pool)))
        stays = {
            (one, two) for one, two in pool if there[left[one].action] and here[right[two].action]
        }
        if stays == pool:
            return pool
        pool = stays


def _pair_again(
    missing: Sequence[int], added: Sequence[int], left: Sequence[Step], right: Sequence[Step]
) -> list[_Pair]:
    """Pair equal calls without counterpart, those with equal outcomes first."""
    pairs: list[_Pair] = []
    taken: set[int] = set()
    for exact in (True, False):
        waiting: dict[str, list[int]] = {}
        for two in sorted(added, reverse=True):
            if two not in taken:
                key = right[two].letter if exact else right[two].action
                waiting.setdefault(key, []).append(two)
        done = {one for one, _ in pairs}
        for one in sorted(missing):
            key = left[one].letter if exact else left[one].action
            if one not in done and waiting.get(key):
                pairs.append((one, waiting[key].pop()))
        taken = {two for _, two in pairs}
    return pairs


def _settle(
    rows: Rows, still: Sequence[_Pair], again: Sequence[_Pair]
) -> tuple[list[_Pair], list[_Pair]]:
    """Decide which of the pairs moved: those outside a longest row in common order."""
    at = {one: position for position, one in enumerate(rows.left)}
    place = {two: position for position, two in enumerate(rows.right)}
    pairs = sorted((*still, *again), key=lambda pair: at[pair[0]])
    standing = longest_rising([place[two] for _, two in pairs])
    kept = [pair for n, pair in enumerate(pairs) if n in standing]
    return kept, [pair for n, pair in enumerate(pairs) if n not in standing]


def _shortest_moves(
    rows: Rows,
    still: Sequence[_Pair],
    again: Sequence[_Pair],
    steps: tuple[Sequence[Step], Sequence[Step]],
) -> tuple[list[_Pair], list[_Pair]]:
    """Of several equal steps, let the one that stands nearest to its place have moved."""
    places = tuple({step: n for n, step in enumerate(row)} for row in (rows.left, rows.right))
    kept = sorted(still, key=lambda pair: places[0][pair[0]])
    alike: dict[tuple[int, str], list[int]] = {}
    for number, pair in enumerate(kept):
        for side in (0, 1):
            alike.setdefault((side, steps[side][pair[side]].letter), []).append(number)
    moved = []
    for pair in again:
        for side in (0, 1):
            for number in alike.get((side, steps[side][pair[side]].letter), ()):
                own, new, goal = pair[side], kept[number][side], pair[1 - side]
                around = kept[max(0, number - 1) : number], kept[number + 1 : number + 2]
                here, place = places[side][own], places[side]
                if (
                    abs(new - goal) < abs(own - goal)
                    and all(place[before[side]] < here for before in around[0])
                    and all(here < place[after[side]] for after in around[1])
                ):
                    kept[number] = _with(kept[number], side, own)
                    pair = _with(pair, side, new)
        moved.append(pair)
    return kept, moved


def _with(pair: _Pair, side: int, step: int) -> _Pair:
    return (step, pair[1]) if side == 0 else (pair[0], step)


def settle_groups(
    matches: Sequence[Match], left: PartialOrder, right: PartialOrder
) -> tuple[list[Match], list[tuple[Match, Match]]]:
    """Name what was issued together on one side only; equal steps are paired so that less is.

    Where one of several equal steps has no counterpart, nobody can tell which; so let it be the one
    without which the groups fit.
    """
    best, groups = list(matches), regrouped(matches, left, right)
    for side in (0, 1):
        alone = [m for m in best if (m.left, m.right)[1 - side] is None] if groups else []
        for match in alone[:_TRIES]:
            for two in [two for pair in groups for two in pair][:_TRIES]:
                if other := _repaired(best, match, two, side, (left.steps, right.steps)):
                    fewer = regrouped(other, left, right)
                    if len(fewer) < len(groups):
                        best, groups = other, fewer
                        break
    return best, groups


def _repaired(
    matches: Sequence[Match],
    alone: Match,
    other: Match,
    side: int,
    steps: tuple[Sequence[Step], Sequence[Step]],
) -> list[Match] | None:
    """Leave the step of ``other`` without counterpart instead of ``alone``, if they are equal."""
    free, taken = (alone.left, alone.right)[side], (other.left, other.right)[side]
    if free is None or taken is None:
        return None
    letter = steps[side][free].letter
    if steps[side][taken].letter != letter:
        return None
    like = [
        m
        for m in matches
        if m.left is not None and m.right is not None and not m.moved
        if steps[0][m.left].letter == steps[1][m.right].letter == letter
    ]
    if other not in like:
        return None
    ends = [[(m.left, m.right)[at] for m in like] for at in (0, 1)]
    ends[side] = [free if step == taken else step for step in ends[side]]
    pairs = zip(*(sorted(step for step in some if step is not None) for some in ends), strict=True)
    kept = [m for m in matches if m not in like and m != alone]
    lone = Match(taken, None) if side == 0 else Match(None, taken)
    return [*kept, *(Match(*pair) for pair in pairs), lone]


def regrouped(
    matches: Sequence[Match], left: PartialOrder, right: PartialOrder
) -> list[tuple[Match, Match]]:
    """Name the pairs of calls that were issued together on one side only, and mind it."""
    found: dict[tuple[int, int], tuple[Match, Match]] = {}
    numbered = list(enumerate(matches))
    for side in (left, right):
        groups: dict[int, list[int]] = {}
        for number, match in numbered:
            mine = match.left if side is left else match.right
            if match.left is None or match.right is None or match.moved or mine is None:
                continue
            groups.setdefault(side.steps[mine].decision, []).append(number)
        for group in groups.values():
            if len(group) == 1 or not any(_writes(matches[n], left, right) for n in group):
                continue
            for i, one in enumerate(group):
                for two in group[i + 1 :]:
                    if _minds(matches[one], matches[two], left, right, side):
                        found[min(one, two), max(one, two)] = (matches[one], matches[two])
    return list(found.values())


def _writes(match: Match, left: PartialOrder, right: PartialOrder) -> bool:
    return (match.left is not None and left.steps[match.left].writes) or (
        match.right is not None and right.steps[match.right].writes
    )


def _minds(
    one: Match, two: Match, left: PartialOrder, right: PartialOrder, side: PartialOrder
) -> bool:
    """Whether ``side`` has two steps at once, the other one after the other, and that matters."""
    other = right if side is left else left
    (here, there), (here_too, there_too) = (
        (match.left, match.right) if side is left else (match.right, match.left)
        for match in (one, two)
    )
    if here is None or here_too is None or there is None or there_too is None:
        return False
    together = other.steps[there].decision == other.steps[there_too].decision
    if together and not other.in_turn(there, there_too):
        return False
    if (together or side.is_by_time(here)) and (side.is_replay or other.is_replay):
        return False  # a replay answers at once, so that nothing overlaps there
    return other.conflict(there, there_too) and not side.in_turn(here, here_too)


def retries(steps: Sequence[Step]) -> set[int]:
    """Name the calls that were made twice: one right after its like, or around a failed attempt."""
    found: set[int] = set()
    likes: dict[tuple[bool, str, str], list[Step]] = {}
    calls = [step for step in steps if step.call is not None]
    before: Step | None = None
    key: tuple[bool, str, str] | None = None
    for step in calls:
        last, key = key, (True, step.name, step.unkeyed_text)
        likes.setdefault(key, []).append(step)
        if before is not None and last == key:
            found |= {before.index, step.index}
        before = step
    for group in likes.values():
        if len(group) > 1 and any(
            step.call is not None and step.call.observation.is_error for step in group
        ):
            found |= {step.index for step in group}
    return found
