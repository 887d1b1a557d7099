"""Why a planner that does right may not pass a case, where none is at hand that shows it does."""

from __future__ import annotations

from collections.abc import Iterator

from replay.case import CallPattern, Case, Fixture, ScriptedDecision
from replay.case.expected import patterns
from replay.case.schema import same
from replay.caserun import CaseResult
from replay.distill.draft import draft_of
from replay.distill.passing import Script
from replay.distill.proof import standing_in
from replay.replayer import ReplayOptions
from tracekit.trajectory import Trajectory


def doubts_of(
    ran: CaseResult, options: ReplayOptions, reference: Trajectory | None, *, deciding: bool
) -> Iterator[str]:
    """Yield why who does right may not pass the case, each in a sentence.

    Args:
        ran: A run of the case by the planner that fails.
        options: How planners are run.
        reference: A recorded run that went right.
        deciding: Whether the planner decides; one that does not cannot go on without an answer.
    """
    if not deciding:
        yield from _lacking_answers(ran.case)
    if reference is None:
        return
    with standing_in(ran, options) as run:
        seen = run(_decisions(reference))
    name = f"run {reference.run_id}, which is said to have gone right,"
    if seen.findings:
        yield f"{name} does not pass the case when its decisions are made again: {seen.verdict}"
    lacked = ", ".join(dict.fromkeys(step.name for step in seen.unmatched))
    if lacked and not deciding and not seen.findings:
        yield f"{name} calls what has no answer in the case, where an agent cannot go on: {lacked}"


def _lacking_answers(case: Case) -> Iterator[str]:
    for wanted in patterns(case.expected.required_tools):
        if not any(_may_answer(fixture, wanted) for fixture in case.observations):
            yield (
                f"{wanted.tool} is required and has no answer, so an agent that calls it cannot go "
                f"on: give an observation of {wanted.tool}, with returns:, or distil with "
                "--reference RUN, in which it was called"
            )


def _may_answer(fixture: Fixture, wanted: CallPattern) -> bool:
    asked, given = fixture.arguments or {}, wanted.arguments or {}
    return fixture.tool == wanted.tool and all(
        same(asked[name], given[name]) for name in asked.keys() & given.keys()
    )


def _decisions(reference: Trajectory) -> Script:
    made = draft_of(reference, kind="decide").case.script
    if made and not made[-1].calls:
        return made
    answer = reference.answer.value
    return (*made, ScriptedDecision(message="done" if answer in (None, "") else answer))
