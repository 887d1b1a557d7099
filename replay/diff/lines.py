"""The side-by-side view: matched steps in the order of the runs, and what each side had seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replay.diff.match import Match
from replay.diff.model import TURN, Action, Divergence
from replay.diff.partly import has_come_back
from replay.diff.rising import longest_rising
from replay.diff.steps import Step, policy_of
from tracekit.canonical import JsonValue
from tracekit.trajectory import Trajectory


@dataclass
class Line:
    """A match in the side-by-side view, and where it stands in the run."""

    match: Match
    decision: float
    """The decision of the left that it belongs to; between two where it belongs to neither."""
    end: float
    """The same, or where it stands later on the other side, if it moved."""
    divergences: list[Divergence] = field(default_factory=list)
    start: float = 0.0
    """Where it stands first, if it moved."""

    def __post_init__(self) -> None:
        self.start, self.end = min(self.decision, self.end), max(self.decision, self.end)


def lines_of(matches: Sequence[Match], left: Sequence[Step], right: Sequence[Step]) -> list[Line]:
    """Order the matches as the left did; what only the right has follows what it followed."""
    by_left = {match.left: match for match in matches if match.left is not None}
    if all(m.left is not None and m.right is not None and not m.moved for m in matches):
        return [Line(by_left[at], here := _place(step), here) for at, step in enumerate(left)]
    by_right = {match.right: match for match in matches if match.right is not None}
    rows = _in_step(matches)
    after = _following(rows, right)
    places = _places(rows, after, left, right)
    lines: list[Line] = []
    for at in (None, *range(len(left))):
        if at is not None:
            here, match = _place(left[at]), by_left[at]
            moved = match.moved and match.right is not None
            lines.append(Line(match, here, places[match.right] if moved else here))
        for step in after.get(at, ()):
            if by_right[step.index].left is None:
                place = places[step.index]
                lines.append(Line(by_right[step.index], place, place))
    return lines


def _place(step: Step) -> float:
    """Say where a step stands among the decisions; the user's turn is just before its own."""
    return step.decision - 0.5 if step.kind == "turn" else float(step.decision)


def _in_step(matches: Sequence[Match]) -> dict[int, int]:
    """Give the pairs that both runs recorded in one order, by the step of the right.

    Others were permitted to change places: what stood beside them says nothing about the left.
    """
    pairs = sorted(
        (match.left, match.right)
        for match in matches
        if match.left is not None and match.right is not None and not match.moved
    )
    rising = longest_rising([two for _, two in pairs])
    return {two: one for at, (one, two) in enumerate(pairs) if at in rising}


def _following(rows: Mapping[int, int], right: Sequence[Step]) -> dict[int | None, list[Step]]:
    """Group the other steps of the right by the step of the left that they follow."""
    after: dict[int | None, list[Step]] = {}
    anchor: int | None = None
    for step in right:
        if step.index in rows:
            anchor = rows[step.index]
        else:
            after.setdefault(anchor, []).append(step)
    return after


def _places(
    rows: Mapping[int, int],
    after: Mapping[int | None, Sequence[Step]],
    left: Sequence[Step],
    right: Sequence[Step],
) -> dict[int | None, float]:
    """Say where among the decisions of the left those steps of the right would stand."""
    together = {
        right[two].decision: float(left[one].decision)
        for two, one in sorted(rows.items(), reverse=True)
        if left[one].kind != "turn"
    }
    places: dict[int | None, float] = {}
    for anchor, steps in after.items():
        here = 0.0 if anchor is None else _place(left[anchor])
        order = {decision: n for n, decision in enumerate(sorted({s.decision for s in steps}), 1)}
        for step in steps:
            part = here + order[step.decision] / (len(order) + 1) / 2
            places[step.index] = together.get(step.decision, part)
    return places


class Way:
    """The lines as one of the two runs saw them: that run is the left of each."""

    def __init__(
        self, matches: Sequence[Match], steps: Sequence[Step], others: Sequence[Step]
    ) -> None:
        self.lines = lines_of(matches, steps, others)
        paired = [n for n, line in enumerate(self.lines) if line.match.right is not None]
        late = self.lines[paired[-1] + 1 if paired else 0 :]
        self.late = {
            line.match.left: late[0].decision < line.decision
            for line in late
            if line.match.left is not None
        }
        """The steps after all that the other run did, and whether another decision was first."""


def turned(match: Match) -> Match:
    """Give a match the other way round."""
    return Match(match.right, match.left, moved=match.moved)


@dataclass(frozen=True)
class Placed:
    """A divergence, and where it stands."""

    found: Divergence
    start: float
    """The decision of the left at which it begins; between two where it belongs to neither."""
    end: float
    other: float
    """The decision of the right at which it begins."""

    @property
    def rank(self) -> tuple[float | str, ...]:
        """The smaller, the earlier; the same from either side. Of one place, the worst is first."""
        ends = self.start, self.other
        sides = (self.found.left_decision or 0), (self.found.right_decision or 0)
        return min(ends), max(ends), self.found.harm, self.found.tool, min(sides), max(sides)


class Seen:
    """What a planner had seen at each point of its run."""

    def __init__(self, steps: Sequence[Step], actions: Sequence[Action], run: Trajectory) -> None:
        self._input = (Action(0, "(input)", None, None, observation=run.input.value),)
        self._turns: dict[int, list[Action]] = {}
        self._calls: dict[int, list[Action]] = {}
        for step, action in zip(steps, actions, strict=True):
            if step.kind == "turn":
                self._turns.setdefault(step.decision, []).append(action)
            elif step.call is not None:
                self._calls.setdefault(step.decision, []).append(action)
        self._when = list(self._turns), list(self._calls)

    def before(self, action: Action) -> tuple[Action, ...]:
        """Give what had come back last before ``action``; the input where nothing had."""
        # a turn stands before the decision of its number, but not before itself
        spoken = action.decision - 1 if action.tool == TURN else action.decision
        turn = _last(self._when[0], spoken)
        call = _last(self._when[1], action.decision - 1)
        if turn > call:
            return (*(self._input if turn <= 1 else ()), *self._turns[turn])
        return tuple(self._calls[call]) if call else self._input


def _last(decisions: Sequence[int], most: int) -> int:
    """Give the last of some rising numbers that is not above ``most``; 0 where there is none."""
    at = bisect_right(decisions, most)
    return decisions[at - 1] if at else 0


def alike(one: Sequence[Action] | None, two: Sequence[Action] | None) -> bool:
    """Whether two planners had seen the same."""

    def shape(actions: Sequence[Action] | None) -> list[tuple[str, JsonValue, bool]]:
        return [(action.tool, action.observation, action.is_error) for action in actions or ()]

    return shape(one) == shape(two)


def action_of(step: Step) -> Action:
    """Give a step as the result shows it."""
    if step.call is None:
        observation = step.arguments if step.kind == "turn" else None
        return Action(step.decision, step.name, None, step.arguments, observation=observation)
    call = step.call
    return Action(
        decision=step.decision,
        tool=step.name,
        effect=step.effect,
        arguments=call.arguments,
        observation=call.observation.digest_form,
        is_error=call.observation.is_error,
        policy=policy_of(call),
        policy_id=call.policy_id,
        event_id=call.event_id,
        came_back=call.refused or has_come_back(call.observation),
    )
