"""Calls that are one decision only because they overlap in time, and which of them do not overlap.

A call that stays open, a generator that is read in between, say, makes one decision of all that
code does meanwhile. What was over before another call began still comes before it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from replay.diff.steps import Step
from tracekit.trajectory import Call, Trajectory


def gathered_by_time(run: Trajectory) -> frozenset[int]:
    """The decisions of several calls that no reply of a model asked for together."""
    return frozenset(
        decision.index
        for decision in run.decisions
        if len(decision.calls) > 1 and decision.model_call is None and decision.message is None
    )


def was_over(one: Step, two: Step) -> bool:
    """Whether ``one`` had come back before ``two`` began, as far as it is known."""
    return _end(one) < _start(two)


class Spans:
    """Some calls of one decision, by when they began and when they came back."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._by_start = sorted(steps, key=_start)
        self._by_end = sorted(steps, key=_end)

    def just_before(self, step: Step) -> Iterator[int]:
        """Name those that were over when ``step`` began, but not before another of these did."""
        at = bisect_left(self._ends, _start(step))
        latest = self._latest[at - 1] if at else -math.inf
        while at and self._ends[at - 1] >= latest:
            at -= 1
            yield self._by_end[at].index

    def just_after(self, step: Step) -> Iterator[int]:
        """Name those that began when ``step`` was over, but not after another of these was."""
        at = bisect_right(self._starts, _end(step))
        earliest = self._earliest[at] if at < len(self._starts) else math.inf
        while at < len(self._starts) and self._starts[at] <= earliest:
            yield self._by_start[at].index
            at += 1

    @cached_property
    def _starts(self) -> list[float]:
        return [_start(step) for step in self._by_start]

    @cached_property
    def _ends(self) -> list[float]:
        return [_end(step) for step in self._by_end]

    @cached_property
    def _latest(self) -> list[float]:
        """When the last of those began that were over by each end."""
        return list(accumulate(map(_start, self._by_end), max))

    @cached_property
    def _earliest(self) -> list[float]:
        """When the first of those was over that began from each start on."""
        return list(accumulate(map(_end, reversed(self._by_start)), min))[::-1]


def span_of(call: Call) -> tuple[float, float]:
    """When a call began and had come back: what does not tell began before everything, and has not.

    Without its begin nothing is known of its end either.
    """
    if call.ts_start_ns is None:
        return -math.inf, math.inf
    return call.ts_start_ns, math.inf if call.ts_end_ns is None else call.ts_end_ns


def _start(step: Step) -> float:
    return -math.inf if step.call is None else span_of(step.call)[0]


def _end(step: Step) -> float:
    return math.inf if step.call is None else span_of(step.call)[1]
