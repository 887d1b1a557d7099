"""Whether a planner fails on the whole run each time, and if not, how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replay.caserun import CaseResult
from replay.distill.question import did
from replay.distill.sightings import Choice
from replay.distill.sprt import Noise
from replay.oracles import OracleFinding
from replay.stats import Proportion
from tracekit.errors import DistillError

ERROR = 0.01
"""How often what is said of a case that fails only sometimes may be wrong."""
_SELDOM = 0.2
"""A planner that may fail less often than that cannot be reduced at a price."""


@dataclass(frozen=True)
class Steady:
    """A run on which the planner fails, and how far that can be relied on."""

    result: CaseResult
    found: OracleFinding
    noise: Noise | None = None
    """How often it does not fail; None where it always did."""
    remark: str | None = None
    """What a reader should know of that."""


def steadiness(
    run: Callable[[], CaseResult], choice: Choice, *, tries: int, more: int, flaky: bool
) -> Steady:
    """Run the planner on the whole case until it is known how often it fails in the way meant.

    Args:
        run: Runs it once.
        choice: The failure that is meant.
        tries: How often it is run, if it fails each time.
        more: How often besides, if not.
        flaky: Whether it may fail only sometimes.

    Raises:
        DistillError: it does not fail, or only sometimes and that is not allowed.
    """
    results = [run() for _ in range(tries)]
    found = [_finding(result, choice) for result in results]
    if not any(found):
        raise DistillError(
            f"{results[0].planner} does not fail so on the whole run "
            f"({choice.name}): {did(results[0])}",
            hint="leave the choice out to be shown what is seen",
        )
    signatures = {one.signature for one in found if one is not None}
    first, told = next((r, f) for r, f in zip(results, found, strict=True) if f is not None)
    if all(found) and len(signatures) == 1:
        return Steady(first, told)
    found += [_finding(run(), choice) for _ in range(more)]
    often = Proportion(sum(one is not None for one in found), len(found))
    if not flaky or len(signatures) > 1:
        raise DistillError(
            f"{first.planner} is flaky {often.successes}/{often.n}: it fails only sometimes on "
            "the same case, so no smaller one can be trusted",
            hint="take chance and time from tracekit.conditions, a model with temperature 0, "
            "or repeat until it is sure: --flaky",
        )
    return _sometimes(first, told, often)


def _finding(result: CaseResult, choice: Choice) -> OracleFinding | None:
    return next(filter(choice.fits, result.findings), None)


def _sometimes(result: CaseResult, found: OracleFinding, often: Proportion) -> Steady:
    """How far one failure in several runs can be relied on: as far as the worst that is likely."""
    interval = often.clopper_pearson()
    assert interval is not None
    if interval.low < _SELDOM:
        raise DistillError(
            f"{result.planner} is flaky {often.successes}/{often.n}: it fails too seldom to be "
            "sure of anything smaller at a price",
            hint="make it fail more often: take chance and time from tracekit.conditions",
        )
    noise = Noise(missed=1 - interval.low)
    remark = (
        f"it fails only sometimes: in {often.successes} of {often.n} runs of the whole "
        f"({interval.low:.0%} to {interval.high:.0%}); what is said of the case is right in "
        f"{1 - ERROR:.0%}, and to see it fail, run it {noise.repeats(ERROR)} times"
    )
    return Steady(result, found, noise, remark)
