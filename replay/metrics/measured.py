"""One run beside what it is measured against, and what several metrics need of both. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from replay.case import Case
from replay.matching.respelling import in_recorded_words
from replay.metrics.gold import Gold, gold_of_labels, labelled_success
from replay.metrics.model import MeasuredRun
from replay.metrics.pairing import PairedCall, pair_calls
from replay.oracles import OracleFinding, Outcome, evaluate
from replay.oracles.judging import usage
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

        Who writes a case may mean the words of its run or those that they were mapped to: what is
        forbidden is so in either, what is required may be in either.
        """
        if self.gold_case is None:
            return None
        expected, budgets = self.gold_case.expected, self.gold_case.budgets
        own = evaluate(expected, budgets, self.outcome)
        if self.in_words is self.run:
            return own
        mapped = evaluate(expected, budgets, replace(self.outcome, trajectory=self.in_words))
        in_both = {one.signature for one in own} & {one.signature for one in mapped}
        every = (*own, *(one for one in mapped if one not in own))
        return tuple(o for o in every if o.oracle == "forbidden_tools" or o.signature in in_both)

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


def _known(amount: float | None, of: int) -> float | None:
    return amount / of if amount is not None and is_amount(amount) else None
