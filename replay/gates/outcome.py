"""What gates came to: every one with value, bound, interval, n and verdict; and all of them.

The JSON form is public. Its ``format`` is ``tracekit-gate/1``; names are only ever added.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from replay.comparing import Unpaired
from replay.gates.file import Leniency
from replay.stats import Interval

FORMAT = "tracekit-gate/1"
Verdict = Literal["pass", "fail", "inconclusive"]
WORST_FIRST: tuple[Verdict, ...] = ("fail", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """What one gate came to."""

    name: str
    text: str
    verdict: Verdict
    reason: str
    """In words; for a gate that does not pass, what would change it."""
    value: float | None = None
    """In the metric's own unit; None without data."""
    baseline: float | None = None
    candidate: float | None = None
    bound: str = ""
    """With its operator, as it was given."""
    interval: Interval | None = None
    n: int = 0
    """Samples the value rests on: runs, or pairs of a comparison."""
    of: int = 0
    """Runs, or pairs, that the gate is about."""
    runs: tuple[str, ...] = ()
    """Runs to look at."""
    needed: int | None = None
    """Where inconclusive: samples that would decide, if the value stays as it is."""
    unit: str = "%"
    """How to write the numbers: ``% pp ms USD tokens steps``, and ``relative`` for a quotient."""
    inconclusive: Leniency = "fail"

    @property
    def failed(self) -> bool:
        """Whether the release is stopped by it."""
        lenient = self.verdict == "inconclusive" and self.inconclusive != "fail"
        return self.verdict != "pass" and not lenient

    @property
    def warned(self) -> bool:
        """Whether it lets the release through with a warning."""
        return self.verdict == "inconclusive" and self.inconclusive == "warn"

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "name": self.name,
            "check": self.text,
            "verdict": self.verdict,
            "failed": self.failed,
            "reason": self.reason,
            "value": self.value,
            "unit": self.unit,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "bound": self.bound,
            "interval": None if self.interval is None else self.interval.as_dict(),
            "n": self.n,
            "of": self.of,
            "needed": self.needed,
            "runs": list(self.runs),
        }


@dataclass(frozen=True)
class GateReport:
    """What all gates of a file came to."""

    path: str
    """The gate file."""
    store: str
    baseline: str | None
    """The selection, as it was given; None where no gate needs one."""
    candidate: str
    outcomes: tuple[GateOutcome, ...]
    """In the order of the file."""
    pairs: int = 0
    baseline_runs: int = 0
    candidate_runs: int = 0
    baseline_only: tuple[Unpaired, ...] = ()
    candidate_only: tuple[Unpaired, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know of the sets that were compared."""

    @property
    def passed(self) -> bool:
        """Whether the release may go."""
        return bool(self.outcomes) and not any(outcome.failed for outcome in self.outcomes)

    @property
    def counts(self) -> dict[str, int]:
        """Give the number of gates by verdict."""
        found = Counter(outcome.verdict for outcome in self.outcomes)
        return {verdict: found[verdict] for verdict in WORST_FIRST}

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON."""
        return {
            "format": FORMAT,
            "passed": self.passed,
            "file": self.path,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "counts": self.counts,
            "runs": {"baseline": self.baseline_runs, "candidate": self.candidate_runs},
            "pairs": self.pairs,
            "unpaired": {
                "baseline": [_unpaired(one) for one in self.baseline_only],
                "candidate": [_unpaired(one) for one in self.candidate_only],
            },
            "notes": list(self.notes),
            "gates": [outcome.as_dict() for outcome in self.outcomes],
        }


def _unpaired(one: Unpaired) -> dict[str, Any]:
    return {"run_id": one.run.run_id, "case": one.run.case, "reason": one.reason}
