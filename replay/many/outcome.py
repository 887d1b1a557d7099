"""What many replays came to, as values: one outcome a run, and all of them worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from replay.isolation import Wall
from replay.result import ReplayResult, VerdictKind
from tracekit.configuration import store_path

FORMAT = "tracekit/replay-many/v1"
RunVerdict = VerdictKind | Literal["not replayed"]
"""``not replayed``: nothing can be said, since the replay could not be made, or was lost."""

WORST_FIRST: tuple[RunVerdict, ...] = (
    "fail", "not replayed", "inconclusive", "not evaluated", "pass",
)  # fmt: skip
_MOST_REASONS = 5
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What became of one run; small, since there may be very many."""

    run_id: str
    verdict: RunVerdict
    reasons: tuple[str, ...] = ()
    replay_id: str | None = None
    """The replay, as a run of the store; None where none was made."""
    divergence: str | None = None
    """The first decision at which the replay differs from the record; None where none does."""
    findings: int = 0
    shares: Mapping[str, int] = field(default_factory=dict)
    """Rung → number of tool calls answered on it."""
    elapsed_s: float = 0.0
    kept: bool = False
    """It was in the store already, from the replay that this one goes on with."""

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Give its place among others, the worst first."""
        return WORST_FIRST.index(self.verdict), self.divergence is None, -self.findings

    def closer(self, planner: str, store: str) -> str:
        """Give the command that shows more."""
        where = f" --store {store}" if Path(store) != store_path(None) else ""
        if self.replay_id is not None:
            return f"tracekit diff {self.run_id} {self.replay_id}{where}"
        return f"tracekit replay --run-id {self.run_id} --planner {planner}{where}"

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "run_id": self.run_id,
            "replay_id": self.replay_id,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "divergence": self.divergence,
            "findings": self.findings,
            "shares": dict(self.shares),
            "elapsed_s": round(self.elapsed_s, 3),
            "kept": self.kept,
        }


@dataclass(frozen=True)
class ManyResult:
    """What a bulk replay came to."""

    planner: str
    store: str
    outcomes: tuple[RunOutcome, ...]
    """Worst first; of equal ones in the order of the runs."""
    level: str | None
    """The isolation that stood; None where no replay was made."""
    walls: tuple[Wall, ...] = ()
    """Each wall and its proof."""
    notes: tuple[str, ...] = ()
    """What is otherwise than usual with this planner."""
    elapsed_s: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Give the number of runs by verdict, the worst first."""
        found = Counter(outcome.verdict for outcome in self.outcomes)
        return {verdict: found[verdict] for verdict in WORST_FIRST if found[verdict]}

    @property
    def failed(self) -> bool:
        """Whether there is a finding."""
        return any(outcome.verdict == "fail" for outcome in self.outcomes)

    @property
    def passed(self) -> bool:
        """Whether every run passed, and there was one."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        return verdicts == {"pass"}

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "planner": self.planner,
            "isolation": self.level,
            "walls": [
                {"name": w.name, "held": w.held, "evidence": w.evidence, "unseen": list(w.unseen)}
                for w in self.walls
            ],
            "notes": list(self.notes),
            "elapsed_s": round(self.elapsed_s, 3),
            "counts": self.counts,
            "runs": [outcome.as_dict() for outcome in self.outcomes],
        }


def outcome_of(result: ReplayResult, *, divergence: str | None, elapsed_s: float) -> RunOutcome:
    """Keep of a replay what many of them can be told by."""
    reasons = tuple(dict.fromkeys(result.verdict.reasons))[:_MOST_REASONS]
    return RunOutcome(
        run_id=result.replay_of,
        verdict=result.verdict.kind,
        reasons=tuple(map(cut, reasons)),
        replay_id=result.run_id,
        divergence=cut(divergence) if divergence is not None else None,
        findings=len(result.findings),
        shares=dict(result.shares),
        elapsed_s=elapsed_s,
    )


def not_replayed(run_id: str, reason: str, *, elapsed_s: float = 0.0) -> RunOutcome:
    """Give the outcome of a run that nothing can be said of."""
    return RunOutcome(run_id, "not replayed", (cut(reason),), elapsed_s=elapsed_s)


def worst_first(outcomes: list[RunOutcome]) -> tuple[RunOutcome, ...]:
    """Put outcomes in order."""
    return tuple(sorted(outcomes, key=lambda outcome: outcome.rank))


def as_kept(outcome: RunOutcome) -> RunOutcome:
    """Mark an outcome as one that was there already."""
    return replace(outcome, kept=True)


def cut(text: str) -> str:
    """Put a text on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
