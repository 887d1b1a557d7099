"""What a replay came to, as a value: verdict, evidence, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from replay.isolation import Change, Exit, Level, Wall
from replay.session import Answered, SessionResult
from tracekit.canonical import JsonValue
from tracekit.errors import TracekitError
from tracekit.trajectory import Call, Trajectory

VerdictKind = Literal["pass", "fail", "inconclusive", "not evaluated"]
FORMAT = "tracekit/replay/v1"
PROMPT_CHANGED = "prompt changed, no model"
ONLY_GUARD = (
    "no wall but the guard, which sees calls of tools and models alone: "
    "whatever else the planner did is neither stopped nor listed"
)


class ReplayFailed(TracekitError):
    """Raised by ``ReplayResult.raise_for_verdict`` where the verdict is not ``pass``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the replay proves, and why."""

    kind: VerdictKind
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.kind if not self.reasons else f"{self.kind}: {self.reasons[0]}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the planner must not do, or did not manage to do."""

    kind: Literal["write refused", "wall", "planner"]
    text: str
    after: int
    """How many calls and prompts had been answered before it."""


DecisionChange = Literal[
    "same", "other words", "changed arguments", "other tool", "more calls", "fewer calls",
    "answer instead of call", "call instead of answer", "other answer", "no proposal",
]  # fmt: skip
LockedBy = Literal["planner", "model", "code"]


@dataclass(frozen=True, slots=True)
class LockedDecision:
    """Step-locked: what was decided at one recorded decision, then and now."""

    number: int
    recorded: JsonValue
    proposed: JsonValue
    """None where nothing was proposed: the prompt changed and no model was there to answer it, or
    the planner ended without this call."""
    same: bool
    """Whether it is the same action; the words beside calls are none."""
    change: DecisionChange
    explanation: str
    """The change in a sentence; empty where there is none."""
    by: LockedBy
    """Who decides there: a planner that only decides, a model, or the agent's own code."""
    writes: tuple[str, ...] = ()
    """Proposed calls that may write and stand nowhere in the record."""


@dataclass(frozen=True, slots=True)
class BaselineLane:
    """The old planner, replayed on its own record."""

    planner: str
    run_id: str
    """Of its replay."""
    unsound_at: int | None
    """The decision at which it is not what was observed; None where all of it is."""
    difference: str

    @property
    def sound(self) -> bool:
        """Whether the lane is what was observed, so that a candidate can be judged beside it."""
        return self.unsound_at is None


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What became of a lane whose observations were changed, one at a time."""

    lane: Literal["baseline", "candidate"]
    outcome: Literal["reacts", "inert", "not run"]
    changed: tuple[str, ...]
    """The calls whose observation was changed."""
    detail: str


@dataclass(frozen=True)
class ReplayResult:
    """The outcome of one replay."""

    run_id: str
    """Of the replay itself; it is recorded like any run."""
    replay_of: str
    planner: str
    mode: str
    model: str
    verdict: Verdict
    level: Level
    walls: tuple[Wall, ...]
    answered: tuple[Answered, ...]
    shares: Mapping[str, int]
    """Rung → number of tool calls answered on it."""
    prompt_shares: Mapping[str, int]
    missing: tuple[Call, ...]
    """Recorded calls that the planner never made."""
    findings: tuple[Finding, ...]
    recorded: Trajectory = field(repr=False)
    session: SessionResult = field(repr=False)
    """What the planner did, and what was recorded of it."""
    exit: Exit = field(repr=False)
    incidental: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()
    """What ordinary code beside the tools tried in vain, mostly to write a file; no finding."""
    locked: tuple[LockedDecision, ...] = ()
    stopped: str | None = None
    """Why the replay ended before the planner did; what it had not done by then says nothing."""
    notes: tuple[str, ...] = ()
    """What is otherwise than usual with this planner, one sentence each."""

    baseline: BaselineLane | None = None
    self_test: SelfTest | None = None

    @property
    def trajectory(self) -> Trajectory | None:
        """What the planner did and saw; built when it is first asked for."""
        return self.session.trajectory

    @property
    def passed(self) -> bool:
        """Whether the verdict is ``pass``."""
        return self.verdict.kind == "pass"

    def raise_for_verdict(self) -> None:
        """Raise unless the verdict is ``pass``.

        Raises:
            ReplayFailed: it is not.
        """
        if not self.passed:
            raise ReplayFailed(f"replay of {self.replay_of}: {self.verdict}")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "replay_of": self.replay_of,
            "planner": self.planner,
            "mode": self.mode,
            "model": self.model,
            "verdict": self.verdict.kind,
            "reasons": list(self.verdict.reasons),
            "isolation": self.level,
            "walls": [
                {"name": w.name, "held": w.held, "evidence": w.evidence, "unseen": list(w.unseen)}
                for w in self.walls
            ],
            "shares": dict(self.shares),
            "prompt_shares": dict(self.prompt_shares),
            "steps": [_step(step) for step in self.answered],
            "missing": [
                {"tool": c.tool, "arguments": c.arguments, "decision": c.decision}
                for c in self.missing
            ],
            "findings": [{"kind": f.kind, "text": f.text} for f in self.findings],
            "locked": [_locked(decision) for decision in self.locked],
            "incidental": [str(change) for change in self.incidental],
            "refused": list(self.refused),
            "stopped": self.stopped,
            "notes": [*([] if any(w.held for w in self.walls) else [ONLY_GUARD]), *self.notes],
            "baseline": _baseline(self.baseline),
            "self_test": None if self.self_test is None else asdict(self.self_test),
            "exit": self.exit.kind,
            "detail": self.exit.detail,
            "answer": self.trajectory.answer.value if self.trajectory else None,
        }


def _locked(decision: LockedDecision) -> dict[str, Any]:
    return {
        "decision": decision.number,
        "recorded": decision.recorded,
        "proposed": decision.proposed,
        "same": decision.same,
        "change": decision.change,
        "explanation": decision.explanation,
        "by": decision.by,
    }


def _baseline(lane: BaselineLane | None) -> dict[str, Any] | None:
    return None if lane is None else {**asdict(lane), "sound": lane.sound}


def _step(step: Answered) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "name": step.name,
        "arguments": step.arguments if step.kind == "call" else None,
        "effect": step.effect,
        "rung": step.answer.rung,
        "tainted": step.answer.tainted,
        "ambiguous": step.answer.ambiguous,
        "explanation": step.answer.explanation,
    }
