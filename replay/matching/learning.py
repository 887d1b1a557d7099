"""Learnt aliases: ids, times and tokens that code made without ``conditions``, paired by place.

A planner that calls ``uuid4()`` itself makes another id in each run, and nothing tells which stands
for which. Where the user allows it, two values are paired that stand at the same place of otherwise
equal arguments, look alike (both a UUID, both a time) and were made by the planner: the recorded
one was neither given to it nor observed before, the new one is nowhere in the record. Each stands
for one other, for the rest of the replay. That is a guess, so no write is ever found by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from replay.matching.aliases import Aliases
from replay.tape import Tape
from tracekit.canonical import JsonValue, canonical_text, digest
from tracekit.jsontree import walk

_HEX = "[0-9a-fA-F]"
_MADE = re.compile(
    rf"(?P<uuid>\b{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)"
    rf"|(?P<hex>\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F]){_HEX}{{16,}}\b)"
    r"|(?P<epoch>\b1\d{9}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b)"
    r"|(?P<token>(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}(?![\w-]))"
)
"""How values look that are made anew for each run."""
_SMALLEST_NUMBER = 1_000_000_000
_SHOWN = 2

Pair = tuple[JsonValue, JsonValue]
"""A new value and the recorded one that it stands for."""


class Learner:
    """Sees made values only by their look, and keeps the aliases that came of it."""

    name = "learnt"
    by_key_alone = False

    def __init__(self, tape: Tape) -> None:
        self.aliases = Aliases()
        self._tape = tape
        self._stands_for: dict[str, str] = {}
        self._stood_for: set[str] = set()

    def key(self, arguments: JsonValue) -> str:
        """Digest of the arguments with a mark of its kind for each value that may be made."""
        return digest(_skeleton(arguments))

    def agrees(self, recorded: JsonValue, asked: JsonValue) -> bool:
        """Tell whether all that differs may be paired, and does not contradict what is known."""
        found: dict[str, str] = {}
        for new, old in _pairs(recorded, asked):
            one, other = canonical_text(new), canonical_text(old)
            if found.setdefault(one, other) != other or not self._may_pair(one, other):
                return False
        return len(set(found.values())) == len(found)

    def learn(self, recorded: JsonValue, asked: JsonValue) -> str:
        """Pair what differs between two equal structures; say what was learnt."""
        if self.key(recorded) != self.key(asked) or not self.agrees(recorded, asked):
            return ""
        said = []
        for new, old in _pairs(recorded, asked):
            one, other = canonical_text(new), canonical_text(old)
            if one not in self._stands_for:
                self._stands_for[one] = other
                self._stood_for.add(other)
                self.aliases.pair(new, old)
                said.append(f"{one} stands for {other}")
        more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        return f"learnt: {', '.join(said[:_SHOWN])}{more}" if said else ""

    def _may_pair(self, new: str, old: str) -> bool:
        if new in self._stands_for:
            return self._stands_for[new] == old
        return old not in self._stood_for and new not in self._known and self._is_made(old)

    def _is_made(self, old: str) -> bool:
        """Whether the recorded planner made a value: it used it before it could have seen it."""
        if old in self._given:
            return False
        used, seen = self._first_used.get(old), self._first_seen.get(old)
        return seen is None or (used is not None and used <= seen)

    @cached_property
    def _given(self) -> set[str]:
        record = self._tape.trajectory
        given: list[JsonValue] = [record.input.value, *(m.content for m in record.messages)]
        return {text for value in given for text in _texts(value)}

    @cached_property
    def _first_used(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for recorded in self._tape.calls:
            for text in _texts(recorded.arguments):
                found.setdefault(text, recorded.index)
        return found

    @cached_property
    def _first_seen(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for recorded in self._tape.calls:
            for text in _texts(recorded.call.observation.value):
                found.setdefault(text, recorded.index)
        return found

    @cached_property
    def _known(self) -> set[str]:
        """All made values of the record: one of these that turns up now is no new one."""
        replies = {t for m in self._tape.trajectory.model_calls for t in _texts(m.reply.value)}
        return replies | self._given | self._first_used.keys() | self._first_seen.keys()


def _skeleton(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _MADE.sub(lambda found: f"\0{found.lastgroup}\0", value)
    if isinstance(value, dict):
        return {name: _skeleton(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_skeleton(item) for item in value]
    return "\0number\0" if _is_made_number(value) else value


def _pairs(recorded: JsonValue, asked: JsonValue) -> Iterator[Pair]:
    """Yield the made values that differ, of two values with one skeleton."""
    theirs = dict(walk(asked))
    for place, old in walk(recorded):
        for was, now in zip(_made_in(old), _made_in(theirs.get(place)), strict=False):
            if canonical_text(was) != canonical_text(now):
                yield now, was


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield every made value within ``value`` as canonical text."""
    for _, leaf in walk(value):
        yield from (canonical_text(made) for made in _made_in(leaf))


def _made_in(leaf: JsonValue) -> list[JsonValue]:
    if isinstance(leaf, str):
        return [found[0] for found in _MADE.finditer(leaf)]
    return [leaf] if _is_made_number(leaf) else []


def _is_made_number(value: JsonValue) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) >= _SMALLEST_NUMBER
