"""Three lanes: what was observed, the old planner on its own record, and the candidate.

A difference between the candidate and the record is the candidate's doing only if the old planner,
replayed in the same way, does what was observed. Where it does not, the replay itself is unsound,
and the candidate is not judged by it. Pure: outcomes in, values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from replay.diff import diff
from replay.result import BaselineLane, LockedDecision, SelfTest, Verdict
from replay.session import SessionResult
from tracekit.trajectory import Trajectory

Lane = Literal["baseline", "candidate"]
BASELINE: Lane = "baseline"
CANDIDATE: Lane = "candidate"


@dataclass(frozen=True, slots=True)
class Lanes:
    """What stands beside the candidate; nothing where neither was asked for."""

    baseline: BaselineLane | None = None
    self_test: SelfTest | None = None


def compare_baseline(
    planner: str,
    run_id: str,
    recorded: Trajectory,
    done: SessionResult,
    locked: Sequence[LockedDecision],
    *,
    out_of_step: str | None = None,
) -> BaselineLane:
    """Compare the old planner's replay with what was observed.

    Args:
        planner: What it is called.
        run_id: Of its replay.
        recorded: What was observed.
        done: What its replay came to.
        locked: The decisions that were compared, where the replay is locked.
        out_of_step: Why it was not in step with the record to its end.
    """
    parted = _parting(recorded, done, locked)
    if parted is None and out_of_step is not None:
        parted = len(locked) + 1, out_of_step
    step, difference = parted if parted is not None else (None, "")
    return BaselineLane(planner, run_id, step, difference)


def _parting(
    recorded: Trajectory, done: SessionResult, locked: Sequence[LockedDecision]
) -> tuple[int, str] | None:
    """The step at which the lane is not what was observed, and how; None where it is."""
    if locked:
        other = next((decision for decision in locked if not decision.same), None)
        if other is not None:
            return other.number, other.explanation
        return None if done.stopped is None else (len(locked) + 1, done.stopped)
    if done.trajectory is None:
        return 1, f"it did not begin: {done.exit.detail or done.exit.kind}"
    observed = _of_agent(recorded, done.trajectory)
    found = diff(observed, done.trajectory, left_name="recorded", right_name="replayed")
    if found.same:
        return None
    if found.first is not None:
        return found.first.decision, done.stopped or found.first.explanation
    unknown = done.stopped or "; ".join(found.unknown)
    return len(recorded.decisions) or 1, f"what was not kept cannot be compared: {unknown}"


def _of_agent(recorded: Trajectory, replayed: Trajectory) -> Trajectory:
    """Have a run that was opened by hand end as its agent did; what came of it later is not it."""
    ended = {"ok", "error"}.issuperset((recorded.status, replayed.status))
    alike = recorded.answer.is_error == replayed.answer.is_error
    native = recorded.source_format == replayed.source_format
    return replace(recorded, status=replayed.status) if ended and alike and native else recorded


def weigh(verdict: Verdict, lanes: Lanes) -> Verdict:
    """Say what the candidate's verdict is worth beside the other lanes.

    An unsound replay proves nothing either way. An inert one proves no pass; what the candidate
    attempted, it attempted all the same.
    """
    baseline, test = lanes.baseline, lanes.self_test
    if baseline is not None and not baseline.sound and verdict.kind != "not evaluated":
        why = f"replay unsound at step {baseline.unsound_at}: {baseline.planner}"
        return Verdict("inconclusive", (f"{why} on its own record: {baseline.difference}",))
    if test is None or verdict.kind != "pass":
        return verdict
    match test.outcome:
        case "reacts":
            return verdict
        case "inert":
            return Verdict("inconclusive", (f"replay inert: {test.detail}",))
        case "not run":
            return replace(Verdict("not evaluated"), reasons=(f"the self-test: {test.detail}",))
