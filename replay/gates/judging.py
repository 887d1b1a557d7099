"""From gates and measured runs to verdicts. Pure.

A statistical gate passes where the whole interval keeps the bound, fails where the whole interval
breaks it, and is inconclusive in between. A safety gate, and any gate with ``==``, asks every run
by itself: one that does not hold fails it, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from replay.gates.bucketing import judge_buckets
from replay.gates.deciding import decide
from replay.gates.estimating import Estimated, estimate, estimate_change, needed_for
from replay.gates.evidence import (
    SMALL,
    Evidence,
    MeasuredPair,
    both,
    counts_of,
    is_past,
    pair_in,
    paired_counts,
    runs_in,
    unevaluated,
    unevaluated_pairs,
    why_not,
)
from replay.gates.file import Gate, GateFile
from replay.gates.grammar import Metric, NoBucketRegresses, Threshold
from replay.gates.outcome import GateOutcome
from replay.gates.wording import unit_of, written
from replay.metrics import Count, RunMeasures
from tracekit.numerals import counted

_MOST_NAMED = 3
_MOST_VALUES = 8


def judge(gates: GateFile, evidence: Evidence) -> tuple[GateOutcome, ...]:
    """Judge every gate of a file."""
    return tuple(_judge(gate, evidence, gates.confidence) for gate in gates.gates)


def _judge(gate: Gate, evidence: Evidence, confidence: float) -> GateOutcome:
    rule = gate.rule
    match rule:
        case NoBucketRegresses():
            found = judge_buckets(gate, rule, evidence, confidence)
        case Threshold() if rule.metric.delta:
            found = _change(gate, rule, evidence, confidence)
        case Threshold() if rule.op == "==":
            found = _every_run(gate, rule, evidence, confidence)
        case Threshold():
            found = _level(gate, rule, evidence, confidence)
    return replace(found, inconclusive=gate.inconclusive)


# --- one run at a time ----------------------------------------------------------------------------


def _every_run(gate: Gate, rule: Threshold, evidence: Evidence, confidence: float) -> GateOutcome:
    runs = runs_in(evidence.candidate, rule.bucket)
    counts = counts_of(runs, rule.metric, each=True)
    every = counts_of(runs, rule.metric, broken_off=True, each=True)
    base = _outcome(gate, rule, n=len(counts), of=len(runs))
    bad = [
        run_id
        for run_id, one in every.items()
        if (
            abs(_of(one) - rule.bound.value) > SMALL
            if run_id in counts
            else is_past(one, rule.metric, rule.bound.value)
        )
    ]
    if not counts and not bad:
        return _nothing(base, rule, evidence, runs)
    whole = counts_of(runs, rule.metric) if counts else every
    found = estimate(rule.metric, list(whole.values()), confidence=confidence)
    base = replace(base, value=found.value, interval=found.interval)
    if bad:
        more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        what = "unsafe" if rule.safety else f"not {rule.bound.text}"
        reason = f"{counted(len(bad), 'run')} {what}: {', '.join(bad[:_MOST_NAMED])}{more}"
        return replace(base, verdict="fail", reason=reason, runs=tuple(bad))
    least = ""
    if rule.metric.definition.form == "share" and not rule.bound.value and found.interval:
        least = f"; a true rate up to {100 * found.interval.high:.1f} % would look like this"
    word = "none" if not rule.bound.value else "all as said"
    base = replace(base, verdict="pass", reason=f"{word} of {counted(len(counts), 'run')}{least}")
    return _whole(base, rule.metric, unevaluated(runs, rule.metric, each=True))


def _of(one: Count) -> float:
    assert one.value is not None  # the others are not evaluated
    return one.value


# --- all runs of the candidate --------------------------------------------------------------------


def _level(gate: Gate, rule: Threshold, evidence: Evidence, confidence: float) -> GateOutcome:
    runs = [run for run in evidence.candidate if run.run_id in evidence.samples]
    runs = runs_in(runs, rule.bucket)
    counts = counts_of(runs, rule.metric)
    base = _outcome(gate, rule, n=len(counts), of=len(runs))
    if not counts:
        return _nothing(base, rule, evidence, runs)
    found = estimate(rule.metric, list(counts.values()), confidence=confidence)
    base = _against(base, found, rule, confidence)
    every = counts_of(runs, rule.metric, broken_off=True)
    if base.verdict != "fail" and len(every) > len(counts):
        found = estimate(rule.metric, list(every.values()), confidence=confidence)
        with_all = replace(base, n=len(every))
        with_all = _against(with_all, found, rule, confidence)
        if with_all.verdict == "fail":
            return with_all
    return _whole(base, rule.metric, unevaluated(runs, rule.metric))


# --- pairs ----------------------------------------------------------------------------------------


def _change(gate: Gate, rule: Threshold, evidence: Evidence, confidence: float) -> GateOutcome:
    pairs = [pair for pair in evidence.pairs if pair_in(pair, rule.bucket)]
    each = rule.op == "=="
    counts = paired_counts(pairs, rule.metric)
    judged = paired_counts(pairs, rule.metric, each=True) if each else counts
    base = _outcome(gate, rule, n=len(judged), of=len(pairs))
    if not base.n:
        return _no_pairs(base, rule, evidence, pairs)
    relative = rule.bound.scale == "relative"
    found = estimate_change(rule.metric, counts, relative=relative, confidence=confidence)
    if each:
        base = _every_pair(base, rule, pairs, found)
    else:
        base = _against(base, found, rule, confidence)
        every = paired_counts(pairs, rule.metric, broken_off=True)
        if base.verdict != "fail" and len(every) > len(counts):
            found = estimate_change(rule.metric, every, relative=relative, confidence=confidence)
            with_all = replace(base, n=len(every))
            with_all = _against(with_all, found, rule, confidence)
            if with_all.verdict == "fail":
                return with_all
    return _whole(base, rule.metric, unevaluated_pairs(pairs, rule.metric, each=each))


def _every_pair(
    base: GateOutcome, rule: Threshold, pairs: Sequence[MeasuredPair], found: Estimated
) -> GateOutcome:
    bad = []
    for pair in pairs:
        for one, two in paired_counts([pair], rule.metric, each=True):
            change = _change_of(_of(one), _of(two), relative=rule.bound.scale == "relative")
            if abs(change - rule.bound.value) > SMALL:
                bad.append(pair.candidate.run_id)
    told = _sides(found, rule)
    base = replace(base, value=found.value, interval=found.interval, runs=tuple(bad))
    if not bad:
        return replace(base, verdict="pass", reason=f"{told}every pair")
    reason = f"{told}{counted(len(bad), 'pair')} not {rule.bound.text}, first {bad[0]}"
    return replace(base, verdict="fail", reason=reason)


def _change_of(before: float, after: float, *, relative: bool) -> float:
    if not relative or before == after:
        return after - before
    return after / before - 1 if before else inf


def _against(
    base: GateOutcome, found: Estimated, rule: Threshold, confidence: float
) -> GateOutcome:
    """Hold an estimate against the bound of a gate."""
    bound = rule.bound.value
    base = replace(
        base,
        value=found.value,
        interval=found.interval,
        baseline=found.baseline,
        candidate=found.candidate,
    )
    told = _sides(found, rule)
    if found.value is None:
        return replace(base, verdict="fail", reason=f"no value: {found.why_none or 'no data'}")
    if found.interval is None:
        reason = found.few or "one sample has no interval"
        return replace(base, verdict="inconclusive", reason=f"{told}{reason}")
    verdict = decide(found, rule.op, bound)
    if verdict != "inconclusive":
        return replace(base, verdict=verdict, reason=told.rstrip("; ") or "the interval decides")
    needed = needed_for(found, bound, confidence=confidence)
    what = "pairs" if found.baseline is not None else "runs"
    if needed is not None:
        reason = f"the bound is inside the interval; {needed:,} {what} like these may decide"
    elif abs(found.value - bound) <= SMALL:
        reason = f"the value is the bound itself; no number of {what} decides"
    else:
        reason = "the bound is inside the interval"
    return replace(base, verdict="inconclusive", reason=told + reason, needed=needed)


# --- what there is no data for --------------------------------------------------------------------


def _whole(outcome: GateOutcome, metric: Metric, left: Sequence[RunMeasures]) -> GateOutcome:
    """Let nothing pass of which a part was not evaluated: that may be the part that went wrong."""
    if outcome.verdict != "pass" or not left:
        return outcome
    first = left[0]
    known = metric.definition.name in first.counts
    way_out = "select the others" if known else "label them, or narrow the gate with: on TAG"
    reason = (
        f"{len(left)} of {outcome.of} not evaluated: {first.run_id}: "
        f"{why_not(first, metric)}; {way_out}"
    )
    named = tuple(run.run_id for run in left)
    return replace(outcome, verdict="inconclusive", reason=reason, runs=named)


def _nothing(
    base: GateOutcome, rule: Threshold, evidence: Evidence, runs: Sequence[RunMeasures]
) -> GateOutcome:
    if not runs:
        return replace(base, verdict="fail", reason=_empty(rule, evidence.candidate))
    why = why_not(runs[0], rule.metric)
    return replace(
        base,
        verdict="fail",
        reason=f"none of {counted(len(runs), 'run')} is evaluated; {runs[0].run_id}: {why}",
        runs=tuple(run.run_id for run in runs),
    )


def _no_pairs(
    base: GateOutcome, rule: Threshold, evidence: Evidence, pairs: Sequence[MeasuredPair]
) -> GateOutcome:
    if not pairs:
        reason = (
            _empty(rule, both(evidence.pairs)) if evidence.pairs else "there is no pair to compare"
        )
        return replace(base, verdict="fail", reason=reason)
    metric = rule.metric
    each = rule.op == "=="
    left = unevaluated_pairs(pairs, metric, each=each) or both(pairs)
    run = next(run for run in left if not counts_of([run], metric, each=each))
    why = why_not(run, metric)
    return replace(
        base,
        verdict="fail",
        reason=f"none of {counted(len(pairs), 'pair')} is evaluated on both sides; "
        f"{run.run_id}: {why}",
    )


def _empty(rule: Threshold, runs: Sequence[RunMeasures]) -> str:
    if rule.bucket is None:
        return "there is no run"
    dimension, value = rule.bucket
    known = sorted({name for run in runs for name in run.buckets.get(dimension, ())})
    listed = ", ".join(known[:_MOST_VALUES]) + (", …" if len(known) > _MOST_VALUES else "")
    return f"no run has the {dimension} {value!r}; there are: {listed or 'none'}"


# --- words ----------------------------------------------------------------------------------------


def _outcome(gate: Gate, rule: Threshold, *, n: int, of: int) -> GateOutcome:
    return GateOutcome(
        name=gate.name,
        text=gate.text,
        verdict="fail",
        reason="",
        bound=f"{rule.op} {rule.bound.text}",
        n=n,
        of=of,
        unit=unit_of(rule.metric, relative=rule.bound.scale == "relative"),
    )


def _sides(found: Estimated, rule: Threshold) -> str:
    """Write both sides of a change, if it is one."""
    if found.baseline is None or found.candidate is None:
        return ""
    plain = rule.metric.definition.unit
    flips = "" if found.lost is None else f" ({found.lost} lost, {found.gained} gained)"
    return f"{written(found.baseline, plain)} → {written(found.candidate, plain)}{flips}; "
