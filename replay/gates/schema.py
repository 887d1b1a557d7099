"""What ``tracekit gate --json`` writes, as models: the published schema is made from them."""

from __future__ import annotations

from typing import Any, Literal

from replay.comparing.schema import UnpairedForm
from replay.gates.outcome import FORMAT, Verdict
from replay.published import Published, published_schema
from replay.stats.schema import IntervalForm


class GateForm(Published):
    """What one gate came to."""

    name: str
    check: str
    """The gate, as its file has it."""
    verdict: Verdict
    failed: bool
    """Whether the release is stopped by it."""
    reason: str
    """In words; for a gate that does not pass, what would change it."""
    value: float | None
    """In its unit; None without data."""
    unit: str
    """``%`` and ``pp`` stand for shares from 0 to 1, ``relative`` for a quotient."""
    baseline: float | None
    candidate: float | None
    bound: str
    """With its operator, as it was given."""
    interval: IntervalForm | None
    n: int
    """Samples the value rests on: runs, or pairs of a comparison."""
    of: int
    """Runs, or pairs, that the gate is about."""
    needed: int | None
    """Where inconclusive: samples that would decide, if the value stays as it is."""
    runs: list[str]
    """Runs to look at."""


class RunsForm(Published):
    """How many runs either side has."""

    baseline: int
    candidate: int


class GateReportForm(Published):
    """What all gates of a file came to."""

    format: Literal["tracekit-gate/1"]
    passed: bool
    """Whether the release may go."""
    file: str
    baseline: str | None
    """The selection, as it was given; None where no gate needs one."""
    candidate: str
    counts: dict[Verdict, int]
    """Gates by verdict."""
    runs: RunsForm
    pairs: int
    unpaired: UnpairedForm
    notes: list[str]
    """What a reader must know of the sets that were compared."""
    gates: list[GateForm]
    """In the order of the file."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``tracekit gate --json``."""
    return published_schema(GateReportForm, FORMAT)
