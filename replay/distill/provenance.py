"""Where the values of an offending call came from: what was shown that flowed into it.

A value flows if it stands in what the planner was shown before, or a part of it does that no prose
makes by chance: an id, a number, an address, a whole value. That is a guess, and nothing rests
on it but where the reduction looks first: the slice that it proposes is asked about like any other
candidate. What flowed must stay what it was, or the call would be another one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from replay.case.schema import same
from replay.distill import pieces, trees
from replay.distill.details import Offers
from replay.distill.draft import Draft, Place, Slot
from replay.distill.layers import Needles, Observations, Steps, Subtrees, Texts
from tracekit import jsontree
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import PointerNotFound

_SHORTEST = 3
"""Signs that a value must have to be looked for: shorter ones stand everywhere by chance."""
_SHORTEST_WORD = 4
"""Signs that a value must have that is a word, to be looked for in a text."""
_TELLING = re.compile(r"[0-9@_]|\w[/:]+\w")
"""What ids, numbers and addresses have and words have not."""
_ANSWERS = ("observation", "error")
"""Places of what calls came back with."""
_AROUND = ".,;:!?'\"`()[]{}<>"
"""What stands around a word of a text."""


@dataclass(frozen=True)
class Flow:
    """What flowed into one call."""

    tool: str
    pinned: Mapping[str, JsonValue] = field(default_factory=dict)
    """Pointer into the arguments → value that was shown before."""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pointer to a text in the arguments → what in it was shown before: ids, numbers, values."""
    needles: Needles = ()
    """Those values as texts."""
    carriers: frozenset[str] = frozenset()
    """Observations that hold one of them."""

    @property
    def values(self) -> Needles:
        """The pinned values as texts, whoever showed them."""
        pinned = (*self.pinned.values(), *(part for some in self.parts.values() for part in some))
        texts = (_needle(value) for value in pinned)
        return tuple(dict.fromkeys(text for text in texts if text))

    def is_in(self, arguments: JsonValue) -> bool:
        """Whether a call with these arguments was given the same values, at the same places."""
        try:
            return all(
                same(jsontree.get(arguments, pointer), value)
                for pointer, value in self.pinned.items()
            ) and all(
                _stands_in(part, str(jsontree.get(arguments, pointer)))
                for pointer, parts in self.parts.items()
                for part in parts
            )
        except PointerNotFound:
            return False


def flow_into(tool: str, arguments: JsonValue, draft: Draft) -> Flow:
    """Find what flowed from what ``draft`` shows into a call with these arguments."""
    return Shown(draft, tool).flow_into(arguments)


@dataclass(frozen=True)
class Shown:
    """What a draft shows to who calls one tool: read once, for however many calls."""

    draft: Draft
    tool: str

    def flow_into(self, arguments: JsonValue) -> Flow:
        """Find what of it flowed into a call with these arguments."""
        pinned: dict[str, JsonValue] = {}
        parts: dict[str, tuple[str, ...]] = {}
        needles: list[str] = []
        carriers: set[str] = set()
        for pointer, value in jsontree.walk(arguments):
            whole = _needle(value)
            if whole and any(whole in text for text in (*self._texts.values(), *self._said)):
                pinned[pointer] = value
                flowed = [whole]
            elif isinstance(value, str) and (some := tuple(self._parts(value))):
                parts[pointer] = some
                flowed = [needle for part in some if (needle := _needle(part))]
            else:
                continue
            for needle in flowed:
                places = [place for place, text in self._texts.items() if needle in text]
                named = [name for kind, name in places if kind in _ANSWERS]
                if named and not any(kind == "input" for kind, _ in places):
                    needles.append(needle)
                    # A word may stand there by chance.
                    telling = pointer in pinned or _TELLING.search(needle)
                    carriers |= set(named) if telling else set()
        flowing = tuple(dict.fromkeys(needles)) or self._words
        return Flow(self.tool, pinned, parts, flowing, frozenset(carriers))

    @cached_property
    def _slots(self) -> tuple[Slot, ...]:
        """All but what calls of the tool itself came back with."""
        own = {one.id for one in self.draft.case.observations if one.tool == self.tool}
        return tuple(
            slot
            for slot in self.draft.slots()
            if slot.place[0] not in _ANSWERS or slot.place[1] not in own
        )

    @cached_property
    def _texts(self) -> Mapping[Place, str]:
        return {s.place: json_text(s.value) for s in self._slots if s.place[0] != "script"}

    @cached_property
    def _said(self) -> tuple[str, ...]:
        return tuple(json_text(message.content) for message in self.draft.case.history)

    @cached_property
    def _values(self) -> frozenset[str]:
        """The texts that are values of observations, and no others' parts."""
        return frozenset(
            leaf.strip()
            for slot in self._slots
            if slot.place[0] == "observation"
            for _, leaf in jsontree.walk(slot.value)
            if isinstance(leaf, str) and len(leaf.strip()) >= _SHORTEST_WORD
        )

    @cached_property
    def _words(self) -> Needles:
        return _words(self.tool, self.draft)

    def _parts(self, text: str) -> Iterator[str]:
        """Yield what of a text was shown: whole values, and words that are no words of prose."""
        found = {value for value in self._values if value in text and _stands_in(value, text)}
        words = {word.strip(_AROUND) for word in text.split()}
        for word in words:
            needle = _needle(word)
            if needle is None or not _TELLING.search(word) or any(word in one for one in found):
                continue
            if any(_stands_in(needle, seen) for seen in (*self._texts.values(), *self._said)):
                found.add(word)
        yield from sorted(found, key=text.index)


def _stands_in(part: str, text: str) -> bool:
    """Whether it stands there as a whole, and is no part of another word."""
    if part not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def slices(draft: Draft, flow: Flow, offending: int | None) -> Iterator[Draft]:
    """Propose what may be all that matters, the smallest first."""
    if not flow.needles:
        return
    carrying = _carrying(draft, flow.needles)
    if not carrying:
        return
    steps = {draft.seen[name] for name in carrying} | {offending, *draft.numbers[-1:]}
    first = Steps()
    slim = first.without(draft, [number for number in first.parts(draft) if number not in steps])
    observations = Observations()
    others = [name for name in observations.parts(slim) if name not in carrying]
    slim = observations.without(slim, others)
    offers = Offers()
    yield offers.without(_only_lines(slim, flow.needles), offers.parts(slim))
    yield _only_lines(slim, flow.needles)
    yield slim


def _carrying(draft: Draft, needles: Needles) -> set[str]:
    return {
        slot.place[1]
        for slot in draft.slots()
        if slot.place[0] in _ANSWERS and trees.holds_one_of(slot.value, needles)
    }


def _only_lines(draft: Draft, needles: Needles) -> Draft:
    """Keep the fields, and the sentences of their texts, in which a needle stands."""
    for depth in range(1, max((trees.depth_of(s.value) for s in draft.slots()), default=0) + 1):
        fields = Subtrees(depth, needles)
        draft = fields.without(draft, _idle(fields.parts(draft), fields.likely(draft)))
    for kind in pieces.SPLITTERS:
        texts = Texts(kind, needles)
        draft = texts.without(draft, _idle(texts.parts(draft), texts.likely(draft)))
    return draft


def _idle(parts: Sequence[Hashable], holding: Collection[Hashable]) -> list[Hashable]:
    """The parts of observations in which nothing stands that flowed.

    Each text is split once for all of its parts, so that the cost grows with its length alone.
    """
    held = set(holding)
    return [p for p in parts if isinstance(p, tuple) and p[0][0] == "observation" and p not in held]


def _needle(value: JsonValue) -> str | None:
    if isinstance(value, bool) or value is None or not isinstance(value, (str, int, float)):
        return None
    written = json_text(value)
    if isinstance(value, str):
        written = written[1:-1]
    return written if len(written) >= _SHORTEST else None


def _words(tool: str, draft: Draft) -> Needles:
    """Words of the tool's name that stand in an observation and not in what the user said."""
    said = " ".join(
        [json_text(draft.case.input), *(json_text(content) for content in _users(draft))]
    )
    words = [w.lower() for w in re.split(r"[^A-Za-z]+", tool) if len(w) > _SHORTEST]
    shown = " ".join(json_text(fixture.returns) for fixture in draft.case.observations)
    return tuple(w for w in words if w in shown.lower() and w not in said.lower())


def _users(draft: Draft) -> Iterator[JsonValue]:
    yield from (said.content for said in draft.case.history if said.role == "user")
