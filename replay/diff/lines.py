"""The side-by-side view: matched steps in the order of the runs, and what each side had seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replay.diff.match import Match
from replay.diff.model import Action, Divergence
from replay.diff.steps import Step, policy_of
from tracekit.canonical import JsonValue
from tracekit.trajectory import Trajectory


@dataclass
class Line:
    """A match in the side-by-side view, and where it stands in the run."""

    match: Match
    decision: float
    """The decision of the left that it belongs to; between two where it belongs to neither."""
    divergences: list[Divergence] = field(default_factory=list)


def lines_of(matches: Sequence[Match], left: Sequence[Step], right: Sequence[Step]) -> list[Line]:
    """Order the matches as the left did; what only the right has follows what it followed."""
    after: dict[int | None, list[Match]] = {}
    by_right = {match.right: match for match in matches if match.right is not None}
    anchor: int | None = None
    for step in right:
        match = by_right[step.index]
        if match.left is None:
            after.setdefault(anchor, []).append(match)
        elif not match.moved:
            anchor = match.left
    together = {
        right[match.right].decision: left[match.left].decision
        for match in reversed(matches)
        if match.left is not None and match.right is not None and not match.moved
    }
    lines: list[Line] = []
    by_left = {match.left: match for match in matches if match.left is not None}
    for at in (None, *range(len(left))):
        here = 0.0 if at is None else float(left[at].decision)
        if at is not None:
            lines.append(Line(by_left[at], here))
        only_right = [
            (match, right[match.right].decision)
            for match in after.get(at, ())
            if match.right is not None
        ]
        order = {decision: n for n, decision in enumerate(sorted({d for _, d in only_right}), 1)}
        for match, decision in only_right:
            part = here + order[decision] / (len(order) + 1)
            lines.append(Line(match, float(together.get(decision, part))))
    return lines


def last_line(lines: Sequence[Line], side: str) -> int:
    """Give the last line in which the side has a step."""
    return max(
        (n for n, line in enumerate(lines) if getattr(line.match, side) is not None), default=-1
    )


def seen_before(steps: Sequence[Step], decision: int, run: Trajectory) -> tuple[Action, ...]:
    """Give what had come back last before ``decision``; the run's input where nothing had."""
    before = [step for step in steps if step.decision < decision and step.kind != "said"]
    before += [step for step in steps if step.decision == decision and step.kind == "turn"]
    if not before:
        return (Action(0, "(input)", None, None, observation=run.input.value),)
    last = before[-1].decision
    found = (action_of(step) for step in before if step.decision == last)
    return tuple(action for action in found if action is not None)


def alike(one: Sequence[Action] | None, two: Sequence[Action] | None) -> bool:
    """Whether two planners had seen the same."""

    def shape(actions: Sequence[Action] | None) -> list[tuple[str, JsonValue, bool]]:
        return [(action.tool, action.observation, action.is_error) for action in actions or ()]

    return shape(one) == shape(two)


def action_of(step: Step | None) -> Action | None:
    """Give a step as the result shows it."""
    if step is None:
        return None
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
    )
