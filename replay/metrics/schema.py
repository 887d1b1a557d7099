"""What ``tracekit metrics --json`` writes, as models: the published schema is made from them."""

from __future__ import annotations

from typing import Any, Literal

from replay.metrics.table import FORMAT
from replay.published import Published, published_schema
from replay.stats.schema import EstimateForm, IntervalForm


class PartForm(Published):
    """A part of a metric: of one tool, or one field of the arguments."""

    numerator: float
    denominator: float
    value: float | None


class MeasureForm(Published):
    """One metric over some runs."""

    value: float | None
    """The numerator over the denominator, in the unit; None without data."""
    unit: str
    """``%`` stands for a share from 0 to 1."""
    numerator: float | None
    """None without data, and where the metric is no quotient: a quantile."""
    denominator: float | None
    interval: IntervalForm | None
    """None where the runs do not give one."""
    n: int
    """Runs that it rests on."""
    of: int
    """Runs in all."""
    parts: dict[str, PartForm]


class BucketForm(Published):
    """The metrics of the runs that share something."""

    name: str
    runs: int
    metrics: dict[str, MeasureForm]


class AttemptsForm(Published):
    """How tasks went that were tried several times."""

    tasks: int
    pass_at_k: list[EstimateForm]
    """At least one of k attempts succeeds; the first is of k = 1."""
    pass_hat_k: list[EstimateForm]
    """All of k attempts succeed; the first is of k = 1."""


class MetricsForm(Published):
    """What measuring some runs came to."""

    format: Literal["tracekit/metrics/v1"]
    runs: int
    repeats: dict[str, str]
    """Runs that were not counted, since they only repeat another: run id → that run."""
    modelled_latency: int
    """Runs that are replays: their clock advances by what was recorded."""
    broken_off: int
    """Runs that ended with an error or have not ended: they did less for that."""
    odd: dict[str, str]
    """Runs whose record says what cannot be, such as a cost below nothing → what it says."""
    metrics: dict[str, MeasureForm]
    """Of all runs."""
    missing: dict[str, str]
    """Metrics without data → why."""
    attempts: AttemptsForm | None
    """None where no task was tried twice."""
    by: str | None
    """What the buckets are sorted by."""
    buckets: list[BucketForm]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``tracekit metrics --json``."""
    return published_schema(MetricsForm, FORMAT)
