"""What ``tracekit diff --json`` writes of many runs, as models: the schema is made from them."""

from __future__ import annotations

from typing import Any, Literal

from replay.comparing.outcome import FORMAT, PairVerdict
from replay.diff.model import HarmName, Kind
from replay.published import Published, published_schema


class LeftOutForm(Published):
    """A run without a partner."""

    run_id: str
    case: str | None
    """Its task or input, by which partners are found."""
    reason: str


class UnpairedForm(Published):
    """The runs of either side without a partner."""

    baseline: list[LeftOutForm]
    candidate: list[LeftOutForm]


class CaseForm(Published):
    """All pairs of one case."""

    case: str
    """Task or input, and the attack where there is one."""
    pairs: int
    different: int
    kinds: dict[Kind, int]
    """In which ways it changed: pairs by kind of divergence, the worst first."""


class GroupForm(Published):
    """Pairs that part first in the same way."""

    first_divergence: str
    """Kind, tool and fields of it; after mere words, those of the first call that differs."""
    harm: int
    """Of that divergence; 1 is worst."""
    harm_name: HarmName
    worst: int
    """The worst harm in any of the pairs, wherever in the run."""
    worst_name: HarmName
    pairs: int
    cases: list[str]


class PairKindForm(Published):
    """One kind of divergence in a pair."""

    kind: Kind
    harm: int
    harm_name: HarmName
    count: int


class PartingForm(Published):
    """Where a pair parts."""

    kind: Kind
    harm: int
    harm_name: HarmName
    tool: str
    decision: int
    pointers: list[str]
    """Which fields differ; ``*`` stands for a place in a list."""
    explanation: str


class PairForm(Published):
    """What became of one pair."""

    case: str
    baseline: str
    candidate: str
    verdict: PairVerdict
    reason: str | None
    """Why it could not be compared, or not in all."""
    distance: float
    nearest: str | None
    """The run that the candidate was compared with: the baseline's, or an accepted one."""
    kinds: list[PairKindForm]
    """The worst first."""
    causes: int
    """Divergences that do not follow from others."""
    on_writes: int
    """Divergences by which a write differs."""
    unknown_writes: int
    """Values of writes that could not be compared."""
    first: PartingForm | None
    first_call: PartingForm | None
    """The first call that differs, if that is not ``first``."""


class ManyReport(Published):
    """Two sets of runs, compared."""

    format: Literal["tracekit-diff-many/1"]
    baseline: str
    """The selection, as it was given."""
    candidate: str
    same: bool
    """Whether every run has a partner, and every pair was compared and is the same."""
    counts: dict[PairVerdict, int]
    """Pairs by verdict."""
    elapsed_s: float
    cases: list[CaseForm]
    """Those that changed most harmfully first."""
    groups: list[GroupForm]
    """Those first in which the worst happens."""
    pairs: list[PairForm]
    """The worst first."""
    unpaired: UnpairedForm
    notes: list[str]
    """Accepted trajectories that nothing was compared with, and why."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``tracekit diff --json`` for many runs."""
    return published_schema(ManyReport, FORMAT)
