"""Which values a step uses, and in which observations they were first seen.

A planner that copies an id out of an observation depends on that observation. The values compared
are whole leaves of the arguments (strings of three characters, numbers of two digits or more), and
what looks like an identifier inside longer text: four characters or more with a digit, a capital
after the first letter, or one of ``@ . / _ : -`` among them. A plain word that happens to occur
twice is no evidence. What a step echoes of its own arguments was not first seen there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from replay.diff.arguments import came_back
from replay.diff.phrases import Phrases
from replay.diff.steps import Step
from tracekit.canonical import JsonValue, canonical_text
from tracekit.canonical.text import SAFE_INT
from tracekit.trajectory import Trajectory

WORD = re.compile(r"\w[\w@./:+-]*\w|\w")
"""What a value inside longer text is: a word with what joins its parts."""
_INSIDE = re.compile(r"\d|[@./_:-]|.[A-Z]")
_NUMBER = re.compile(r"-?[\d.]+")
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""What stands in JSON text as it is."""
_LONGEST = 300
_NOTHING: frozenset[str] = frozenset()
SINGLY = 60
"""So few values are looked for one after the other."""
QUICKLY = 2_000_000
"""Values times characters: so much is looked through before anything is taken apart."""


class Values:
    """What was read out of texts before; two runs that are compared hold mostly the same ones."""

    def __init__(self) -> None:
        self._used: dict[str, frozenset[str]] = {}
        self._used_in: dict[str, frozenset[str]] = {}
        self._shown: dict[str, frozenset[str]] = {}
        self._texts: dict[str, str] = {}

    def used(self, step: Step) -> frozenset[str]:
        """Give the values in the arguments of a call."""
        if step.call is None:
            return frozenset()
        found = self._used.get(step.arguments_text)
        if found is None:
            known = self._used_in
            leaves = _leaves(step.arguments)
            for leaf in leaves:
                if leaf not in known:
                    known[leaf] = _used_in(leaf)
            found = frozenset[str]().union(*[known[leaf] for leaf in leaves])
            self._used[step.arguments_text] = found
        return found

    def shown(self, text: str, value: JsonValue) -> frozenset[str]:
        """Give the words and short texts in a value, of which ``text`` is the canonical text."""
        found = self._shown.get(text)
        if found is None:
            found = self._shown[text] = frozenset(words_in(value))
        return found

    def as_text(self, values: Iterable[str]) -> dict[str, str]:
        """Give values by how they stand in JSON text."""
        known = self._texts
        for value in values:
            if value not in known:
                plain = _PLAIN.fullmatch(value)
                known[value] = value if plain else canonical_text(value)[1:-1]
        return {known[value]: value for value in values}


class Flow:
    """What every step of a run was given and what it used."""

    def __init__(self, run: Trajectory, steps: Sequence[Step], values: Values) -> None:
        told: JsonValue = [
            came_back(run.input), *(m.content for m in run.messages if m.before_decision <= 1)
        ]  # fmt: skip
        used = _used_first_hand([values.used(step) for step in steps], told, values)
        wanted = values.as_text(frozenset[str]().union(*used))
        texts = [_shown_text(step) for step in steps]
        few = len(wanted) * sum(map(len, texts)) <= QUICKLY
        if few:
            wanted = _occurring(wanted, "\n".join(texts))
        self.looks = 0
        """How often a value with spaces or the like was looked for in an observation."""
        self.provides: Sequence[frozenset[str]] = [_NOTHING] * len(steps)
        """Per step, the values that what came back showed and its own arguments did not hold."""
        self.uses: Sequence[frozenset[str]] = self.provides
        """Per step, the values in its arguments that some observation of the run shows."""
        if not wanted:
            return
        shown = [set[str]() for _ in steps]
        words = frozenset(wanted.values())
        for at, (step, text) in enumerate(zip(steps, texts, strict=True)):
            if text and not (few and not any(one in text for one in wanted)):
                shown[at] |= values.shown(text, _shown(step)) & words
        self.looks = _look_for_phrases(wanted, steps, shown)
        self.provides = [frozenset(some - own) for some, own in zip(shown, used, strict=True)]
        seen = frozenset[str]().union(*self.provides)
        self.uses = [values & seen for values in used]

    @cached_property
    def first_shown(self) -> dict[str, int]:
        """The first step whose observation shows each value."""
        found: dict[str, int] = {}
        for index, values in enumerate(self.provides):
            for value in values:
                found.setdefault(value, index)
        return found


def _occurring(wanted: Mapping[str, str], text: str) -> dict[str, str]:
    """Leave out what cannot have been shown by any of the texts joined in ``text``.

    Where nothing in them is written otherwise than it is, every word that is shown is one there.
    """
    words = frozenset[str]()
    if len(wanted) > SINGLY and "\\" not in text:
        words = frozenset(WORD.findall(text))
    return {
        one: value
        for one, value in wanted.items()
        if one in words or (not (words and WORD.fullmatch(one)) and one in text)
    }


def _used_first_hand(
    used: Sequence[frozenset[str]], told: JsonValue, values: Values
) -> Sequence[frozenset[str]]:
    """Take what the planner was told at the beginning out of what its steps used."""
    text = canonical_text(told)
    given = values.shown(text, told)
    others = values.as_text(frozenset[str]().union(*used) - given)
    phrases = [one for one, value in others.items() if not WORD.fullmatch(value)]
    given |= {others[phrase] for phrase, _ in Phrases([text]).find(phrases)}
    return [values - given for values in used]


def _look_for_phrases(
    wanted: Mapping[str, str], steps: Sequence[Step], shown: Sequence[set[str]]
) -> int:
    """Look for the values that are no single words in all observations; count the looks."""
    phrases = [text for text, value in wanted.items() if not WORD.fullmatch(value)]
    if not phrases:
        return 0
    index = Phrases([step.outcome_text for step in steps])
    for text, places in index.find(phrases):
        for at in places:
            shown[at].add(wanted[text])
    return index.looks


def _leaves(value: JsonValue) -> list[str]:
    """List the texts and numbers in a value."""
    found: list[str] = []
    numbers: list[JsonValue] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
        elif type(node) is int and -SAFE_INT <= node <= SAFE_INT:
            found.append(str(node))  # as it is written in any case
        elif isinstance(node, int | float) and not isinstance(node, bool):
            numbers.append(node)
    if numbers:
        found += canonical_text(numbers)[1:-1].split(",")
    return found


def words_in(value: JsonValue) -> set[str]:
    """Give the words and short texts in a value."""
    leaves = _leaves(value)
    found = set(WORD.findall("\n".join(leaves)))
    found.update(leaf for leaf in leaves if len(leaf) <= _LONGEST)
    return found


def _shown(step: Step) -> JsonValue:
    return step.arguments if step.call is None else came_back(step.call.observation)


def _shown_text(step: Step) -> str:
    """Give the text of what a step showed to the planner; what it said itself is not among it."""
    if step.call is None:
        return step.arguments_text if step.kind == "turn" else ""
    return step.outcome_text


def _used_in(leaf: str) -> frozenset[str]:
    """Give the values in a text or a number: itself, and what looks like an identifier within."""
    found = {word for word in WORD.findall(leaf) if len(word) >= 4 and _INSIDE.search(word)}
    shortest = 2 if _NUMBER.fullmatch(leaf) else 3
    if shortest <= len(leaf) <= _LONGEST and leaf.strip():
        found.add(leaf)
    return frozenset(found)
