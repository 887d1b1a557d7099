"""No bucket may regress: the same comparison in every bucket, without being fooled by their number.

Pairs whose runs have no bucket in common are one too, ``(none)``: they may be the ones that got
worse. A bucket passes by its own interval. It fails only by an interval that is as much wider as
there are buckets (Bonferroni), since of many buckets one looks bad by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replay.gates.deciding import decide
from replay.gates.estimating import Estimated, estimate_change
from replay.gates.evidence import (
    Counts,
    Evidence,
    MeasuredPair,
    paired_counts,
    unevaluated_pairs,
)
from replay.gates.file import Gate
from replay.gates.grammar import NoBucketRegresses, Op
from replay.gates.outcome import GateOutcome, Verdict
from replay.gates.wording import unit_of, written
from replay.metrics.buckets import NONE
from tracekit.numerals import counted

_MOST_NAMED = 3


def judge_buckets(
    gate: Gate, rule: NoBucketRegresses, evidence: Evidence, confidence: float
) -> GateOutcome:
    """Judge a gate that looks at every bucket."""
    groups = _judged(_groups(evidence.pairs, rule), rule)
    sign = 1 if rule.metric.definition.better == "higher" else -1
    op: Op = ">=" if sign > 0 else "<="
    counts = {name: paired_counts(pairs, rule.metric) for name, pairs in groups.items()}
    base = GateOutcome(
        name=gate.name,
        text=gate.text,
        verdict="fail",
        reason="",
        bound=f"{op} {'-' if sign > 0 else '+'}{rule.most.text}",
        unit=unit_of(rule.metric, relative=rule.most.scale == "relative"),
        n=sum(1 for found in counts.values() if found),
        of=len(groups),
    )
    if not any(found for name, found in counts.items() if name != NONE):
        known = sorted({name for pair in evidence.pairs for name in pair.candidate.buckets})
        return replace(
            base,
            n=0,
            reason=f"no pair is in a bucket by {rule.dimension} with data for "
            f"{rule.metric.definition.name}; known: {', '.join(known) or 'nothing'}",
        )
    # Where many are looked at, one looks bad by chance: together they err as often as one would.
    strict = 1 - (1 - confidence) / base.n
    judge = _OneBucket(rule, op, -sign * rule.most.value, confidence, strict)
    verdicts = {name: judge.verdict(pairs, counts[name]) for name, pairs in groups.items()}
    judged = {name: judge.estimate(found, confidence) for name, found in counts.items()}
    return _worst_bucket(base, judged, verdicts, sign)


@dataclass(frozen=True, slots=True)
class _OneBucket:
    """The comparison that is made in every bucket."""

    rule: NoBucketRegresses
    op: Op
    bound: float
    confidence: float
    strict: float
    """The confidence to fail by."""

    def verdict(self, pairs: Sequence[MeasuredPair], counts: Sequence[Counts]) -> Verdict:
        """Judge a bucket; what was not evaluated of it may have gone wrong, and cannot be right."""
        metric = self.rule.metric
        found = self._by_interval(counts)
        if not unevaluated_pairs(pairs, metric):
            return found
        every = paired_counts(pairs, metric, broken_off=True)
        if len(every) > len(counts) and self._by_interval(every) == "fail":
            return "fail"
        return "inconclusive" if found == "pass" else found

    def estimate(self, counts: Sequence[Counts], confidence: float) -> Estimated:
        """Estimate the change in a bucket."""
        relative = self.rule.most.scale == "relative"
        return estimate_change(self.rule.metric, counts, relative=relative, confidence=confidence)

    def _by_interval(self, counts: Sequence[Counts]) -> Verdict:
        usual = self.estimate(counts, self.confidence)
        strict = self.estimate(counts, self.strict)
        if usual.interval is not None and decide(usual, self.op, self.bound) == "pass":
            return "pass"
        if strict.interval is not None and decide(strict, self.op, self.bound) == "fail":
            return "fail"
        return "inconclusive"


def _worst_bucket(
    base: GateOutcome, found: Mapping[str, Estimated], verdicts: Mapping[str, Verdict], sign: int
) -> GateOutcome:
    order = {"fail": 0, "inconclusive": 1, "pass": 2}

    def badness(name: str) -> tuple[int, float]:
        value = found[name].value
        return order[verdicts[name]], sign * value if value is not None else 0.0

    ranked = sorted(found, key=badness)
    worst = ranked[0]
    told = [
        f"{name} {written(found[name].value, base.unit, signed=True)} "
        f"({counted(found[name].n, 'pair')})"
        for name in ranked
        if verdicts[name] == verdicts[worst]
    ]
    more = f", and {len(told) - _MOST_NAMED} more" if len(told) > _MOST_NAMED else ""
    words = {
        "fail": "regress",
        "inconclusive": "too few evaluated pairs to tell",
        "pass": "none; the worst",
    }
    verdict = verdicts[worst]
    return replace(
        base,
        verdict=verdict,
        value=found[worst].value,
        baseline=found[worst].baseline,
        candidate=found[worst].candidate,
        interval=found[worst].interval,
        reason=f"{words[verdict]}: {', '.join(told[:_MOST_NAMED])}{more}",
    )


def _groups(
    pairs: Sequence[MeasuredPair], rule: NoBucketRegresses
) -> dict[str, list[MeasuredPair]]:
    """Sort pairs by what both of their runs have in common."""
    groups: dict[str, list[MeasuredPair]] = {}
    for pair in pairs:
        ours = pair.baseline.buckets.get(rule.dimension, ())
        theirs = pair.candidate.buckets.get(rule.dimension, ())
        for name in [name for name in ours if name in theirs] or [NONE]:
            groups.setdefault(name, []).append(pair)
    return dict(sorted(groups.items()))


def _judged(
    groups: Mapping[str, list[MeasuredPair]], rule: NoBucketRegresses
) -> dict[str, list[MeasuredPair]]:
    """Leave out the buckets of which no pair has a part in the metric."""
    return {
        name: pairs
        for name, pairs in groups.items()
        if paired_counts(pairs, rule.metric) or unevaluated_pairs(pairs, rule.metric)
    }
