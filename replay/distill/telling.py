"""What tells observations of one tool apart: by which arguments each is found.

Where two calls of a read asked for different things and came to different ones, each answer must
stay that call's, in whatever order a planner asks. So the arguments of an observation go only as
far as what is left of them still fits none of those others; no part of a draft takes more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay.case import Fixture
from replay.distill.draft import Draft
from tracekit.canonical import JsonValue, json_text

Leaf = tuple[tuple[str, ...], str]
"""Names of the way to a value in the arguments, and the value as text; a list is one value."""


@dataclass(frozen=True)
class _Asked:
    """What the observations of one tool answered."""

    answers: Mapping[str, str]
    """Observation → what it says, as text."""
    leaves: Mapping[str, Mapping[Leaf, JsonValue]]
    """Observation → what was asked for in the run, value by value."""
    holding: Mapping[Leaf, frozenset[str]]
    """Value → observations of calls that had it."""

    def fitting(self, leaves: Mapping[Leaf, JsonValue]) -> frozenset[str]:
        """Observations of calls that have all these values."""
        found = frozenset(self.answers)
        for leaf in leaves:
            found &= self.holding.get(leaf, frozenset())
        return found

    def others(self, name: str) -> frozenset[str]:
        """Observations that say something else, and that were asked for otherwise."""
        unlike = {other for other, said in self.answers.items() if said != self.answers[name]}
        return frozenset(unlike) - self.fitting(self.leaves[name])


def telling(whole: Draft) -> dict[str, dict[str, JsonValue] | None]:
    """Return what must stay of the arguments of each read that was asked for by some.

    The values that tell it from most others come first, until it is told from all.
    """
    found: dict[str, dict[str, JsonValue] | None] = {}
    for fixtures in _reads(whole):
        asked = _asked(whole, fixtures)
        for fixture in fixtures:
            if fixture.arguments:
                kept = _kept(asked, fixture.id)
                found[fixture.id] = _nested(kept) if kept else None
    return found


def mistaken(whole: Draft) -> str | None:
    """Name a tool of which some observation would answer a call that came to another one."""
    for fixtures in _reads(whole):
        cut = [f for f in fixtures if f.arguments != whole.asked.get(f.id)]
        if not cut or len(fixtures) == 1:
            continue
        asked = _asked(whole, fixtures)
        for fixture in cut:
            if asked.others(fixture.id) & asked.fitting(_leaves(fixture.arguments)):
                return fixture.tool
    return None


def _kept(asked: _Asked, name: str) -> dict[Leaf, JsonValue]:
    left, kept = asked.others(name), {}
    while left:
        leaf = min(asked.leaves[name], key=lambda leaf: len(left & asked.holding[leaf]))
        kept[leaf] = asked.leaves[name][leaf]
        left &= asked.holding[leaf]
    return kept


def _reads(whole: Draft) -> Iterator[list[Fixture]]:
    by_tool: dict[str, list[Fixture]] = defaultdict(list)
    for fixture in whole.case.observations:
        if fixture.tool not in whole.writes:
            by_tool[fixture.tool].append(fixture)
    yield from by_tool.values()


def _asked(whole: Draft, fixtures: list[Fixture]) -> _Asked:
    leaves = {f.id: _leaves(whole.asked.get(f.id)) for f in fixtures}
    holding: dict[Leaf, set[str]] = defaultdict(set)
    for name, own in leaves.items():
        for leaf in own:
            holding[leaf].add(name)
    return _Asked(
        {f.id: _said(f) for f in fixtures},
        leaves,
        {leaf: frozenset(names) for leaf, names in holding.items()},
    )


def _said(fixture: Fixture) -> str:
    if fixture.error is not None:
        return json_text(fixture.error.model_dump(mode="json"))
    return json_text([fixture.returns, fixture.types])


def _leaves(value: JsonValue, way: tuple[str, ...] = ()) -> dict[Leaf, JsonValue]:
    """Take arguments apart into what a fixture asks for one by one."""
    if isinstance(value, dict):
        inner = (_leaves(item, (*way, name)) for name, item in value.items())
        return {leaf: item for leaves in inner for leaf, item in leaves.items()}
    return {(way, json_text(value)): value} if way else {}


def _nested(leaves: Mapping[Leaf, JsonValue]) -> dict[str, JsonValue]:
    root: dict[str, Any] = {}
    for (way, _), value in leaves.items():
        place = root
        for name in way[:-1]:
            place = place.setdefault(name, {})
        place[way[-1]] = value
    return root
