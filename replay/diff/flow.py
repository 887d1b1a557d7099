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

from replay.diff.steps import Step
from tracekit.canonical import JsonValue, canonical_text
from tracekit.jsontree import walk
from tracekit.trajectory import Trajectory

_WORD = re.compile(r"\w[\w@./:+-]*\w|\w")
_INSIDE = re.compile(r"\d|[@./_:-]|.[A-Z]")
_NUMBER = re.compile(r"-?[\d.]+")
_LONGEST = 300


class Flow:
    """What every step of a run was given and what it used."""

    def __init__(self, run: Trajectory, steps: Sequence[Step]) -> None:
        told = [run.input.value, *(m.content for m in run.messages if m.before_decision <= 1)]
        given, given_text = _words(told), canonical_text(told)
        shown = [_shown(step) for step in steps]
        self.provides: list[frozenset[str]] = []
        """Per step, the values that what came back showed and its own arguments did not hold."""
        self.uses: list[frozenset[str]] = []
        """Per step, the values in its arguments that some observation of the run shows."""
        used = [_used(step) - given for step in steps]
        wanted = frozenset[str]().union(*used) if used else frozenset()
        phrases = {value for value in wanted if not _WORD.fullmatch(value)}
        escaped = {value: canonical_text(value)[1:-1] for value in phrases}
        known = {value for value, text in escaped.items() if text in given_text}
        escaped = {value: text for value, text in escaped.items() if value not in known}
        for step, words, own in zip(steps, shown, used, strict=True):
            held = {value for value, text in escaped.items() if text in step.outcome_text}
            self.provides.append(frozenset(((words & wanted) | held) - own))
        seen = frozenset[str]().union(*self.provides) if self.provides else frozenset()
        self.uses = [frozenset(values & seen - known) for values in used]


def _leaves(value: JsonValue) -> Iterable[str]:
    for _, leaf in walk(value):
        if isinstance(leaf, str):
            yield leaf
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            yield canonical_text(leaf)


def _words(value: JsonValue) -> set[str]:
    found: set[str] = set()
    for leaf in _leaves(value):
        found.update(_WORD.findall(leaf))
        if len(leaf) <= _LONGEST:
            found.add(leaf)
    return found


def _shown(step: Step) -> set[str]:
    if step.call is None:
        return _words(step.arguments) if step.kind == "turn" else set()
    return _words(step.call.observation.digest_form)


def _used(step: Step) -> set[str]:
    if step.call is None:
        return set()
    found: set[str] = set()
    for leaf in _leaves(step.arguments):
        shortest = 2 if _NUMBER.fullmatch(leaf) else 3
        if shortest <= len(leaf) <= _LONGEST and leaf.strip():
            found.add(leaf)
        found.update(
            word for word in _WORD.findall(leaf) if len(word) >= 4 and _INSIDE.search(word)
        )
    return found
