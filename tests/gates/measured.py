"""Short ways to write measured runs for tests of gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.gates import Evidence, GateOutcome, MeasuredPair, judge, parse_gates
from replay.metrics import Count, RunMeasures
from replay.stats import Sample

NO_PART = "no part"
"""A metric that is not about a run."""


def measured(
    run_id: str,
    *,
    tags: Sequence[str] = (),
    missing: str = "nobody said",
    broken_off: str | None = None,
    **values: Any,
) -> RunMeasures:
    """A run: yes or no for shares, a number for means, two for ratios; None is missing.

    What is ``NO_PART`` is missing too, and nothing that could have gone wrong.
    """
    counts = {}
    for name, value in values.items():
        match value:
            case None | "no part":
                pass
            case (top, below):
                counts[name] = Count(top, below)
            case _:
                counts[name] = Count(float(value), 1.0)
    return RunMeasures(
        run_id=run_id,
        task_id=None,
        counts=counts,
        missing={name: missing for name in values if name not in counts},
        sample=Sample(run_id, trajectory=run_id),
        exempt=frozenset(name for name, value in values.items() if value == NO_PART),
        buckets={"tag": tuple(tags)},
        broken_off=broken_off,
    )


def pairs_of(metric: str, before: Sequence[Any], after: Sequence[Any]) -> Evidence:
    """So many pairs, with the metric of either side."""
    made = tuple(
        MeasuredPair(
            f"T-{number}",
            measured(f"old-{number}", **{metric: one}),
            measured(f"new-{number}", **{metric: two}),
        )
        for number, (one, two) in enumerate(zip(before, after, strict=True))
    )
    return with_pairs(made)


def with_pairs(pairs: Sequence[MeasuredPair]) -> Evidence:
    runs = tuple(pair.candidate for pair in pairs)
    return Evidence(runs, frozenset(run.run_id for run in runs), tuple(pairs))


def runs(*given: RunMeasures) -> Evidence:
    return Evidence(given, frozenset(run.run_id for run in given))


def verdict(check: str, evidence: Evidence, **keys: Any) -> GateOutcome:
    """Judge one gate."""
    lines = [f"{key} = {value!r}" for key, value in keys.items()]
    [found] = judge(parse_gates("\n".join([*lines, f'gates = ["{check}"]'])), evidence)
    return found
