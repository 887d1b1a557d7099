"""What a metric, or its change, can be at all: a bound beyond it says nothing.

A gate that always holds lets everything through while it looks like one that guards, and a gate
that never holds is a slip of the sign or of the unit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from replay.metrics import Definition

_OPS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_NEAR = 1e-9


def range_of(definition: Definition, *, delta: bool, relative: bool) -> tuple[float, float]:
    """Give the least and the greatest value: of a quantity, of a share, of a change of either."""
    share = definition.unit == "%" and not definition.above_one
    if relative:
        return -1.0, math.inf
    if delta:
        return (-1.0, 1.0) if share else (-math.inf, math.inf)
    return 0.0, 1.0 if share else math.inf


def always(op: str, bound: float, values: tuple[float, float]) -> bool | None:
    """Tell whether a comparison holds whatever is measured (True), or never does (False).

    None where that depends on what is measured, as it should.
    """
    low, high = values
    nearest = next((end for end in values if math.isclose(end, bound, abs_tol=_NEAR)), bound)
    if op == "==":
        return None if low <= nearest <= high else False
    ends = {_OPS[op](low, nearest), _OPS[op](high, nearest)}
    return ends.pop() if len(ends) == 1 else None
