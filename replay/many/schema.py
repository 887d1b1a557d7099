"""What ``tracekit replay --json`` writes of many runs, as models: the schema is made from them."""

from __future__ import annotations

from typing import Any, Literal

from replay.isolation import Level
from replay.many.outcome import FORMAT, RunVerdict
from replay.published import Published, published_schema


class WallForm(Published):
    """One wall and its proof."""

    name: str
    held: bool
    """Whether every attempt of the self-test was refused."""
    evidence: str
    """What was tried at start, and what came of it."""
    unseen: list[str]
    """Kinds of attempt that it stops or misses without listing them."""


class RunForm(Published):
    """What became of one run."""

    run_id: str
    replay_id: str | None
    """The replay, as a run of the store; None where none was made."""
    verdict: RunVerdict
    reasons: list[str]
    """The first of them."""
    divergence: str | None
    """The first decision at which the replay differs from the record; None where none does."""
    findings: int
    shares: dict[str, int]
    """Tool calls answered, by rung."""
    elapsed_s: float
    kept: bool
    """Whether it was in the store already, from the replay that this one goes on with."""


class ManyReplaysForm(Published):
    """What a bulk replay came to."""

    format: Literal["tracekit/replay-many/v1"]
    planner: str
    isolation: Level | None
    """The level that stood; None where no replay was made."""
    walls: list[WallForm]
    notes: list[str]
    """What is otherwise than usual with this planner."""
    elapsed_s: float
    counts: dict[RunVerdict, int]
    """Runs by verdict; a verdict that none has is left out."""
    runs: list[RunForm]
    """The worst first."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``tracekit replay --json`` for many runs."""
    return published_schema(ManyReplaysForm, FORMAT)
