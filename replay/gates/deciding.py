"""Whether an interval keeps a bound, breaks it, or holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt

from replay.gates.estimating import Estimated
from replay.gates.evidence import SMALL
from replay.gates.grammar import Op
from replay.gates.outcome import Verdict

_OPS: Mapping[Op, Callable[[float, float], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}


def decide(found: Estimated, op: Op, bound: float) -> Verdict:
    """Pass where all of the interval keeps the bound, fail where all of it breaks it.

    A verdict that says that something changed needs the test that swaps the sides to agree, since
    an interval that comes from drawing few samples is too sure of itself.
    """
    assert found.interval is not None
    low, high = found.interval.low, found.interval.high
    holds = _OPS[op]
    worst, best = (low, high) if op in (">=", ">") else (high, low)
    if holds(worst, bound):
        says_change = not holds(0.0, bound) or (abs(bound) <= SMALL and bool(found.value))
        return "pass" if found.unlikely or not says_change else "inconclusive"
    if holds(best, bound):
        return "inconclusive"
    return "fail" if found.unlikely or not holds(0.0, bound) else "inconclusive"
