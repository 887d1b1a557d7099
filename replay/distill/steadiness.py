"""Whether a planner fails each time, and if not, how often: on the whole run, and on the case.

A failure that comes now and then although nothing of the run is shown is no failure of that run:
the oracle goes by chance, or the planner does, and nothing is reduced then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replay.case import Rate
from replay.caserun import CaseResult
from replay.distill.question import did
from replay.distill.remembering import AnswerFile, not_any_more
from replay.distill.sightings import Choice
from replay.distill.sprt import Noise
from replay.oracles import OracleFinding
from replay.stats import Proportion
from tracekit.errors import DistillError

ERROR = 0.01
"""How often what is said of a case that fails only sometimes may be wrong."""
RATE_TRIES = 20
"""How often a planner is run, where it does not always fail, to say how often it does."""
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
    run: Callable[[], CaseResult],
    choice: Choice,
    *,
    empty: Callable[[], CaseResult],
    tries: int,
    more: int,
    flaky: bool,
) -> Steady:
    """Run the planner on the whole case until it is known how often it fails in the way meant.

    Args:
        run: Runs it once.
        choice: The failure that is meant.
        empty: Runs it once where nothing of the run is shown.
        tries: How often it is run, if it fails each time.
        more: How often besides, if not.
        flaky: Whether it may fail only sometimes.

    Raises:
        DistillError: it does not fail, or only sometimes and that is not allowed.
    """
    if flaky:  # a few failures in a row may be chance
        tries, more = tries + more, 0
    results = [run() for _ in range(tries)]
    found = [_finding(result, choice) for result in results]
    if not any(found):
        raise _never(results[0], choice)
    first, told = next((r, f) for r, f in zip(results, found, strict=True) if f is not None)
    alike = len({one.signature for one in found if one is not None}) == 1
    if all(found) and alike and not flaky:
        return Steady(first, told)
    found += [_finding(run(), choice) for _ in range(more)]
    often = Proportion(sum(one is not None for one in found), len(found))
    if not flaky or not alike:
        raise _is_flaky(first.planner, often)
    _check_it_is_of_the_run([_finding(empty(), choice) for _ in found], often)
    return _sometimes(first, told, often)


def _never(result: CaseResult, choice: Choice) -> DistillError:
    return DistillError(
        f"{result.planner} does not fail so on the whole run ({choice.name}): {did(result)}",
        hint="leave the choice out to be shown what is seen",
    )


def _is_flaky(planner: str, often: Proportion) -> DistillError:
    return DistillError(
        f"{planner} is flaky {often.successes}/{often.n}: it fails only sometimes on the same "
        "case, so no smaller one can be trusted",
        hint="take chance and time from tracekit.conditions, a model with temperature 0, "
        "or repeat until it is sure: --flaky",
    )


def _check_it_is_of_the_run(found: Sequence[OracleFinding | None], often: Proportion) -> None:
    """Refuse a failure that comes now and then whatever is shown."""
    count = sum(one is not None for one in found)
    if 0 < count < len(found):
        raise DistillError(
            f"the oracle is flaky: it is not met in {often.successes}/{often.n} runs of the whole, "
            f"and in {count}/{len(found)} that are shown nothing of it, so it goes by chance and "
            "no case can be about it",
            hint="judge what the planner does, and that alone",
        )


def proven(
    run: Callable[[], CaseResult],
    found_in: Callable[[CaseResult], OracleFinding | None],
    *,
    sometimes: bool,
    answers: AnswerFile | None = None,
) -> tuple[CaseResult, OracleFinding, Rate | None]:
    """Show that a planner fails on a case, and how often if it does not always.

    Args:
        run: Runs it once in a process that has not run before.
        found_in: The failure that is meant, where it is seen.
        sometimes: Whether it may fail only sometimes.
        answers: Where answers were taken from.

    Raises:
        DistillError: it does not fail.
    """
    results = [run() for _ in range(RATE_TRIES if sometimes else 1)]
    seen = [(result, found) for result in results if (found := found_in(result)) is not None]
    if not seen:
        said = f"{results[0].planner} does not fail any more: {results[0].verdict}"
        raise not_any_more(said, answers)
    rate = _rate(Proportion(len(seen), len(results))) if sometimes else None
    return *seen[0], rate


def _rate(often: Proportion) -> Rate:
    interval = often.clopper_pearson()
    assert interval is not None
    return Rate(
        failed=often.successes,
        runs=often.n,
        low=round(interval.low, 4),
        high=round(interval.high, 4),
        repeat=Noise(missed=1 - interval.low).repeats(ERROR),
    )


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
        f"it may fail only sometimes: it did in {often.successes} of {often.n} runs of the whole "
        f"({interval.low:.0%} to {interval.high:.0%}); what is said of the case is right in "
        f"{1 - ERROR:.0%}, and to see it fail, run it {noise.repeats(ERROR)} times"
    )
    return Steady(result, found, noise, remark)
