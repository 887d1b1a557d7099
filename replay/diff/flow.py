"""Which values a step uses, and in which observations they were first seen.

A planner that copies an id out of an observation depends on that observation. The values compared
are whole leaves of the arguments (strings of three characters, numbers of two digits or more), and
what looks like an identifier inside longer text: four characters or more with a digit, a capital
after the first letter, or one of ``@ . / _ : -`` among them. A plain word that happens to occur
twice is no evidence. What a step echoes of its own arguments was not first seen there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from replay.diff.phrases import Phrases
from replay.diff.steps import Step
from tracekit.canonical import JsonValue, canonical_text
from tracekit.trajectory import Trajectory

_WORD = re.compile(r"\w[\w@./:+-]*\w|\w")
_INSIDE = re.compile(r"\d|[@./_:-]|.[A-Z]")
_NUMBER = re.compile(r"-?[\d.]+")
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""What stands in JSON text as it is."""
_LONGEST = 300


class Flow:
    """What every step of a run was given and what it used."""

    def __init__(self, run: Trajectory, steps: Sequence[Step]) -> None:
        told = [run.input.value, *(m.content for m in run.messages if m.before_decision <= 1)]
        used = _used_first_hand([_used(step) for step in steps], told)
        wanted = frozenset[str]().union(*used)
        shown = [_shown(step) & wanted for step in steps] if wanted else [set[str]() for _ in steps]
        phrases = _phrases(wanted)
        self.looks = 0
        """How often a value with spaces or the like was looked for in an observation."""
        if phrases:
            index = Phrases(step.outcome_text for step in steps)
            for text, places in index.find(phrases):
                for at in places:
                    shown[at].add(phrases[text])
            self.looks = index.looks
        self.provides = [frozenset(some - own) for some, own in zip(shown, used, strict=True)]
        """Per step, the values that what came back showed and its own arguments did not hold."""
        seen = frozenset[str]().union(*self.provides)
        self.uses = [frozenset(values & seen) for values in used]
        """Per step, the values in its arguments that some observation of the run shows."""

    @cached_property
    def first_shown(self) -> dict[str, int]:
        """The first step whose observation shows each value."""
        found: dict[str, int] = {}
        for index, values in enumerate(self.provides):
            for value in values:
                found.setdefault(value, index)
        return found


def _used_first_hand(used: Sequence[set[str]], told: list[JsonValue]) -> list[set[str]]:
    """Take what the planner was told at the beginning out of what its steps used."""
    given = _words(told)
    phrases = _phrases(set[str]().union(*used) - given)
    if phrases:
        found = Phrases([canonical_text(told)]).find(phrases)
        given.update(phrases[text] for text, _ in found)
    return [values - given for values in used]


def _phrases(values: Iterable[str]) -> dict[str, str]:
    """Give the values that are no single words, as they stand in JSON text."""
    return {
        value if _PLAIN.fullmatch(value) else canonical_text(value)[1:-1]: value
        for value in values
        if not _WORD.fullmatch(value)
    }


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
        elif isinstance(node, int | float) and not isinstance(node, bool):
            numbers.append(node)
    if numbers:
        found += canonical_text(numbers)[1:-1].split(",")
    return found


def _words(value: JsonValue) -> set[str]:
    leaves = _leaves(value)
    found = set(_WORD.findall("\n".join(leaves)))
    found.update(leaf for leaf in leaves if len(leaf) <= _LONGEST)
    return found


def _shown(step: Step) -> set[str]:
    if step.call is None:
        return _words(step.arguments) if step.kind == "turn" else set()
    return _words(step.call.observation.digest_form)


def _used(step: Step) -> set[str]:
    if step.call is None:
        return set()
    leaves = _leaves(step.arguments)
    words = _WORD.findall("\n".join(leaves))
    found = {word for word in words if len(word) >= 4 and _INSIDE.search(word)}
    for leaf in leaves:
        shortest = 2 if _NUMBER.fullmatch(leaf) else 3
        if shortest <= len(leaf) <= _LONGEST and leaf.strip():
            found.add(leaf)
    return found
