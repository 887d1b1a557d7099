"""What the JSON of statistics holds, as models: parts of the published schemas."""

from __future__ import annotations

from typing import Literal

from replay.published import Published


class IntervalForm(Published):
    """From where to where a value may lie."""

    low: float
    high: float | Literal["Infinity"]
    """A text, as JSON has no such number, where a share of a baseline of nothing has no bound."""
    confidence: float
    method: str


class EstimateForm(Published):
    """A value that was computed of samples."""

    name: str
    value: float | None
    """None without data."""
    interval: IntervalForm | None
    """None where the samples do not give one."""
    n: int
    """Samples that it rests on."""
    note: str | None
    """What a reader must know to trust it rightly."""
