"""Numbers about runs, each with numerator and denominator. Pure, except for reading a store.

``definitions`` says what each metric is, ``gold`` what a run is measured against, ``pairing`` which
call stands for which expected one, ``measured`` has a run beside all that. ``counting`` counts on
one run, ``summing`` sums up many, ``buckets`` sorts them and ``attempts`` joins those of one task.
``measuring`` is the entrance, ``reading`` the side of the store; ``model`` and ``table`` hold the
values.
"""

from __future__ import annotations

from replay.metrics.attempts import Attempts
from replay.metrics.definitions import DEFINITIONS, Definition
from replay.metrics.gold import (
    Gold,
    cases_as_gold,
    gold_of_case,
    gold_of_run,
    is_source,
    references,
)
from replay.metrics.measuring import measure, measure_many, sum_runs
from replay.metrics.model import Bucket, Count, Measure, MeasuredRun, RunMeasures, Usage
from replay.metrics.reading import read_measured
from replay.metrics.table import Metrics

__all__ = [
    "DEFINITIONS",
    "Attempts",
    "Bucket",
    "Count",
    "Definition",
    "Gold",
    "Measure",
    "MeasuredRun",
    "Metrics",
    "RunMeasures",
    "Usage",
    "cases_as_gold",
    "gold_of_case",
    "gold_of_run",
    "is_source",
    "measure",
    "measure_many",
    "read_measured",
    "references",
    "sum_runs",
]
