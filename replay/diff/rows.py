"""A row of steps made ready to be aligned: letters, weights, and which actions it repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from replay.diff.costs import weight
from replay.diff.steps import Step


class Row:
    """Steps in one order, with what the alignment asks of each again and again."""

    __slots__ = ("actions", "letters", "names", "often", "seen", "spent", "steps", "weights")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.letters = [step.letter for step in steps]
        self.names = [step.name for step in steps]
        self.actions = [step.action for step in steps]
        self.weights = [weight(step) for step in steps]
        self.spent = list(accumulate(self.weights, initial=0))
        """What the steps before each cost without counterpart, all together."""
        self.seen = frozenset(self.actions)
        """Every action that occurs."""
        self.often: frozenset[str] = frozenset()
        """The actions that occur more than once."""
        if len(self.seen) < len(self.actions):
            counts = Counter(self.actions)
            self.often = frozenset(action for action, count in counts.items() if count > 1)

    def in_order(self, order: Sequence[int]) -> Row:
        """Give the same steps in another order."""
        row = Row.__new__(Row)
        for name in ("steps", "names", "letters", "actions", "weights"):
            values = getattr(self, name)
            setattr(row, name, [values[at] for at in order])
        row.spent = list(accumulate(row.weights, initial=0))
        row.seen, row.often = self.seen, self.often
        return row

    def __len__(self) -> int:
        return len(self.steps)
