"""Numbers about runs, each with numerator and denominator. Pure, except for reading a store.

``definitions`` says what each metric is; ``model`` holds the values.
"""

from __future__ import annotations

from replay.metrics.definitions import DEFINITIONS, Definition
from replay.metrics.model import Bucket, Count, Measure, MeasuredRun, RunMeasures, Usage

__all__ = [
    "DEFINITIONS",
    "Bucket",
    "Count",
    "Definition",
    "Measure",
    "MeasuredRun",
    "RunMeasures",
    "Usage",
]
