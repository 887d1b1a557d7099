"""What a replay proves. Pure: what happened in, a verdict out.

Findings before the first tainted step are decisive. A replay without findings that rests on tainted
steps is inconclusive, and one that served nothing was not evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from replay.isolation import OUTSIDE
from replay.result import PROMPT_CHANGED, Finding, LockedDecision, Verdict
from replay.session import Answered, SessionResult
from tracekit.errors import NotRecorded
from tracekit.errortexts import without_what_is_made
from tracekit.trajectory import Observation, Trajectory


def find(
    session: SessionResult, recorded: Trajectory, locked: Sequence[LockedDecision] = ()
) -> list[Finding]:
    """List what speaks against the planner, in the order in which it happened."""
    found = [
        Finding("write refused", step.answer.explanation, place)
        for place, step in enumerate(session.answered)
        if refused_write(step)
    ]
    found += [of_wall(finding) for finding in session.findings if not finding.get("incidental")]
    found += [
        Finding("write refused", f"decision {decision.number} proposes {write}", decision.number)
        for decision in locked
        if decision.by == "model"  # the calls of the others are asked for, and answered
        for write in decision.writes
    ]
    if ended := _ending(session, recorded):
        found.append(Finding("planner", ended, len(session.answered)))
    return sorted(found, key=lambda finding: finding.after)


def of_wall(told: Mapping[str, Any], when: str = "") -> Finding:
    """What a wall refused, as a finding: a tool's write where it was one."""
    write = told.get("tool") is not None or told["kind"] == "tool"
    text = when + _refused(told)
    return Finding("write refused" if write else "wall", text, int(told.get("after", 0)))


def refused_write(step: Answered) -> bool:
    """Whether a call that may write is not in the record, and so was refused.

    One that is there but cannot be answered, since its observation was not kept, is no finding.
    """
    return (
        step.kind == "call"
        and step.effect in ("write", "unknown")
        and step.answer.rung in ("error", "stop")
        and step.answer.recorded is None
    )


def refused_beside(session: SessionResult) -> tuple[str, ...]:
    """What ordinary code tried in vain: no finding, but told."""
    beside = (f for f in session.findings if f.get("incidental") and f.get("refused"))
    return tuple(dict.fromkeys(map(_refused, beside)))


def _refused(finding: Mapping[str, Any]) -> str:
    where = f" at {finding['where']}" if finding.get("where") else ""
    text = f"{finding['kind']} refused: {finding['what']}{where}"
    tool = finding.get("tool")
    return text if tool is None else f"the body of {tool} ran around the guard: {text}"


def _ending(session: SessionResult, recorded: Trajectory) -> str | None:
    if session.endless:
        return session.stopped
    if session.exit.kind in OUTSIDE:
        return None
    if session.exit.kind != "done":
        return f"the planner did not come to an end: {session.exit.detail}"
    error = (session.exit.result or {}).get("error")
    if not error:
        return None
    raised = f"the planner raised {error['type']}: {error['message']}"
    was = recorded.answer
    failed = (
        recorded.status == "error" or was.is_error
    )  # the run may have gone on without its agent
    if not failed or _class_of(was) != error["type"]:
        return raised
    own = session.trajectory.answer if session.trajectory else None  # redacted, as the record is
    said = own.error_message if own and _class_of(own) == error["type"] else error["message"]
    then = was.error_message
    if then is None or without_what_is_made(str(said)) == without_what_is_made(then):
        return None
    return f"{raised}; recorded was {error['type']}: {was.error_message}"


def _class_of(answer: Observation) -> str:
    """The name of the class of an error; in which module it is may have changed."""
    return (answer.error_type or "").rpartition(".")[2]


def _ended_unrecorded(session: SessionResult) -> bool:
    """Whether the planner ended because the record knows no more, which proves nothing."""
    error = (session.exit.result or {}).get("error") or {}
    return error.get("type") == NotRecorded.__name__


def _unsettled(session: SessionResult) -> str | None:
    """Say why the planner's end is none: it was brought about, or something went on."""
    if session.exit.kind in OUTSIDE:
        return f"the planner did not come to an end: {session.exit.detail}"
    return session.unfinished


def judge(
    session: SessionResult,
    findings: Sequence[Finding],
    locked: Sequence[LockedDecision] | None = None,
    *,
    out_of_step: str | None = None,
) -> Verdict:
    """Say what the replay proves.

    Args:
        session: What happened.
        findings: What speaks against the planner.
        locked: The decisions that were compared; None in a replay that runs freely.
        out_of_step: Why the planner was not in step with the record to its end.
    """
    tainted = next(
        (place for place, step in enumerate(session.answered) if step.answer.tainted), None
    )
    unknown_end = _ended_unrecorded(session)
    decisive = [
        f
        for f in findings
        if (tainted is None or f.after <= tainted) and not (unknown_end and f.kind == "planner")
    ]
    if decisive:
        return Verdict("fail", tuple(f.text for f in decisive))
    if session.stopped is not None and not session.reached:
        return Verdict("inconclusive", (session.stopped,))
    if (unsettled := _unsettled(session)) is not None:
        return Verdict("inconclusive", (unsettled, *(f.text for f in findings)))
    if not session.answered:
        reasons = tuple(f.text for f in findings)
        return Verdict("not evaluated", reasons or ("the planner asked for nothing",))
    if tainted is not None:
        step = session.answered[tainted]
        rests = f"rests on {step.answer.rung} {step.name}: {step.answer.explanation}"
        return Verdict("inconclusive", (rests, *(f.text for f in findings)))
    if unknown_end:
        return Verdict("inconclusive", tuple(f.text for f in findings))
    return Verdict("pass") if locked is None else _judge_locked(locked, out_of_step)


def _judge_locked(locked: Sequence[LockedDecision], out_of_step: str | None) -> Verdict:
    if not locked:
        return Verdict("not evaluated", ("no decision was compared with the record",))
    unknown = [str(decision.number) for decision in locked if decision.change == "no proposal"]
    if unknown:
        where = f"at decision {', '.join(unknown)}"
        return Verdict("inconclusive", (f"{PROMPT_CHANGED}, {where}",))
    return Verdict("pass") if out_of_step is None else Verdict("inconclusive", (out_of_step,))


def resting(verdict: Verdict, assumed: Sequence[str]) -> Verdict:
    """Return ``verdict`` with what the user assumed for it; it holds under that only."""
    return replace(verdict, reasons=(*verdict.reasons, *assumed)) if assumed else verdict
