"""What may be concluded from repeated runs. Pure; the statistics are scipy's, loaded when asked.

``model`` holds the values; ``proportions``, ``resampling`` and ``attempts`` describe one version;
``paired`` compares two on the same cases and ``power`` says how many would decide; ``samples`` says
what counts as a sample at all.
"""

from __future__ import annotations

from replay.stats.attempts import average_over_tasks, pass_at_k, pass_hat_k
from replay.stats.model import (
    ALPHA,
    CONFIDENCE,
    POWER,
    RESAMPLES,
    Better,
    Estimate,
    Interval,
    Paired,
    PairedVerdict,
)
from replay.stats.paired import compare_success, compare_values, interval_of_difference
from replay.stats.power import fewest_pairs, needed_pairs, power_of_pairs
from replay.stats.proportions import Proportion
from replay.stats.resampling import mean, quantile, ratio, values_for_quantile
from replay.stats.samples import Effective, Sample, effective

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "POWER",
    "RESAMPLES",
    "Better",
    "Effective",
    "Estimate",
    "Interval",
    "Paired",
    "PairedVerdict",
    "Proportion",
    "Sample",
    "average_over_tasks",
    "compare_success",
    "compare_values",
    "effective",
    "fewest_pairs",
    "interval_of_difference",
    "mean",
    "needed_pairs",
    "pass_at_k",
    "pass_hat_k",
    "power_of_pairs",
    "quantile",
    "ratio",
    "values_for_quantile",
]
