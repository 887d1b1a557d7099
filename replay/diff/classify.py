"""From matched steps to divergences: their kind, harm, fields, cause and place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from replay.diff.arguments import Declared, came_back
from replay.diff.consequence import NO_END, Side, fed
from replay.diff.explain import explain
from replay.diff.fields import argument_fields, outcome_fields, outcomes_differ
from replay.diff.harms import (
    Passed,
    change_harm,
    order_harm,
    outcome_harm,
    presence_harm,
    refusal_of,
)
from replay.diff.lines import Line, Placed, Seen, Way, action_of, alike, turned
from replay.diff.match import Match, retries
from replay.diff.model import ACTED, Action, Divergence, Harm, Kind, Mark, Pair
from replay.diff.order import PartialOrder
from replay.diff.steps import Step, policy_of
from tracekit.canonical import JsonValue
from tracekit.jsontree import Difference, differences
from tracekit.trajectory import Trajectory

_END = float("inf")
_BESIDE = "the calls of the same decision differ"
_ASKED = "it was called with other arguments"


@dataclass(frozen=True)
class Found:
    """All that the judge read off."""

    ranked: tuple[Divergence, ...]
    first: Divergence | None
    first_call: Divergence | None
    aligned: tuple[Pair, ...]
    matched_prefix: int
    resynchronised_at: int | None


class Judge:
    """Reads the divergences off the matched steps of two runs."""

    def __init__(
        self,
        *,
        left: PartialOrder,
        right: PartialOrder,
        names: tuple[str, str],
        rules: Mapping[str, Declared],
        matches: Sequence[Match],
        runs: tuple[Trajectory, Trajectory],
    ) -> None:
        given = tuple(came_back(run.input) for run in runs)
        is_open = tuple(run.status == "open" for run in runs)
        self._left = Side(names[0], left, given=given[0], given_other=given[1], is_open=is_open[0])
        self._right = Side(
            names[1], right, given=given[1], given_other=given[0], is_open=is_open[1]
        )
        self._actions = (
            [action_of(step) for step in left.steps],
            [action_of(step) for step in right.steps],
        )
        self._seen = (
            Seen(left.steps, self._actions[0], runs[0]),
            Seen(right.steps, self._actions[1], runs[1]),
        )
        self._order = left
        self._rules = rules
        self._runs = runs
        self._retries = retries(left.steps), retries(right.steps)
        self._ways = (
            Way(matches, left.steps, right.steps),
            Way([turned(match) for match in matches], right.steps, left.steps),
        )
        self._lines = self._ways[0].lines
        self._disturb()

    def judge(
        self,
        *,
        groups: Sequence[tuple[Match, Match]],
        ends: Sequence[Difference],
        inputs: Sequence[Difference],
    ) -> Found:
        """Find, explain and rank all divergences."""
        earlier = {two: one for one, two in groups}
        for line in self._lines:
            line.divergences += self._of_match(line.match)
            if line.match in earlier:
                line.divergences.append(self._regrouped(earlier[line.match], line.match))
        self._spoken_along()
        placed = self._placed()
        if ends:
            answer = self._answer(ends, disturbed=bool(placed))
            placed.append(Placed(answer, _END, _END, _END))
        if inputs:
            placed.append(Placed(self._input(inputs), _END, _END, _END))
        first = min(placed, key=lambda one: one.rank, default=None)
        ranked = sorted((one.found for one in placed), key=lambda d: (d.harm, not d.cause))
        before = min((one.start for one in placed), default=_END)
        before_other = min((one.other for one in placed), default=_END)
        clean = (
            sum(d.index < most for d in run.decisions)
            for run, most in zip(self._runs, (before, before_other), strict=True)
        )
        return Found(
            ranked=tuple(ranked),
            first=None if first is None else first.found,
            first_call=_first_call(placed, None if first is None else first.found),
            aligned=tuple(self._pair(line) for line in self._lines),
            matched_prefix=min(clean),
            resynchronised_at=None if first is None else self._resynchronised(first.end),
        )

    def _placed(self) -> list[Placed]:
        """Say of every divergence of a step where it begins, on either side."""
        others = {turned(line.match): line.start for line in self._ways[1].lines}
        return [
            Placed(found, line.start, line.end, others[line.match])
            for line in self._lines
            for found in line.divergences
        ]

    def _spoken_along(self) -> None:
        """Take words beside calls for a consequence where their decision did otherwise."""
        did: tuple[set[int], set[int]] = set(), set()
        for found in (d for line in self._lines for d in line.divergences):
            if found.kind in ACTED and found.effect is not None:
                did[0].add(found.left_decision or 0)
                did[1].add(found.right_decision or 0)
        for line in self._lines:
            for at, found in enumerate(line.divergences):
                beside = found.left_decision in did[0] or found.right_decision in did[1]
                if found.harm == Harm.WORDING and found.cause and beside:
                    line.divergences[at] = self._because(found, _BESIDE)

    def _because(self, found: Divergence, because: str) -> Divergence:
        found = replace(found, cause=False, because=because)
        return replace(found, explanation=explain(found, self._left.name, self._right.name))

    def _disturb(self) -> None:
        """Note who acted otherwise, and whose observation the other run did not get."""
        for line in self._lines:
            one, two = self._steps(line.match)
            other = one is None or two is None or bool(argument_fields(one, two, self._rules))
            for side, step in ((self._left, one), (self._right, two)):
                if step is not None and other and step.kind not in ("said", "turn"):
                    side.acted.add(step.index)
            if one is None or two is None:
                for side, step in ((self._left, one), (self._right, two)):
                    if step is not None and step.kind not in ("said", "told"):
                        side.disturbed[step.index] = ""
            elif outcomes_differ(one, two) or refusal_of(one) != refusal_of(two):
                self._left.disturbed[one.index] = two.outcome_text
                self._right.disturbed[two.index] = one.outcome_text

    def _steps(self, match: Match) -> tuple[Step | None, Step | None]:
        return (
            None if match.left is None else self._left.order.steps[match.left],
            None if match.right is None else self._right.order.steps[match.right],
        )

    def _of_match(self, match: Match) -> list[Divergence]:
        one, two = self._steps(match)
        if one is not None and two is not None:
            found = self._of_pair(one, two)
            if match.moved:
                harm = order_harm(one, two, self._passed)
                found.insert(0, self._divergence("reordered", harm, one, two))
            return found
        step = one or two
        assert step is not None  # a match has at least one side
        kind: Kind = "missing" if two is None else "added"
        if step.call is not None and step.index in self._retries[0 if two is None else 1]:
            kind = "retry"
        because = fed(((self._left, one), (self._right, two)))
        because = because or self._after_end(step, 0 if two is None else 1)
        if step.call is None:
            kind = "changed_message"
            because = because or self._given_otherwise(one, two)
        return [self._divergence(kind, presence_harm(step), one, two, because=because)]

    def _of_pair(self, one: Step, two: Step) -> list[Divergence]:
        found = []
        fields = argument_fields(one, two, self._rules)
        if one.call is None or two.call is None:
            if fields:
                because = self._given_otherwise(one, two)
                harm = presence_harm(one)
                found.append(
                    self._divergence("changed_message", harm, one, two, fields, because=because)
                )
            return found
        if fields:
            because = fed(((self._left, one), (self._right, two)), fields)
            harm = change_harm(one, two)
            found.append(
                self._divergence("changed_arguments", harm, one, two, fields, because=because)
            )
        if policy_of(one.call) != policy_of(two.call):
            found.append(
                self._divergence("changed_policy", Harm.REFUSAL, one, two, _policies(one, two))
            )
        elif outcomes_differ(one, two):
            found.append(self._observation(one, two, asked=_ASKED if fields else None))
        if sorted(one.call.evidence) != sorted(two.call.evidence):
            changed = differences([*sorted(one.call.evidence)], [*sorted(two.call.evidence)])
            because = _ASKED if fields else None
            found.append(
                self._divergence(
                    "changed_evidence", Harm.RESULT, one, two, changed, because=because
                )
            )
        return found

    def _observation(self, one: Step, two: Step, *, asked: str | None) -> Divergence:
        fields = outcome_fields(one, two)
        harm = outcome_harm(one, two)
        because = asked or self._right.changed_write_before(two.index)
        because = because or self._left.changed_write_before(one.index)
        return self._divergence("changed_observation", harm, one, two, fields, because=because)

    @cached_property
    def _passed(self) -> Passed:
        """The writes of both runs that stand beside each other, to see what a call passed."""
        matches = [line.match for line in self._lines]
        return Passed(matches, self._left.order, self._right.order)

    def _given_otherwise(self, one: Step | None, two: Step | None) -> str | None:
        for side, step in ((self._right, two), (self._left, one)):
            if step is not None and (because := side.earlier(step.decision)):
                return because
        return None

    def _after_end(self, step: Step, own: int) -> str | None:
        """Say that the other run was over before ``step``, if that is the reason.

        It is, if the last thing it did differs, or for all but the first step that it lacks; not
        for a write. A run that is under way may still do anything.
        """
        late, other = self._ways[own].late, (self._right, self._left)[own]
        if step.index not in late:
            return None
        if other.is_open:
            return f"{other.name} had come no further; {NO_END}"
        steps = [each for each in other.order.steps if each.call is not None]
        differs = bool(steps) and steps[-1].index in other.acted | other.disturbed.keys()
        if step.writes or not (differs or late[step.index]):
            return None
        return f"{other.name} had ended after decision {steps[-1].decision if steps else 0}"

    def _regrouped(self, earlier: Match, match: Match) -> Divergence:
        before, _ = self._steps(earlier)
        one, two = self._steps(match)
        assert before is not None  # only pairs are regrouped
        assert one is not None
        assert two is not None
        found = self._divergence("reordered", Harm.ORDER, one, two)
        at_once, in_turn = self._left.name, self._right.name
        if before.decision != one.decision or self._order.in_turn(before.index, one.index):
            at_once, in_turn = in_turn, at_once
        return replace(
            found,
            explanation=f"{at_once} issued {before.name} and {found.tool} together, {in_turn} one "
            f"after the other ({found.tool}: {self._left.name} decision {one.decision}, "
            f"{self._right.name} decision {two.decision}).",
        )

    def _answer(self, fields: Sequence[Difference], *, disturbed: bool) -> Divergence:
        sides = []
        for run in self._runs:
            last = run.decisions[-1].index if run.decisions else 1
            sides.append(
                Action(
                    decision=last,
                    tool="(final answer)",
                    effect=None,
                    arguments=run.answer.digest_form,
                    is_error=run.status == "error",
                )
            )
        one, two = sides
        because = "what came before it differs" if disturbed else None
        for side in (self._left, self._right):
            because = f"of {side.name}, {NO_END}" if side.is_open else because
        return self._finish("changed_answer", Harm.RESULT, one, two, tuple(fields), because)

    def _input(self, fields: Sequence[Difference]) -> Divergence:
        one, two = (Action(1, "(input)", None, run.input.value) for run in self._runs)
        return self._finish("changed_input", Harm.RESULT, one, two, tuple(fields), None)

    def _divergence(
        self,
        kind: Kind,
        harm: Harm,
        one: Step | None,
        two: Step | None,
        fields: Sequence[Difference] = (),
        *,
        because: str | None = None,
    ) -> Divergence:
        left, right = self._shown(one, two)
        return self._finish(kind, harm, left, right, tuple(fields), because)

    def _shown(self, one: Step | None, two: Step | None) -> tuple[Action | None, Action | None]:
        return (
            None if one is None else self._actions[0][one.index],
            None if two is None else self._actions[1][two.index],
        )

    def _finish(
        self,
        kind: Kind,
        harm: Harm,
        left: Action | None,
        right: Action | None,
        fields: tuple[Difference, ...],
        because: str | None,
    ) -> Divergence:
        shown = left or right
        assert shown is not None  # a divergence has at least one side
        seen = [
            None if action is None else side.before(action)
            for side, action in zip(self._seen, (left, right), strict=True)
        ]
        found = Divergence(
            kind=kind,
            harm=harm,
            tool=shown.tool,
            effect=shown.effect,
            left_decision=None if left is None else left.decision,
            right_decision=None if right is None else right.decision,
            left=left,
            right=right,
            fields=fields,
            cause=because is None,
            because=because,
            seen=(seen[0] if seen[0] is not None else seen[1]) or (),
            seen_right=seen[1] if None not in seen and not alike(seen[0], seen[1]) else None,
        )
        return replace(found, explanation=explain(found, self._left.name, self._right.name))

    def _pair(self, line: Line) -> Pair:
        one, two = self._steps(line.match)
        mark: Mark = "changed" if line.divergences else "same"
        if one is None or two is None:
            mark = "added" if one is None else "missing"
        elif line.match.moved:
            mark = "moved"
        partly = any(step is not None and (step.unknown or step.unseen) for step in (one, two))
        return Pair(mark, *self._shown(one, two), tuple(line.divergences), partly=partly)

    def _resynchronised(self, since: float) -> int | None:
        for line in self._lines:
            one, two = self._steps(line.match)
            if one is None or two is None or one.call is None or line.divergences:
                continue
            if one.decision > since:
                return one.decision
        return None


def _first_call(placed: Sequence[Placed], first: Divergence | None) -> Divergence | None:
    """Give the earliest call that differs, where something else differs before it."""
    calls = [one for one in placed if one.found.kind in ACTED and one.found.effect is not None]
    found = min(calls, key=lambda one: one.rank, default=None)
    return None if found is None or found.found is first else found.found


def _policies(one: Step, two: Step) -> tuple[Difference, ...]:
    def facts(step: Step) -> JsonValue:
        assert step.call is not None  # only calls are subject to policies
        return {"policy_decision": policy_of(step.call) or "allow", "rule": step.call.policy_id}

    return differences(facts(one), facts(two))
