"""Which divergences follow from others.

A divergence is a *consequence* when the record itself shows that the step was given something else:

- its arguments hold a value first seen in an observation that differs or is missing on one side,
  or a value of the run's input that the input of the other run does not hold; of a write, all that
  differs must be such values, on both sides: a payment with another amount *and* another receiver
  does not follow from an amount;
- it is the observation, or the evidence, of a call that was made with other arguments;
- it is an observation, and an earlier write that it could see differs;
- it is no write, and missing (or added) because the other run had already ended: what that run did
  last differs, or it is not the first step that it lacks;
- it comes after all that a run has done which has not ended yet;
- it is the final answer, something said, or a user's turn, and anything before it differs; or it
  was said beside calls that differ.

Everything else is a *cause*. The planner saw its whole history at each decision, so a later step
may differ because of an earlier one without any value to show for it; such a step is listed as a
cause, which errs on the side of looking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from replay.diff.flow import WORD, words_in
from replay.diff.order import PartialOrder
from replay.diff.phrases import held_in
from replay.diff.steps import Step
from tracekit.canonical import JsonValue, canonical_text
from tracekit.jsontree import Difference, walk

_WORD = re.compile(r"\w[\w@.+-]+\w|\d\d")
_GIVEN = "\0"
"""Stands for a value that a step was given."""
NO_END = "the run has no end: it is under way, or was broken off"
_LONGEST = 100_000
"""A longer text is not taken apart to see whether all of it was given."""


@dataclass
class Side:
    """What is known of one run while its divergences are judged."""

    name: str
    order: PartialOrder
    disturbed: dict[int, str] = field(default_factory=dict)
    """Steps whose observation the other run did not get, and what it got instead."""
    acted: set[int] = field(default_factory=set)
    """Steps that the planner took otherwise than in the other run."""
    given: JsonValue = None
    """Its input."""
    given_other: JsonValue = None
    """The input of the other run."""
    is_open: bool = False
    """Whether it has not ended."""
    _seen: dict[int, set[str]] = field(default_factory=dict)

    def fed_by(self, at: int, within: str | None) -> str | None:
        """Say which disturbed observation fed the arguments of a step, if one did.

        Only values that occur in the text ``within`` count, if it is given, and only those that
        the other run was not given in the same place.
        """
        values = self._seen_only(at)
        if within:
            values = held_in(within, values)
        if not values:
            return None
        # the longest: it says most, and least of all happens to be the same
        value = min(values, key=lambda value: (-len(value), value))
        step = self.order.steps[self.order.flow.first_shown[value]]
        return (
            f"{self.name} took {_short(value)} from the observation of {step.name} "
            f"(decision {step.decision}), which differs"
        )

    def _seen_only(self, at: int) -> set[str]:
        """Give the values of a step that it was shown before, and the other run was not."""
        decision = self.order.steps[at].decision
        if all(self.order.steps[source].decision >= decision for source in self.disturbed):
            return set()
        if at not in self._seen:
            flow, steps = self.order.flow, self.order.steps
            sources: dict[int, list[str]] = {}
            for value in flow.uses[at]:
                source = flow.first_shown[value]
                if source in self.disturbed and steps[source].decision < steps[at].decision:
                    sources.setdefault(source, []).append(value)
            found: set[str] = set()
            for source, values in sources.items():  # what no step disturbed was shown to both
                found |= {*values} - held_in(self.disturbed[source], values)
            self._seen[at] = found
        return self._seen[at]

    def given_only(self, at: int) -> set[str]:
        """Give the values that a step may hold because it was given them, and the other run not."""
        return self._seen_only(at) | self._told_only

    @cached_property
    def _told_only(self) -> frozenset[str]:
        if self._given_texts[0] == self._given_texts[1]:
            return frozenset()
        mine, other = words_in(self.given), words_in(self.given_other)
        return frozenset(word for word in mine - other if _WORD.search(word))

    @cached_property
    def _given_texts(self) -> tuple[str, str]:
        return canonical_text(self.given), canonical_text(self.given_other)

    def given_otherwise(self, at: int, within: str | None) -> str | None:
        """Say which value of the input the arguments hold, if the other run's input lacks it."""
        one, two = self._given_texts
        if one == two:
            return None
        mine, other = set(_WORD.findall(one)), set(_WORD.findall(two))
        text = self.order.steps[at].arguments_text if within is None else within
        words = (word for word in _WORD.findall(text) if word in mine and word not in other)
        word = next(words, None)
        return None if word is None else f"{self.name} took {_short(word)} from its input"

    def changed_write_before(self, at: int) -> str | None:
        """Say which write that differs a read could see, if there is one."""
        decision = self.order.steps[at].decision
        for index in reversed(self._changed_writes):
            step = self.order.steps[index]
            if step.decision < decision and _sees(self.order.steps[at], step):
                return (
                    f"{self.name} had called {step.name} before (decision {step.decision}), "
                    "which differs"
                )
        return None

    def earlier(self, decision: int) -> str | None:
        """Say since when the run had been another, if it had before ``decision``."""
        if self._parted is None or self._parted >= decision:
            return None
        return f"{self.name} had gone another way since decision {self._parted}"

    @cached_property
    def _changed_writes(self) -> list[int]:
        """The writes that differ; to be asked for only once all that differs is noted."""
        differ = self.acted | self.disturbed.keys()
        return [at for at in sorted(differ) if self.order.steps[at].writes]

    @cached_property
    def _parted(self) -> int | None:
        """The first decision that differs; to be asked for only once all that differs is noted."""
        steps = self.order.steps
        differ = self.acted | self.disturbed.keys()
        return min((n for at in differ if (n := steps[at].decision)), default=None)


def _sees(later: Step, write: Step) -> bool:
    """Whether what a call comes back with may depend on an earlier write, done or not."""
    if later.effect == "pure" or later.call is None or write.call is None:
        return False
    one, two = later.call.contract, write.call.contract
    return one is None or two is None or later.writes or one.shares_resource(two)


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:39] + "…")


def fed(
    sides: Sequence[tuple[Side, Step | None]], fields: Sequence[Difference] | None = None
) -> str | None:
    """Say what fed a call on either side, the right one first; of a change, its ``fields``."""
    if any(step is not None and step.writes for _, step in sides) and not _wholly(sides, fields):
        return None
    within = (None, None) if fields is None else (_texts(fields, "left"), _texts(fields, "right"))
    for (side, step), text in reversed(list(zip(sides, within, strict=True))):
        if step is None or step.call is None:
            continue
        found = side.fed_by(step.index, text) or side.given_otherwise(step.index, text)
        if found is not None:
            return found
    return None


def _texts(fields: Sequence[Difference], side: str) -> str:
    """Join the leaves of one side of some fields, to look for values in."""
    return "\n".join(str(leaf) for f in fields for _, leaf in walk(getattr(f, side)))


def _wholly(sides: Sequence[tuple[Side, Step | None]], fields: Sequence[Difference] | None) -> bool:
    """Whether nothing but values that were given to one side only differs."""
    given = [set() if step is None else side.given_only(step.index) for side, step in sides]
    if fields is None:
        whole = [(step.arguments, own) for (_, step), own in zip(sides, given, strict=True) if step]
        return all(_all_given(value, own) for value, own in whole)
    return all(_field_given(found, *given) for found in fields)


def _field_given(found: Difference, ours: set[str], theirs: set[str]) -> bool:
    if found.kind == "changed" and not isinstance(found.left, dict | list):
        return _rest(found.left, ours) == _rest(found.right, theirs)
    return (found.kind == "added" or _all_given(found.left, ours)) and (
        found.kind == "removed" or _all_given(found.right, theirs)
    )


def _all_given(value: JsonValue, given: set[str]) -> bool:
    return all(_rest(leaf, given)[1] == _GIVEN for _, leaf in walk(value))


def _rest(value: JsonValue, given: set[str]) -> tuple[bool, str]:
    """Write a leaf with a sign in the place of every value that was given."""
    is_text = isinstance(value, str)
    text = value if isinstance(value, str) else canonical_text(value)
    if text in given and not isinstance(value, bool | None):
        return is_text, _GIVEN
    if not given or not is_text or len(text) > _LONGEST:
        return is_text, text
    text = text.replace(_GIVEN, _GIVEN * 2)
    return is_text, WORD.sub(lambda word: _GIVEN if word[0] in given else word[0], text)
