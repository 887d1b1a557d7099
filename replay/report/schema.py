"""What the JSON of a comparison holds, as models: the published schema is made from them."""

from __future__ import annotations

from typing import Any, Literal

from replay.diff.model import HarmName, Kind, Mark
from replay.published import Published, published_schema
from tracekit.canonical import JsonValue
from tracekit.events import Effect


class Side(Published):
    """One of the two runs."""

    name: str
    """What it is called in every line."""
    run_id: str


class Field(Published):
    """One place where two values differ."""

    pointer: str
    """JSON Pointer; empty for the whole value."""
    kind: Literal["changed", "added", "removed"]
    left: JsonValue
    right: JsonValue


class Step(Published):
    """What one run did at one step, and what came back."""

    decision: int
    """From 1."""
    tool: str
    """The tool's name; in round brackets what is no call."""
    effect: Effect | None
    """None for what is no call."""
    arguments: JsonValue
    observation: JsonValue
    is_error: bool
    policy: str | None
    """What a policy decided, where it did not just let the call through."""
    policy_id: str | None
    event_id: str


class Difference(Published):
    """One point where the two runs are not equivalent."""

    kind: Kind
    harm: int
    """1 is worst."""
    harm_name: HarmName
    on_write: bool
    """Whether a write differs by it: in what it was asked, its place, whether it went through."""
    tool: str
    effect: Effect | None
    decision: int
    left_decision: int | None
    right_decision: int | None
    left: Step | None
    right: Step | None
    fields: list[Field]
    """Where the compared values differ; the first 200."""
    fields_left_out: int
    """How many more there are."""
    cause: bool
    """False where it differs only because what it was given did."""
    because: str | None
    """Why it counts as a consequence."""
    seen: list[Step]
    """What the planner had just seen on the left; on the right, where only the right acted."""
    seen_right: list[Step] | None
    """The same on the right, where it was something else."""
    explanation: str


class Line(Published):
    """One line of the side-by-side view."""

    mark: Mark
    left: Step | None
    right: Step | None
    divergences: list[int]
    """Places in the list of divergences."""
    partly: bool
    """Whether some of a side was not kept: ``same`` then stands for what was."""


class Report(Published):
    """Two runs, compared; left is the expectation."""

    format: Literal["tracekit-diff/1"]
    same: bool
    distance: float
    left: Side
    right: Side
    counts: dict[Mark, int]
    matched_prefix: int
    """Decisions before the first divergence."""
    resynchronised_at: int | None
    """The decision of the left where a call is the same again."""
    first: Difference | None
    first_call: Difference | None
    """The earliest point where the planner itself did otherwise, if that is not ``first``."""
    divergences: list[Difference]
    """The most harmful first."""
    aligned: list[Line]
    context: list[Field]
    """What differs in how the runs were made."""
    unknown: list[str]
    """What could not be compared."""
    unknown_writes: list[str]
    """What of it may be a write that differs."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``tracekit diff --json``."""
    return published_schema(Report, "tracekit-diff/1")
