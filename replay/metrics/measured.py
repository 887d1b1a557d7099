"""One run beside what it is measured against, and what several metrics need of both. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from replay.case import Case
from replay.matching.respelling import in_recorded_words
from replay.metrics.gold import Gold, gold_of_labels, labelled_success
from replay.metrics.model import MeasuredRun
from replay.metrics.pairing import PairedCall, pair_calls
from replay.oracles import OracleFinding, Outcome, evaluate
from replay.oracles.judging import usage
from tracekit.errors import PointerNotFound
from tracekit.jsontree import get
from tracekit.quantities import is_amount
from tracekit.trajectory import Trajectory


@dataclass(frozen=True)
class Measured:
    """One run, what it is measured against, and what several metrics need of both."""

    measured: MeasuredRun
    gold: Gold | None
    hidden: frozenset[str] = frozenset()
    """What of the case nobody can judge, since redaction took the values."""

    @property
    def run(self) -> Trajectory:
        """The run."""
        return self.measured.trajectory

    @cached_property
    def in_words(self) -> Trajectory:
        """The run in the words of what it is measured against, as its renames were mapped."""
        record = self.gold.record if self.gold is not None else None
        return self.run if record is None else in_recorded_words(self.run, record)

    @cached_property
    def calls_gold(self) -> Gold | None:
        """Who says which calls are expected: the gold, else the labels."""
        if self.gold is not None and self.gold.run is not None:
            return self.gold
        return gold_of_labels(self.run)

    @cached_property
    def pairs(self) -> tuple[PairedCall, ...]:
        """The expected calls that were made."""
        gold = self.calls_gold
        if gold is None or gold.run is None:
            return ()
        said = [self.in_words] if gold.case is None else [self.in_words, self.run]
        found = (pair_calls(gold.run, run, at_least=gold.at_least) for run in said)
        return max(found, key=len)  # a case may be in either words

    @property
    def gold_case(self) -> Case | None:
        """What the run is measured against, where that is a case."""
        return self.gold.case if self.gold is not None else None

    @cached_property
    def outcome(self) -> Outcome:
        """The run as oracles see it."""
        seconds = _known(self.measured.usage.latency_ms, 1000)
        return Outcome(self.run, complete=self.run.status != "open", elapsed_s=seconds or 0.0)

    @cached_property
    def findings(self) -> tuple[OracleFinding, ...] | None:
        """What the oracles of the case find; None without a case.

        Who writes a case may mean the words of its run or those that they were mapped to: what was
        done wrong is so in either, what is missing may be there in either.
        """
        if self.gold_case is None:
            return None
        expected, budgets = self.gold_case.expected, self.gold_case.budgets
        own = evaluate(expected, budgets, self.outcome)
        if self.in_words is self.run:
            return own
        mapped = evaluate(expected, budgets, replace(self.outcome, trajectory=self.in_words))
        return (
            *(one for one in own if _counts(one, mapped, self.in_words)),
            *(one for one in mapped if one not in own and _counts(one, own, self.run)),
        )

    @cached_property
    def unbounded(self) -> tuple[str, ...]:
        """Budgets of the case of which the record does not say whether they were kept."""
        if self.gold_case is None:
            return ()
        used = usage(self.outcome) | {"seconds": _known(self.measured.usage.latency_ms, 1000)}
        return tuple(
            name for name, most in self.gold_case.budgets if most is not None and used[name] is None
        )

    @cached_property
    def succeeded(self) -> bool | None:
        """Whether the task was done; None where nobody says."""
        if self.gold is not None and self.gold.success is not None:
            return self.gold.success
        if self.gold_case is None:
            return labelled_success(self.run)
        found = self.findings or ()
        if self.run.status == "error" or not all(one.undecided for one in found):
            return False
        unknown = found or self.gold_case.expected.invariants or self.unbounded or self.hidden
        return None if unknown else True


def _counts(one: OracleFinding, others: Iterable[OracleFinding], other: Trajectory) -> bool:
    """Whether a finding in one wording speaks against the run, given those in the other.

    A wrong argument is none where the same call has a right one in the other wording: one at the
    same place, of a tool of the same name, since else no rule has looked at it.
    """
    if one.undecided or one.oracle == "forbidden_tools":
        return True
    if any(_fault(one) == _fault(found) for found in others):
        return True
    if one.event_id is None or one.oracle != "arguments":
        return one.event_id is not None
    call = next(call for call in other.calls if call.event_id == one.event_id)
    try:
        get(call.arguments, one.pointer or "")
    except PointerNotFound:
        return True
    return call.tool != one.tool


def _fault(one: OracleFinding) -> tuple[str | None, ...]:
    return one.oracle, one.tool, one.pointer, one.event_id


def _known(amount: float | None, of: int) -> float | None:
    return amount / of if amount is not None and is_amount(amount) else None
