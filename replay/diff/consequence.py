"""Which divergences follow from others.

A divergence is a *consequence* when the record itself shows that the step was given something else:

- its arguments hold a value first seen in an observation that differs or is missing on one side,
  or a value of the run's input that the input of the other run does not hold;
- it is the observation, or the evidence, of a call that was made with other arguments;
- it is an observation, and an earlier write that it could see differs;
- it is missing (or added) because the other run had already ended: what that run did last differs,
  or it is not the first step that it lacks;
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

from replay.diff.order import PartialOrder
from replay.diff.steps import Step

_WORD = re.compile(r"\w[\w@.+-]+\w|\d\d")


@dataclass
class Side:
    """What is known of one run while its divergences are judged."""

    name: str
    order: PartialOrder
    disturbed: dict[int, str] = field(default_factory=dict)
    """Steps whose observation the other run did not get, and what it got instead."""
    acted: set[int] = field(default_factory=set)
    """Steps that the planner took otherwise than in the other run."""
    given: str = ""
    """The text of its input."""
    given_other: str = ""
    """The text of the other run's input."""

    def fed_by(self, at: int, within: str | None) -> str | None:
        """Say which disturbed observation fed the arguments of a step, if one did.

        Only values that occur in the text ``within`` count, if it is given, and only those that
        the other run was not given in the same place.
        """
        # the longest first: it says most, and least of all happens to be the same
        for value in sorted(self.order.flow.uses[at], key=lambda value: (-len(value), value)):
            source = self.order.flow.first_shown[value]
            if value in self.disturbed.get(source, value) or (within and value not in within):
                continue
            step = self.order.steps[source]
            if step.decision < self.order.steps[at].decision:
                return (
                    f"{self.name} took {_short(value)} from the observation of {step.name} "
                    f"(decision {step.decision}), which differs"
                )
        return None

    def given_otherwise(self, at: int, within: str | None) -> str | None:
        """Say which value of the input the arguments hold, if the other run's input lacks it."""
        if self.given == self.given_other:
            return None
        mine, other = set(_WORD.findall(self.given)), set(_WORD.findall(self.given_other))
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


def fed(sides: Sequence[tuple[Side, Step | None]], within: Sequence[str | None]) -> str | None:
    """Say what fed a call on either side, the right one first."""
    for (side, step), text in reversed(list(zip(sides, within, strict=True))):
        if step is None or step.call is None:
            continue
        found = side.fed_by(step.index, text) or side.given_otherwise(step.index, text)
        if found is not None:
            return found
    return None
