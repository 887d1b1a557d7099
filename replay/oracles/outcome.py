"""What oracles look at, and what they find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from replay.case import Reason
from replay.oracles.keys import Keys
from tracekit.canonical import JsonValue
from tracekit.decisions import plain_name, requested
from tracekit.trajectory import Call, Trajectory

Where = Literal[
    "planner", "tool selection", "tool arguments", "retrieval", "synthesis", "executor", "system"
]
ORACLE_LAYERS: Mapping[str, Where] = {
    "forbidden_tools": "tool selection",
    "required_tools": "tool selection",
    "call_limits": "tool selection",
    "order": "tool selection",
    "arguments": "tool arguments",
    "evidence": "synthesis",
    "answer": "synthesis",
    "invariants": "planner",
    "no_repeat": "planner",
    "no_news": "planner",
    "after_error": "planner",
    "budgets": "planner",
    "error": "planner",
    "loop": "planner",
    "wall": "executor",
}
"""Oracle → the layer of an agent that has to change when it is not met."""


@dataclass(frozen=True, slots=True)
class OracleFinding:
    """One thing that speaks against the planner."""

    oracle: str
    text: str
    """One sentence for a person."""
    tool: str | None = None
    pointer: str | None = None
    error: str | None = None
    decision: int | None = None
    """Number of the decision that is at fault; None for what is missing at the end."""
    event_id: str | None = None
    """The call at fault."""
    place: str | None = None
    """Where in the planner's code the error came up; no case says it, since code changes."""
    undecided: bool = False
    """Whether it says only why one thing that is expected could not be looked at."""

    @property
    def signature(self) -> Reason:
        """What is the same in two runs that fail for the same reason."""
        return Reason(oracle=self.oracle, tool=self.tool, pointer=self.pointer, error=self.error)

    @property
    def layer(self) -> Where:
        """The layer that has to change."""
        return ORACLE_LAYERS[self.oracle]

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "oracle": self.oracle,
            "tool": self.tool,
            "pointer": self.pointer,
            "error": self.error,
            "decision": self.decision,
            "layer": self.layer,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Raised:
    """How a planner came to an end that is not its own."""

    type: str
    message: str
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that the planner wanted, whether or not it came to be made."""

    tool: str
    arguments: JsonValue
    decision: int
    call: Call | None = None
    """The call that was made; None where only the model asked for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a planner came to, as oracles see it."""

    trajectory: Trajectory | None
    """None where the planner did not begin."""
    complete: bool = True
    """Whether the planner came to its own end. Where not, nothing can be missed in it."""
    raised: Raised | None = None
    refused: tuple[tuple[str, str], ...] = ()
    """What the walls refused: kind and words."""
    looped: bool = False
    """Whether it was ended because it never stopped."""
    elapsed_s: float = 0.0
    """Time by the planner's own clock."""
    invariants: Mapping[str, str | None] = field(default_factory=dict)
    """What each invariant said of the trajectory."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of all decisions, in order."""
        return self.trajectory.calls if self.trajectory else ()

    @property
    def keys(self) -> Keys:
        """Where its tools carry their idempotency keys."""
        return Keys.of_run(self.trajectory)

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """All calls that were wanted: made by the planner's code, or asked for by its model."""
        if self.trajectory is None:
            return ()
        models = {model.event_id: model for model in self.trajectory.model_calls}
        found: list[Proposal] = []
        for decision in self.trajectory.decisions:
            made = [Proposal(c.tool, c.arguments, decision.index, c) for c in decision.calls]
            found += made
            model = models.get(decision.model_call or "")
            names = [plain_name(proposal.tool) for proposal in made]
            for wanted in requested(model, 0) if model else []:
                if wanted.tool in names:
                    names.remove(wanted.tool)
                else:
                    found.append(Proposal(wanted.tool, wanted.arguments, decision.index))
        return tuple(found)


def unevaluated(consumed: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the observations that had to be given to the planner and were not."""
    return tuple(name for name in consumed if name not in given)
