"""The entrance: measure one run, or many, sorted into buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches

from replay.case import Case
from replay.metrics.attempts import attempts_of
from replay.metrics.buckets import FIXED, NONE, attempt_of, buckets_of
from replay.metrics.counting import count_metrics
from replay.metrics.ending import broken_off
from replay.metrics.gold import Gold, GoldFor, gold_of_case, gold_of_run
from replay.metrics.hidden import as_shown
from replay.metrics.measured import Measured
from replay.metrics.model import MeasuredRun, RunMeasures
from replay.metrics.summing import sum_up
from replay.metrics.table import Metrics
from replay.stats import Sample, effective
from tracekit.errors import UsageError
from tracekit.trajectory import Trajectory

AnyGold = Gold | Trajectory | Case | GoldFor | None


def measure(run: MeasuredRun | Trajectory, *, gold: AnyGold = None) -> RunMeasures:
    """Count every metric on one run.

    Args:
        run: The run; of a bare trajectory it is not known what it used.
        gold: What it is measured against: a reference run, a case, or what finds either for a run.
            What it leaves open, the run's own labels say.
    """
    measured = MeasuredRun(run) if isinstance(run, Trajectory) else run
    trajectory = measured.trajectory
    shown = as_shown(trajectory, _gold_for(gold)(trajectory))
    counted = replace(measured, trajectory=shown.run)
    counts, missing = count_metrics(Measured(counted, shown.gold, shown.hidden))
    return RunMeasures(
        run_id=trajectory.run_id,
        task_id=trajectory.task_id,
        counts=counts,
        missing={name: one.why for name, one in missing.items()},
        attempt_of=attempt_of(trajectory),
        sample=Sample.of(trajectory),
        exempt=frozenset(name for name, one in missing.items() if one.kind == "no part"),
        odd=tuple(dict.fromkeys(one.why for one in missing.values() if one.kind == "odd")),
        buckets=buckets_of(trajectory),
        broken_off=broken_off(trajectory),
    )


def measure_many(
    runs: Iterable[MeasuredRun | Trajectory], *, by: str | None = None, gold: AnyGold = None
) -> Metrics:
    """Count every metric on many runs, and sum them up.

    A run that only repeats another (see ``replay.stats.samples``) is no sample and not counted.

    Args:
        runs: Read one after the other; none is kept.
        by: What to sort them by: source, agent, task, status, tool, risk, tag, planner, or the name
            of a label, a version, or of tags such as ``difficulty:hard``.
        gold: What each is measured against; a function may give each its own.

    Raises:
        UsageError: no run can be sorted so.
    """
    return sum_runs([measure(run, gold=gold) for run in runs], by=by)


def sum_runs(measured: Iterable[RunMeasures], *, by: str | None = None) -> Metrics:
    """Sum up runs that have been measured.

    Raises:
        UsageError: no run can be sorted so.
    """
    every = list(measured)
    samples = effective(run.sample for run in every)
    runs = [run for run in every if run.run_id not in samples.repeats]
    buckets = () if by is None else tuple(sum_up(name, one) for name, one in _sorted(runs, by))
    return Metrics(sum_up("all", runs), by, buckets, attempts_of(runs), samples.repeats)


def _sorted(runs: list[RunMeasures], by: str) -> Iterable[tuple[str, list[RunMeasures]]]:
    found: defaultdict[str, list[RunMeasures]] = defaultdict(list)
    for run in runs:
        for name in run.buckets.get(by, (NONE,)):
            found[name].append(run)
    if set(found) == {NONE} and by not in FIXED:
        known = sorted({*FIXED, *(name for run in runs for name in run.buckets)})
        close = get_close_matches(by, known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no run says its {by!r}", hint=f"{meant}they say: {', '.join(known)}")
    return sorted(found.items(), key=lambda item: (item[0] == NONE, item[0]))


def _gold_for(gold: AnyGold) -> Callable[[Trajectory], Gold | None]:
    match gold:
        case None:
            return lambda _: None
        case Gold():
            return lambda _: gold
        case Trajectory():
            reference = gold_of_run(gold)
            return lambda _: reference
        case Case():
            expected = gold_of_case(gold)
            return lambda _: expected
        case _:
            return gold
