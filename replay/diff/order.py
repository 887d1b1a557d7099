"""The partial order of a run, and its linearisation in the order of another.

Which steps may change places follows from three rules. Steps of one decision are unordered; where
they are one only by time, those that overlap. Others keep their order if both write, if one is a
write that may have happened and the other a read that shares a resource with it, or if a value
first seen in the observation of one occurs in the arguments of the other. Where the user and the
planner talk, nothing passes.

Of several observations that show a value any one will do, so the constraints are not a plain
graph; still, a step that could be next stays one that could be next, and therefore taking the
step of lowest rank again and again yields the smallest of all permitted orders: a normal form.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter

from replay.diff.flow import Flow, Values
from replay.diff.overlap import Spans, gathered_by_time, was_over
from replay.diff.rows import Row
from replay.diff.steps import Step
from tracekit.trajectory import Trajectory

_Mark = tuple[str, str]
"""A value, and whether it was ``shown`` or ``used``."""
_NOTHING: frozenset[_Mark] = frozenset()


class PartialOrder:
    """What must stay before what in one run."""

    def __init__(
        self, run: Trajectory, steps: Sequence[Step], values: Values | None = None
    ) -> None:
        self.steps = steps
        self._run = run
        self._values = values

    @cached_property
    def flow(self) -> Flow:
        """Which values the steps were given and used; looked for when first asked."""
        return Flow(self._run, self.steps, self._values or Values())

    @cached_property
    def row(self) -> Row:
        """The steps as they were recorded, ready to be aligned."""
        return Row(self.steps)

    @cached_property
    def _constraints(self) -> _Constraints:
        return _Constraints(self.steps, self.flow, self._by_time)

    @cached_property
    def _by_time(self) -> frozenset[int]:
        return gathered_by_time(self._run)

    @property
    def edges(self) -> int:
        """How many pairs of steps have to stay in their order by themselves."""
        return self._constraints.edges

    def linearise(self, ranks: Sequence[tuple[float, str, int]]) -> list[int]:
        """Return the permitted order that is smallest by ``ranks``; ties never occur."""
        return self._constraints.linearise(ranks)

    def ways(self, most: int) -> dict[int, list[int]]:
        """Give what may be next after each set of steps (as bits); nothing beyond ``most`` sets."""
        return self._constraints.ways(most)

    @property
    def is_replay(self) -> bool:
        """Whether the run is a replay."""
        return self._run.replay_of is not None

    def is_by_time(self, step: int) -> bool:
        """Whether the step is in a decision with others by time alone."""
        return self.steps[step].decision in self._by_time

    def in_turn(self, one: int, two: int) -> bool:
        """Whether two steps of one decision are in it by time alone, and did not overlap."""
        first, second = self.steps[one], self.steps[two]
        return self.is_by_time(one) and (was_over(first, second) or was_over(second, first))

    def conflict(self, one: int, two: int) -> bool:
        """Whether two steps would keep their order, were they of different decisions."""
        first, second = self.steps[one], self.steps[two]
        if first.call is None or second.call is None:
            return False
        return (first.writes and second.writes) or _shares(first, second)


class _Constraints:
    """What each step waits for, and what it lets others go on with."""

    def __init__(self, steps: Sequence[Step], flow: Flow, by_time: frozenset[int]) -> None:
        self.steps = steps
        self.flow = flow
        self._after: list[list[int]] = [[] for _ in steps]
        self._needs = [0] * len(steps)
        self._gives: list[Set[_Mark]] = [_NOTHING] * len(steps)
        self._waits: list[Set[_Mark]] = [_NOTHING] * len(steps)
        self._segments = _segments(steps)
        for segment in self._segments:
            self._order_effects(segment)
            if by_time:
                self._order_overlapping(segment, by_time)
            self._order_speech(segment)
        self._order_values()
        self.edges = sum(self._needs)

    def linearise(self, ranks: Sequence[tuple[float, str, int]]) -> list[int]:
        """Take the step of lowest rank that waits for nothing, again and again."""
        needs = list(self._needs)
        waiting: dict[_Mark, list[int]] = {}
        missing = [0] * len(self.steps)
        given: set[_Mark] = set()
        order: list[int] = []
        for segment in self._segments:
            for index in segment:
                if not self._waits[index]:
                    continue
                unmet = self._waits[index] - given
                missing[index] = len(unmet)
                for mark in unmet:
                    waiting.setdefault(mark, []).append(index)
            ready = [(ranks[i], i) for i in segment if not needs[i] and not missing[i]]
            heapq.heapify(ready)
            while ready:
                index = heapq.heappop(ready)[1]
                order.append(index)
                for later in self._after[index]:
                    needs[later] -= 1
                    if not needs[later] and not missing[later]:
                        heapq.heappush(ready, (ranks[later], later))
                for mark in self._gives[index] - given:
                    given.add(mark)
                    for later in waiting.pop(mark, ()):
                        missing[later] -= 1
                        if not needs[later] and not missing[later]:
                            heapq.heappush(ready, (ranks[later], later))
        return order

    def ways(self, most: int) -> dict[int, list[int]]:
        """Give what may be next after each set of steps; nothing where there are too many sets."""
        before = [0] * len(self.steps)
        gone = 0
        for segment in self._segments:
            for index in segment:
                before[index] |= gone
                for later in self._after[index]:
                    before[later] |= 1 << index
            gone |= sum(1 << index for index in segment)
        givers: dict[_Mark, int] = {}
        for index, marks in enumerate(self._gives):
            for mark in marks:
                givers[mark] = givers.get(mark, 0) | 1 << index
        waits = [[givers[mark] for mark in marks] for marks in self._waits]
        found: dict[int, list[int]] = {}
        open_sets = [0]
        while open_sets:
            done = open_sets.pop()
            if done in found:
                continue
            if len(found) == most:
                return {}
            found[done] = [
                index
                for index, needs in enumerate(before)
                if not (done >> index & 1 or needs & ~done)
                and all(done & some for some in waits[index])
            ]
            open_sets += [done | 1 << index for index in found[done]]
        return found

    def _edge(self, before: int, after: int) -> None:
        self._after[before].append(after)
        self._needs[after] += 1

    def _order_effects(self, segment: range) -> None:
        """Order writes among themselves, and reads against the writes that they can see."""
        groups: list[list[int]] = []
        for index in segment:
            if self.steps[index].writes:
                if groups and self.steps[groups[-1][0]].decision == self.steps[index].decision:
                    groups[-1].append(index)
                else:
                    groups.append([index])
        for earlier, later in pairwise(groups):
            for before in earlier:
                for after in later:
                    self._edge(before, after)
        seen: dict[tuple[str, ...] | None, list[tuple[int, list[int]]]] = {}
        for index in segment:
            step = self.steps[index]
            if step.effect == "read" and groups:
                touches = _touches(step)
                if touches not in seen:
                    seen[touches] = self._visible(index, groups)
                self._order_read(index, seen[touches])

    def _order_overlapping(self, segment: range, by_time: frozenset[int]) -> None:
        """Order the calls of one decision that did not overlap, as those of several decisions."""
        for decision, found in groupby(segment, lambda index: self.steps[index].decision):
            if decision not in by_time:
                continue
            steps = [self.steps[index] for index in found]
            writes = [step for step in steps if step.writes]
            spans = Spans(writes)
            for write in writes:
                for before in spans.just_before(write):
                    self._edge(before, write.index)
            seen: dict[tuple[str, ...] | None, Spans] = {}
            for read in (step for step in steps if step.effect == "read"):
                touches = _touches(read)
                if touches not in seen:
                    seen[touches] = Spans([write for write in writes if _shares(read, write)])
                for before in seen[touches].just_before(read):
                    self._edge(before, read.index)
                for after in seen[touches].just_after(read):
                    self._edge(read.index, after)

    def _visible(self, read: int, groups: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
        """List the writes that a read could see, each decision's together, with the decision."""
        found = []
        for group in groups:
            sharing = [at for at in group if _shares(self.steps[read], self.steps[at])]
            if sharing:
                found.append((self.steps[group[0]].decision, sharing))
        return found

    def _order_read(self, read: int, visible: Sequence[tuple[int, list[int]]]) -> None:
        """Put one read between the last writes that it could see and the first that it could not.

        The writes before and after those are ordered by way of them: all writes of a decision stay
        before all of the next that has any.
        """
        decision = self.steps[read].decision
        at = bisect_left(visible, decision, key=itemgetter(0))
        if at:
            for write in visible[at - 1][1]:
                self._edge(write, read)
        if at < len(visible) and visible[at][0] == decision:
            at += 1
        if at < len(visible):
            for write in visible[at][1]:
                self._edge(read, write)

    def _order_speech(self, segment: range) -> None:
        """Keep what was said in order, among itself and against the writes."""
        last_said: int | None = None
        last_writes: list[int] = []
        for index in segment:
            step = self.steps[index]
            if step.kind == "said":
                if last_said is not None:
                    self._edge(last_said, index)
                for write in last_writes:
                    self._edge(write, index)
                last_said = index
            elif step.writes:
                if last_writes and self.steps[last_writes[0]].decision != step.decision:
                    last_writes = []
                last_writes.append(index)
                if last_said is not None and self.steps[last_said].decision != step.decision:
                    self._edge(last_said, index)

    def _order_values(self) -> None:
        """Keep observation before use, or use before observation, whichever was first.

        A value first seen in an observation: whoever uses it waits until some step has shown it. A
        value that the planner brought itself: an observation that shows it, too, waits until some
        step has used it, since after that observation it could have been read there.
        """
        first_shown: dict[str, int] = {}
        first_used: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for value in self.flow.provides[index]:
                first_shown.setdefault(value, step.decision)
            for value in self.flow.uses[index]:
                first_used.setdefault(value, step.decision)
        for index in range(len(self.steps)):
            shows, uses = self.flow.provides[index], self.flow.uses[index]
            if not shows and not uses:
                continue
            self._gives[index] = {(value, "shown") for value in shows} | {
                (value, "used") for value in uses
            }
            self._waits[index] = {
                (value, "shown") for value in uses if first_shown[value] < first_used[value]
            } | {(value, "used") for value in shows if first_used[value] < first_shown[value]}


def _segments(steps: Sequence[Step]) -> list[range]:
    """Cut the run where nothing passes; a barrier is a segment of its own."""
    segments = []
    start = 0
    for index, step in enumerate(steps):
        if step.is_barrier:
            segments += [range(start, index), range(index, index + 1)]
            start = index + 1
    segments.append(range(start, len(steps)))
    return [segment for segment in segments if segment]


def _touches(step: Step) -> tuple[str, ...] | None:
    contract = None if step.call is None else step.call.contract
    return None if contract is None else contract.touches


def _shares(one: Step, two: Step) -> bool:
    """Whether one is a write that may have happened and the other a read that could see it."""
    if one.call is None or two.call is None:
        return False
    read, write = (one, two) if one.effect == "read" else (two, one)
    if read.effect != "read" or not write.wrote:
        return False
    assert read.call is not None
    assert write.call is not None
    if read.call.contract is None or write.call.contract is None:
        return True
    return read.call.contract.shares_resource(write.call.contract)
