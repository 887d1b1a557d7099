"""What a comparison finds: what stands beside what, and where the two runs part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from tracekit.canonical import JsonValue
from tracekit.events import Effect
from tracekit.jsontree import Difference

Kind = Literal[
    "changed_arguments", "changed_observation", "changed_policy", "changed_evidence",
    "changed_answer", "changed_message", "changed_input", "added", "missing", "retry", "reordered",
]  # fmt: skip
ACTED: tuple[Kind, ...] = ("changed_arguments", "added", "missing", "retry", "reordered")
"""By these the planner itself did otherwise."""
TURN = "(user's turn)"
"""What stands for the tool where the user speaks."""
HarmName = Literal["write", "refusal", "changed_read", "read", "result", "order", "wording"]
Mark = Literal["same", "changed", "added", "missing", "moved"]
Told = Mark | Literal["unknown"]
SIGNS: dict[Told, str] = {
    "same": "=", "changed": "~", "missing": "-", "added": "+", "moved": "%", "unknown": "?"
}  # fmt: skip
"""How lines are marked where they stand side by side."""


class Harm(IntEnum):
    """How bad a divergence can be; 1 is worst."""

    WRITE = 1
    """A write that changed, came or went, moved, or went through on one side only."""
    REFUSAL = 2
    """A policy decided otherwise, or a refused write came or went."""
    CHANGED_READ = 3
    READ = 4
    """A read came or went."""
    RESULT = 5
    """Something came back otherwise: an observation, a user's turn, the answer, evidence."""
    ORDER = 6
    WORDING = 7

    @property
    def words(self) -> str:
        """What readers are told."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Action:
    """What one run did at one step, and what came back."""

    decision: int
    tool: str
    """The tool's name; in round brackets what is no call, such as ``(said)``."""
    effect: Effect | None
    """None for what is no call."""
    arguments: JsonValue
    observation: JsonValue = None
    is_error: bool = False
    policy: str | None = None
    """What a policy decided, where it did not just let the call through."""
    policy_id: str | None = None
    event_id: str = ""
    came_back: bool = True
    """False where the record has no end of a call that was made."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """One point where the two runs are not equivalent."""

    kind: Kind
    harm: Harm
    tool: str
    effect: Effect | None
    left_decision: int | None
    """The decision on the left, from 1; None where the left has no counterpart."""
    right_decision: int | None
    left: Action | None
    right: Action | None
    fields: tuple[Difference, ...] = ()
    """Where the compared values differ, by JSON Pointer."""
    cause: bool = True
    """False where it differs only because what it was given did."""
    because: str | None = None
    """Why it counts as a consequence."""
    seen: tuple[Action, ...] = ()
    """What the planner had just seen on the left (on the right, where only the right acted)."""
    seen_right: tuple[Action, ...] | None = None
    """What it had just seen on the right, where that was something else."""
    explanation: str = ""

    @property
    def is_write(self) -> bool:
        """Whether a write differs by it: in what it was asked, in its place, or by a policy."""
        about = self.kind in (*ACTED, "changed_policy") and self.effect in ("write", "unknown")
        return about or self.harm == Harm.WRITE

    @property
    def decision(self) -> int:
        """The decision on the left, or on the right where the left has no counterpart."""
        return self.left_decision or self.right_decision or 1


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of the side-by-side view."""

    mark: Mark
    left: Action | None
    right: Action | None
    divergences: tuple[Divergence, ...] = ()
    """What is said of this line."""
    partly: bool = False
    """Whether some of a side was not kept, so that nobody can compare it."""

    @property
    def told(self) -> Told:
        """Its mark; where all that was kept is the same, and not all was kept, ``unknown``."""
        return "unknown" if self.partly and self.mark == "same" else self.mark


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something of which nobody can say whether it differs."""

    what: str
    harms: tuple[Harm, ...]
    """What a difference there would be."""


@dataclass(frozen=True)
class Outcome:
    """Two runs, compared. Left is the expectation, usually the recorded run."""

    left_name: str
    right_name: str
    left_run: str
    right_run: str
    distance: float
    divergences: tuple[Divergence, ...]
    """Ranked: the most harmful first, causes before consequences, then in order of the run."""
    first: Divergence | None
    """The most harmful difference of the earliest decision at which the runs differ."""
    aligned: tuple[Pair, ...]
    matched_prefix: int
    """How many decisions of both went by before anything differs."""
    resynchronised_at: int | None
    """The decision of the left, after the first divergence, where a call is the same again."""
    context: tuple[Difference, ...] = ()
    """What differs in how the runs were made (versions, system prompt); no divergence in itself."""
    doubts: tuple[Doubt, ...] = ()
    """What could not be compared because it was not kept, or has not been done yet."""
    first_call: Divergence | None = None
    """The earliest point where the planner itself did otherwise, if that is not ``first``."""
    cells: int = 0
    """How much of the alignment table was filled; a measure of the work done."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be compared, in words."""
        return tuple(doubt.what for doubt in self.doubts)

    def unknown_of(self, harm: Harm) -> tuple[str, ...]:
        """Say what could not be compared and would be of this harm if it differed."""
        return tuple(doubt.what for doubt in self.doubts if harm in doubt.harms)

    @property
    def writes(self) -> tuple[Divergence, ...]:
        """The divergences on writes, worst first."""
        return tuple(found for found in self.divergences if found.is_write)

    @property
    def on_writes(self) -> str:
        """How many differences are on writes, or that nobody can tell."""
        if self.writes:
            return f"{len(self.writes)} of them on writes"
        if self.unknown_of(Harm.WRITE):
            return "cannot tell whether a write differs"
        return "none on a write"

    @property
    def same(self) -> bool:
        """Whether the runs are equivalent, as far as one can know, and all of it is known."""
        return self.distance == 0 and not self.unknown

    @property
    def doubt(self) -> str:
        """How much is unknown, where all that is known is the same."""
        count = len(self.unknown)
        return f"{count} thing{' is' if count == 1 else 's are'} unknown; what is known is the same"

    @property
    def causes(self) -> tuple[Divergence, ...]:
        """The divergences that are not explained by others, worst first."""
        return tuple(found for found in self.divergences if found.cause)

    @property
    def consequences(self) -> tuple[Divergence, ...]:
        """The divergences that follow from others, worst first."""
        return tuple(found for found in self.divergences if not found.cause)

    @property
    def leading(self) -> tuple[Divergence, ...]:
        """What must be read: every write that differs, cause or not, then the other causes."""
        told = [found for found in self.divergences if found.cause or found.is_write]
        return tuple(sorted(told, key=lambda found: not found.is_write))

    @property
    def following(self) -> tuple[Divergence, ...]:
        """The consequences that are no writes."""
        return tuple(found for found in self.consequences if not found.is_write)

    @property
    def counts(self) -> dict[str, int]:
        """How many steps are the same, changed, added, missing, moved."""
        counted = Counter(pair.mark for pair in self.aligned)
        return {mark: counted[mark] for mark in ("same", "changed", "added", "missing", "moved")}
