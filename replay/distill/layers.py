"""The ways to take a draft apart, the coarse ones first.

What flows into the offending call is likely to matter, so parts that hold one of its values come
first in every layer; nothing depends on that but the number of questions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from replay.case import ScriptedDecision
from replay.distill import pieces, trees
from replay.distill.draft import Draft, Place, Slot
from tracekit import jsontree
from tracekit.canonical import JsonValue

Needles = tuple[str, ...]
_NAMES = {
    "input": "input",
    "history": "message",
    "turn": "turn",
    "reply": "reply",
    "script": "decision",
    "error": "error of",
}


def likely_first(values: dict[Any, JsonValue], needles: Needles) -> list[Any]:
    """Put the parts first that hold what flowed into the offending call."""
    return sorted(values, key=lambda part: not trees.holds_one_of(values[part], needles))


def holding(values: dict[Any, JsonValue], needles: Needles) -> list[Any]:
    """The parts that hold what flowed into the offending call."""
    return [part for part, value in values.items() if trees.holds_one_of(value, needles)]


@dataclass(frozen=True, slots=True)
class Steps:
    """Recorded decisions: what was decided, with the observations that came back."""

    needles: Needles = ()
    name: str = "steps"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Numbers of the decisions."""
        numbers = sorted({*whole.numbers, *(whole.seen[f.id] for f in whole.case.observations)})
        return likely_first({n: _of_step(whole, n) for n in numbers}, self.needles)

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave decisions out."""
        kept = [f for f in whole.case.observations if whole.seen[f.id] not in parts]
        less = whole.but(observations=tuple(kept))
        less = less.with_turns([at for at, n in enumerate(whole.spoken) if n not in parts])
        return less.with_script([(n, d) for n, d in _script(whole) if n not in parts])

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the decision."""
        return f"decision {part}"


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations as a whole."""

    needles: Needles = ()
    name: str = "observations"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Their ids."""
        return likely_first(self._values(whole), self.needles)

    def likely(self, whole: Draft) -> Collection[Hashable]:
        """Those that hold what flowed."""
        return holding(self._values(whole), self.needles)

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave observations out."""
        kept = tuple(f for f in whole.case.observations if f.id not in parts)
        return whole.but(observations=kept)

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the observation."""
        return f"observation {part}"

    def _values(self, whole: Draft) -> dict[str, JsonValue]:
        return {fixture.id: _shown(whole, fixture.id) for fixture in whole.case.observations}


@dataclass(frozen=True, slots=True)
class ScriptedCalls:
    """Calls of the recorded decisions, and what was said beside them."""

    name: str = "scripted calls"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Decision and place of the call; the whole decision where it holds one thing only."""
        found: list[Hashable] = []
        for number, decision in _script(whole):
            things = len(decision.calls) + (decision.message is not None)
            if things <= 1:
                found.append((number, None))
                continue
            found += [(number, place) for place in range(len(decision.calls))]
            if decision.message is not None:
                found.append((number, "message"))
        return found

    def likely(self, whole: Draft) -> Collection[Hashable]:
        """Decisions that hold one thing: they are steps, which were asked about before."""
        return [part for part in self.parts(whole) if isinstance(part, tuple) and part[1] is None]

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave calls out."""
        kept = []
        for number, decision in _script(whole):
            if (number, None) in parts:
                continue
            calls = tuple(c for at, c in enumerate(decision.calls) if (number, at) not in parts)
            said = None if (number, "message") in parts else decision.message
            if calls or said is not None:
                kept.append((number, ScriptedDecision(calls=calls, message=said)))
        return whole.with_script(kept)

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the call."""
        assert isinstance(part, tuple)
        number, place = part
        decision = dict(_script(whole))[number]
        if place == "message" or not decision.calls:
            return f"what decision {number} says"
        return f"{decision.calls[place or 0].tool} of decision {number}"


@dataclass(frozen=True, slots=True)
class Replies:
    """What the recorded model answered."""

    name: str = "replies"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Their places."""
        return range(len(whole.replies))

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave replies out."""
        kept = tuple(reply for at, reply in enumerate(whole.replies) if at not in parts)
        return whole.with_replies(kept)

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the reply."""
        return f"the model's reply {part}"


@dataclass(frozen=True, slots=True)
class Turns:
    """What the user said after the first time."""

    name: str = "turns"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Their places."""
        return range(len(whole.case.turns))

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave turns out."""
        return whole.with_turns([at for at in range(len(whole.case.turns)) if at not in parts])

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the turn."""
        assert isinstance(part, int)
        return f"the user's turn after decision {whole.spoken[part]}"


@dataclass(frozen=True, slots=True)
class History:
    """Messages before the first decision; one of the user stays."""

    name: str = "messages"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Their places."""
        users = [at for at, said in enumerate(whole.case.history) if said.role == "user"]
        return [at for at in range(len(whole.case.history)) if users != [at]]

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave messages out; what is left of a lone user's message is the input."""
        kept = tuple(s for at, s in enumerate(whole.case.history) if at not in parts)
        if not kept:
            return whole
        if len(kept) == 1 and kept[0].role == "user":
            return whole.but(history=(), input=kept[0].content)
        return whole.but(history=kept)

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the message."""
        assert isinstance(part, int)
        return f"the {whole.case.history[part].role}'s message"


@dataclass(frozen=True, slots=True)
class Subtrees:
    """Members and elements inside values, of one depth or of every."""

    depth: int | None = None
    needles: Needles = ()
    name: str = "fields"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Place of the value and pointer in it."""
        return likely_first(self._values(whole), self.needles)

    def likely(self, whole: Draft) -> Collection[Hashable]:
        """Those that hold what flowed."""
        return holding(self._values(whole), self.needles)

    def _values(self, whole: Draft) -> dict[tuple[Place, str], JsonValue]:
        found: dict[tuple[Place, str], JsonValue] = {}
        for slot in whole.slots():
            required = _required(whole, slot)
            for depth, pointer, node in trees.nodes(slot.value):
                if self.depth not in (None, depth) or (depth == 1 and not slot.may_vanish):
                    continue
                if not trees.is_required(slot.value, pointer, required):
                    found[slot.place, pointer] = node
        return found

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave subtrees out."""
        for slot, pointers in by_slot(whole, parts):
            whole = whole.with_value(slot.place, *trees.without(slot.value, slot.types, pointers))
        return whole

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the field."""
        assert isinstance(part, tuple)
        return f"{part[1]} of {named(part[0])}"


@dataclass(frozen=True, slots=True)
class Texts:
    """Pieces of the texts inside values: lines, stretches, sentences."""

    kind: str
    needles: Needles = ()

    @property
    def name(self) -> str:
        """The kind of piece."""
        return self.kind

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Place of the value, pointer of the text, number of the piece."""
        return likely_first(self._values(whole), self.needles)

    def likely(self, whole: Draft) -> Collection[Hashable]:
        """Those that hold what flowed."""
        return holding(self._values(whole), self.needles)

    def _values(self, whole: Draft) -> dict[tuple[Place, tuple[str, int]], JsonValue]:
        found: dict[tuple[Place, tuple[str, int]], JsonValue] = {}
        for slot in whole.slots():
            for pointer, text in trees.texts(slot.value):
                split = pieces.SPLITTERS[self.kind](text)
                if len(split) > 1 or (split and slot.may_vanish):
                    found |= {(slot.place, (pointer, at)): p for at, p in enumerate(split)}
        return found

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave pieces out; where something must be left, the first piece is."""
        for slot, places in by_slot(whole, parts):
            value = slot.value
            gone: dict[str, set[int]] = defaultdict(set)
            for pointer, at in places:
                gone[pointer].add(at)
            for pointer, numbers in gone.items():
                text = jsontree.get(value, pointer)
                assert isinstance(text, str)
                splitter = pieces.SPLITTERS[self.kind]
                if not slot.may_vanish and len(numbers) == len(splitter(text)):
                    numbers.discard(0)
                value = jsontree.replace(value, pointer, pieces.without(text, splitter, numbers))
            whole = whole.with_value(slot.place, value, slot.types)
        return whole

    def label(self, whole: Draft, part: Hashable) -> str:
        """Quote the piece."""
        assert isinstance(part, tuple)
        place, (pointer, at) = part
        slot = next(slot for slot in whole.slots() if slot.place == place)
        text = jsontree.get(slot.value, pointer)
        return f"{pieces.SPLITTERS[self.kind](str(text))[at].strip()[:60]!r} in {named(place)}"


# --- helpers --------------------------------------------------------------------------------------


def _script(whole: Draft) -> Iterator[tuple[int, ScriptedDecision]]:
    return zip(whole.numbers, whole.case.script, strict=True)


def _of_step(whole: Draft, number: int) -> JsonValue:
    shown = [_shown(whole, f.id) for f in whole.case.observations if whole.seen[f.id] == number]
    decided = [d.model_dump(mode="json") for n, d in _script(whole) if n == number]
    return [*shown, *decided]


def _shown(whole: Draft, name: str) -> JsonValue:
    fixture = whole.fixture(name)
    return fixture.returns if fixture.error is None else fixture.error.message


def _required(whole: Draft, slot: Slot) -> frozenset[str]:
    if slot.place[0] != "observation":
        return frozenset()
    return trees.required_members(whole.schemas.get(whole.fixture(slot.place[1]).tool))


def by_slot(whole: Draft, parts: Collection[Hashable]) -> Iterator[tuple[Slot, list[Any]]]:
    """Yield each value that has some of the parts, with what they are in it."""
    by_place: dict[Place, list[Any]] = defaultdict(list)
    for part in parts:
        assert isinstance(part, tuple)
        by_place[part[0]].append(part[1])
    for slot in list(whole.slots()):
        if slot.place in by_place:
            yield slot, by_place[slot.place]


def named(place: Place) -> str:
    """What a reader calls a value."""
    kind, name = place
    return " ".join(filter(None, (_NAMES.get(kind, ""), name)))
