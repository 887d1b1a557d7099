"""What comparing two sets of runs came to: one small outcome a pair, and what they have in common.

The JSON form is public. Its ``format`` is ``tracekit-diff-many/1``; names are only ever added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from replay.comparing.pairing import Unpaired
from replay.diff import Comparison, Divergence, Harm

FORMAT = "tracekit-diff-many/1"
PairVerdict = Literal["same", "different", "not compared"]
_WORST_FIRST: tuple[PairVerdict, ...] = ("different", "not compared", "same")
_LONGEST = 400
_INDEX = re.compile(r"/\d+(?=/|$)")
_NO_HARM = len(Harm) + 1
_WORDS = ("changed_message", "changed_input")
"""Kinds by which nearly all pairs of planners that talk part first."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a pair parts."""

    kind: str
    harm: Harm
    tool: str
    decision: int
    pointers: tuple[str, ...]
    """Which fields differ; ``*`` stands for a place in a list."""
    explanation: str

    @property
    def name(self) -> str:
        """What pairs that part alike have in common."""
        told = ", ".join(self.pointers[:3]) + (", …" if len(self.pointers) > 3 else "")
        return " ".join(part for part in (self.kind.replace("_", " "), self.tool, told) if part)

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "kind": self.kind,
            "harm": int(self.harm),
            "harm_name": self.harm.name.lower(),
            "tool": self.tool,
            "decision": self.decision,
            "pointers": list(self.pointers),
            "explanation": self.explanation,
        }


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """What became of one pair; small, since there may be very many."""

    case: str
    baseline: str
    candidate: str
    verdict: PairVerdict
    reason: str | None = None
    """Why it could not be compared, or not in all: what first, a write if there is one."""
    distance: float = 0.0
    nearest: str = ""
    """The run that the candidate was compared with: the baseline's, or an accepted one."""
    kinds: tuple[tuple[str, Harm, int], ...] = ()
    """Kind of divergence, its harm, and how many there are; worst first."""
    causes: int = 0
    """How many divergences do not follow from others."""
    on_writes: int = 0
    """How many divergences are on writes."""
    unknown_writes: int = 0
    """How many values of writes could not be compared."""
    first: Parting | None = None
    first_call: Parting | None = None
    """The first call that differs, if that is not ``first``."""

    @property
    def parting(self) -> Parting | None:
        """Where it parts as others do: the first divergence, or after mere words the first call."""
        first = self.first
        words = first is not None and first.kind in _WORDS
        return self.first_call or first if words else first

    @property
    def worst(self) -> int:
        """The worst harm of a divergence; more than all where there is none."""
        return min((harm for _, harm, _ in self.kinds), default=_NO_HARM)

    @property
    def accepted(self) -> bool:
        """Whether an accepted trajectory was nearer than the baseline's."""
        return self.nearest not in ("", self.baseline)

    @property
    def rank(self) -> tuple[int, int, float]:
        """Give its place among others, the worst first."""
        return _WORST_FIRST.index(self.verdict), self.worst, -self.distance

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "case": self.case,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "verdict": self.verdict,
            "reason": self.reason,
            "distance": self.distance,
            "nearest": self.nearest or None,
            "kinds": [
                {"kind": kind, "harm": int(harm), "harm_name": harm.name.lower(), "count": count}
                for kind, harm, count in self.kinds
            ],
            "causes": self.causes,
            "on_writes": self.on_writes,
            "unknown_writes": self.unknown_writes,
            "first": None if self.first is None else self.first.as_dict(),
            "first_call": None if self.first_call is None else self.first_call.as_dict(),
        }


@dataclass(frozen=True)
class Group:
    """Pairs that part in the same way."""

    name: str
    harm: Harm
    """Of where they part."""
    outcomes: tuple[PairOutcome, ...]

    @property
    def worst(self) -> Harm:
        """The worst harm in any of the pairs, wherever in the run."""
        return Harm(min(outcome.worst for outcome in self.outcomes))

    @property
    def cases(self) -> tuple[str, ...]:
        """Name the cases, each once."""
        return tuple(dict.fromkeys(outcome.case for outcome in self.outcomes))


@dataclass(frozen=True)
class CaseSummary:
    """All pairs of one case."""

    case: str
    outcomes: tuple[PairOutcome, ...]

    @property
    def different(self) -> int:
        """How many pairs differ."""
        return sum(outcome.verdict == "different" for outcome in self.outcomes)

    @property
    def worst(self) -> int:
        """The worst harm in any pair."""
        return min(outcome.worst for outcome in self.outcomes)

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """In which ways it changed: kind and number of pairs, worst first."""
        harms: dict[str, int] = {}
        pairs: Counter[str] = Counter()
        for outcome in self.outcomes:
            for kind, harm, _ in outcome.kinds:
                harms[kind] = min(harm, harms.get(kind, _NO_HARM))
            pairs.update({kind for kind, _, _ in outcome.kinds})
        return tuple((kind, pairs[kind]) for kind in sorted(harms, key=lambda k: (harms[k], k)))


@dataclass(frozen=True)
class ManyComparison:
    """Two sets of runs, compared."""

    baseline: str
    """The selection, as it was given."""
    candidate: str
    store: str
    outcomes: tuple[PairOutcome, ...]
    """Worst first."""
    baseline_only: tuple[Unpaired, ...] = ()
    candidate_only: tuple[Unpaired, ...] = ()
    notes: tuple[str, ...] = ()
    """Which accepted trajectories nothing was compared with, and why."""
    elapsed_s: float = 0.0
    reading_s: float = 0.0
    """Processor time of all processes, of reading the runs."""
    comparing_s: float = 0.0
    """And of comparing them."""

    @property
    def counts(self) -> dict[str, int]:
        """Give the number of pairs by verdict."""
        found = Counter(outcome.verdict for outcome in self.outcomes)
        return {verdict: found[verdict] for verdict in _WORST_FIRST}

    @property
    def different(self) -> bool:
        """Whether a pair differs."""
        return self.counts["different"] > 0

    @property
    def same(self) -> bool:
        """Whether every run has a partner, and every pair was compared and is the same."""
        whole = not self.baseline_only and not self.candidate_only
        return whole and bool(self.outcomes) and self.counts["same"] == len(self.outcomes)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Give the pairs that differ by where they part first, in more than words.

        Those first in which the worst happens, of these the largest.
        """
        found: dict[tuple[int, str], list[PairOutcome]] = {}
        for outcome in self.outcomes:
            if (parting := outcome.parting) is not None:
                key = (parting.harm, parting.name)
                found.setdefault(key, []).append(outcome)
        made = [Group(name, Harm(harm), tuple(alike)) for (harm, name), alike in found.items()]
        return tuple(sorted(made, key=lambda one: (one.worst, -len(one.outcomes), one.name)))

    @property
    def cases(self) -> tuple[CaseSummary, ...]:
        """Give the outcomes by case; those that changed most harmfully first."""
        found: dict[str, list[PairOutcome]] = {}
        for outcome in self.outcomes:
            found.setdefault(outcome.case, []).append(outcome)
        made = [CaseSummary(case, tuple(outcomes)) for case, outcomes in found.items()]
        return tuple(sorted(made, key=lambda one: (one.worst, -one.different, one.case)))

    def as_dict(self) -> dict[str, Any]:
        """Give the comparison as JSON."""
        return {
            "format": FORMAT,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "same": self.same,
            "counts": self.counts,
            "elapsed_s": round(self.elapsed_s, 3),
            "cases": [
                {
                    "case": one.case,
                    "pairs": len(one.outcomes),
                    "different": one.different,
                    "kinds": dict(one.kinds),
                }
                for one in self.cases
            ],
            "groups": [
                {
                    "first_divergence": group.name,
                    "harm": int(group.harm),
                    "harm_name": group.harm.name.lower(),
                    "worst": int(group.worst),
                    "worst_name": group.worst.name.lower(),
                    "pairs": len(group.outcomes),
                    "cases": list(group.cases),
                }
                for group in self.groups
            ],
            "pairs": [outcome.as_dict() for outcome in self.outcomes],
            "unpaired": {
                "baseline": _unpaired(self.baseline_only),
                "candidate": _unpaired(self.candidate_only),
            },
            "notes": list(self.notes),
        }


def _unpaired(found: Iterable[Unpaired]) -> list[dict[str, Any]]:
    return [{"run_id": one.run.run_id, "case": one.run.case, "reason": one.reason} for one in found]


def outcome_of(case: str, baseline: str, found: Comparison) -> PairOutcome:
    """Keep of a comparison what many of them can be told by; its left run was the nearest."""
    verdict: PairVerdict = "different"
    if not found.distance:
        verdict = "same" if found.same else "not compared"
    unknown = found.unknown_of(Harm.WRITE)
    reason = next(iter((*unknown, *found.unknown)), None)
    counted = Counter((one.harm, one.kind) for one in found.divergences)
    return PairOutcome(
        case=case,
        baseline=baseline,
        candidate=found.right_run,
        verdict=verdict,
        reason=None if reason is None else cut(reason),
        distance=found.distance,
        nearest=found.left_run,
        kinds=tuple((kind, harm, count) for (harm, kind), count in sorted(counted.items())),
        causes=len(found.causes),
        on_writes=len(found.writes),
        unknown_writes=len(unknown),
        first=_parting(found.first) if found.distance else None,
        first_call=_parting(found.first_call) if found.distance else None,
    )


def not_compared(case: str, baseline: str, candidate: str, reason: str) -> PairOutcome:
    """Give the outcome of a pair that nothing can be said of."""
    return PairOutcome(case, baseline, candidate, "not compared", cut(reason))


def worst_first(outcomes: Sequence[PairOutcome]) -> tuple[PairOutcome, ...]:
    """Put outcomes in order; equal ones stay as they are."""
    return tuple(sorted(outcomes, key=lambda outcome: outcome.rank))


def _parting(first: Divergence | None) -> Parting | None:
    if first is None:
        return None
    pointers = dict.fromkeys(_INDEX.sub("/*", field.pointer) for field in first.fields)
    return Parting(
        kind=first.kind,
        harm=first.harm,
        tool=first.tool,
        decision=first.decision,
        pointers=tuple(pointers)[:8],
        explanation=cut(first.explanation),
    )


def cut(text: str) -> str:
    """Put a text on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
