"""No bucket may regress: the same comparison in every bucket, without being fooled by their number.

A bucket passes by its own interval. It fails only by an interval that is as much wider as there are
buckets (Bonferroni), since of many buckets one looks bad by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from replay.gates.deciding import decide
from replay.gates.estimating import Estimated, estimate_change
from replay.gates.evidence import Evidence, MeasuredPair, paired_counts
from replay.gates.file import Gate
from replay.gates.grammar import PARTIAL, NoBucketRegresses, Op
from replay.gates.outcome import GateOutcome, Verdict
from replay.gates.wording import counted, unit_of, written
from replay.metrics import Count

_MOST_NAMED = 3


def judge_buckets(
    gate: Gate, rule: NoBucketRegresses, evidence: Evidence, confidence: float
) -> GateOutcome:
    """Judge a gate that looks at every bucket."""
    groups = _groups(evidence.pairs, rule)
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
    if not base.n:
        known = sorted({name for pair in evidence.pairs for name in pair.candidate.buckets})
        return replace(
            base,
            reason=f"no pair is in a bucket by {rule.dimension} with data for "
            f"{rule.metric.definition.name}; known: {', '.join(known) or 'nothing'}",
        )
    bound = -sign * rule.most.value
    # Where many are looked at, one looks bad by chance: together they err as often as one would.
    strict = 1 - (1 - confidence) / base.n
    judged = {
        name: (_bucket_of(found, rule, confidence), _bucket_of(found, rule, strict))
        for name, found in counts.items()
    }
    verdicts = {name: _of_bucket(*found, op, bound) for name, found in judged.items()}
    if rule.metric.definition.name not in PARTIAL:  # what was not evaluated may have gone wrong
        for name, pairs in groups.items():
            if verdicts[name] == "pass" and len(counts[name]) < len(pairs):
                verdicts[name] = "inconclusive"
    return _worst_bucket(base, {n: f[0] for n, f in judged.items()}, verdicts, sign)


def _bucket_of(
    counts: Sequence[tuple[Count, Count]], rule: NoBucketRegresses, confidence: float
) -> Estimated:
    relative = rule.most.scale == "relative"
    return estimate_change(rule.metric, counts, relative=relative, confidence=confidence)


def _of_bucket(usual: Estimated, strict: Estimated, op: Op, bound: float) -> Verdict:
    if usual.interval is None or usual.few is not None or strict.interval is None:
        return "inconclusive"
    if decide(usual, op, bound) == "pass":
        return "pass"
    return "fail" if decide(strict, op, bound) == "fail" else "inconclusive"


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
        for name in ours:
            if name in theirs:
                groups.setdefault(name, []).append(pair)
    return dict(sorted(groups.items()))
