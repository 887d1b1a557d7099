"""What a distillation came to, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.case import Case
from tracekit.numerals import counted
from tracekit.visible import text_of

FORMAT = "tracekit/distill/v1"
TERMINATED = "it was asked to terminate"


def proved(parts: int) -> str:
    """Say that a case of so many parts is minimal."""
    whose = "its only part" if parts == 1 else f"each of its {parts:,} parts"
    return f"{whose} was left out{'' if parts == 1 else ' alone'}, and is needed"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a planner is shown."""

    observations: int
    bytes: int
    """Of the observations' values."""
    decisions: int
    """In the script."""

    def __str__(self) -> str:
        return f"{counted(self.observations, 'observation')}, {counted(self.bytes, 'byte')}"


@dataclass(frozen=True)
class DistillResult:
    """A case, and what it took to get there."""

    case: Case
    text: str = field(repr=False)
    """The file."""
    path: Path | None
    """Where it was written; None where it was not."""
    run_id: str
    planner: str
    fixed: str | None
    failure: str
    """What goes wrong, in one sentence."""
    before: Extent
    after: Extent
    calls: int
    """Candidates that were really tried."""
    cached: int
    runs: int
    """How often a planner was run for it."""
    seconds: float
    minimal: bool
    tried: int
    """Parts that were left out one by one at the end, in vain."""
    stopped: str | None = None
    """Why the reduction ended early, if it did."""
    asked_to_end: str | None = None
    """What came from outside, if anything did; also where the reduction was through already."""
    remarks: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why a planner that does right may not pass; they stand in the file as well."""

    @property
    def terminated(self) -> bool:
        """Whether somebody asked the process to end."""
        return TERMINATED in (self.stopped, self.asked_to_end)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "planner": self.planner,
            "fixed": self.fixed,
            "path": None if self.path is None else str(self.path),
            "failure": self.failure,
            "reason": self.case.reason.model_dump(exclude_none=True) if self.case.reason else None,
            "fix": self.case.fix,
            "minimal": self.minimal,
            "tried": self.tried,
            "stopped": self.stopped,
            "before": {"observations": self.before.observations, "bytes": self.before.bytes},
            "after": {"observations": self.after.observations, "bytes": self.after.bytes},
            "calls": self.calls,
            "cached": self.cached,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "remarks": [*self.doubts, *self.remarks],
            "case": self.case.as_data(),
        }

    def as_text(self) -> str:
        """Return the result for a person."""
        lines = [
            f"failure  {self.failure}",
            f"went in  {self.before}",
            f"came out {self.after}",
            f"cost     {counted(self.calls, 'candidate')} ({self.cached} more were known), "
            f"{counted(self.runs, 'run')} of a planner, {self.seconds:.1f} s",
            f"minimal  {self._minimal()}",
            f"fix      {self._fix()}",
            *(f"doubtful {doubt}" for doubt in self.doubts),
            *(f"note     {remark}" for remark in self.remarks),
        ]
        if self.path is not None:
            lines += [f"case     {self.path}", "", f"pytest {self.path} --planner {self.planner}"]
        return text_of(lines)

    def _minimal(self) -> str:
        if self.minimal:
            return f"yes: {proved(self.tried)}"
        return f"no: stopped early, {self.stopped}"

    def _fix(self) -> str:
        if self.fixed is not None:
            return f"proven: {self.fixed} passes it"
        return "unproven: no planner is known that passes; a stand-in without the fault does"
