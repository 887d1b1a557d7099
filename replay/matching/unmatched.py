"""What happens to a call that the record cannot answer: the user's policy, within what is safe.

A write is never answered by likeness and never sent out live, whatever the policy says.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from replay.cancelled import OUTWAITED
from replay.matching.binding import why_mapped_away
from replay.matching.explain import (
    describe,
    describe_differences,
    describe_missing_tool,
    find_nearest,
)
from replay.matching.library import Library
from replay.matching.question import Question
from replay.matching.values import Answer, Nearest, Policies, Unmatched
from replay.tape import RecordedCall, Tape
from tracekit.canonical import JsonValue, class_differences, json_text
from tracekit.jsontree import differences, parts
from tracekit.receivers import CLASS
from tracekit.trajectory import Observation

ERROR_TYPE = "NotInRecording"
"""``error_type`` of the observation that the planner gets."""
_TRIED = 64


def answer_unmatched(
    tape: Tape,
    policies: Policies,
    question: Question,
    library: Library,
    *,
    why: str | None = None,
    recorded: RecordedCall | None = None,
    forced: Unmatched | None = None,
) -> Answer:
    """Answer by policy.

    Args:
        tape: The record.
        policies: What the user wants.
        question: What was asked.
        library: What was used up.
        why: Why the record cannot answer; found out where it is not given.
        recorded: The equal recorded call, where there is one that cannot be served.
        forced: The policy to follow instead of the user's.
    """
    wanted = forced or policies.for_unmatched(question.asked.tool, question.effect)
    if recorded is None and wanted in ("error", "stop"):
        recorded, why = _but_for_bodies(tape, question, library, why)
    around, nearest = (None if wanted == "nearest" else library.last_taken), None
    if recorded is None:
        asked, taken = question.arguments, library.taken
        nearest = find_nearest(tape, question.tool, asked, taken, around=around)
    policy, refusal = _allowed(wanted, question, policies, tape, nearest)
    said = _why(tape, policies, question, nearest) if why is None else why
    like = tape.find(nearest.event_id) if nearest and policy == "nearest" else recorded
    return Answer(
        rung=policy,
        observation=_observation(policy, question.asked.tool, like),
        tainted=True,
        recorded=None if like is None else like.call.event_id,
        explanation=f"{question.asked.tool}: {said}" + (f" ({refusal})" if refusal else ""),
        nearest=nearest,
        effect=question.effect,
    )


def _observation(policy: Unmatched, tool: str, like: RecordedCall | None) -> Observation | None:
    match policy:
        case "error":
            return not_in_recording(tool)
        case "nearest":
            return like.call.observation if like is not None else None
        case "stop" | "simulate" | "live" | "sandbox":
            return None


def not_in_recording(tool: str) -> Observation:
    """Make the error that a planner sees. It says nothing of what was recorded instead."""
    message = f"{tool}: not in the recording"
    return Observation(
        value={"error": "not_in_recording", "tool": tool, "message": message},
        state="captured",
        is_error=True,
        error_type=ERROR_TYPE,
        error_message=message,
    )


def never_answered(answer: Answer, name: str) -> Answer:
    """Answer otherwise what was given the cancellation of a call, which never came about."""
    return replace(
        answer,
        rung="error",
        observation=not_in_recording(name),
        tainted=True,
        explanation=f"{name}: {OUTWAITED}",
    )


def _why(tape: Tape, policies: Policies, question: Question, nearest: Nearest | None) -> str:
    if nearest is None:
        if question.tool != question.asked.tool:
            away = why_mapped_away(question.asked.tool, tape, policies.maps)
            return f"not in the recording; {away}"
        missing = describe_missing_tool(tape, question.tool, question.first.key)
        return f"not in the recording; {missing}"
    like = tape.find(nearest.event_id)
    if like is not None and not nearest.differences and question.types:
        differ = class_differences(like.call.argument_types, question.types)
        if differ:
            where = f"decision {nearest.decision}"
            return (
                f"not in the recording; nearest is {where}, of other classes: {'; '.join(differ)}"
            )
    return f"not in the recording; {describe(nearest)}{_whose_hint(question, nearest)}"


def _whose_hint(question: Question, nearest: Nearest) -> str:
    """Say what to do where only the receiver differs, and that may not say whose a call is."""
    contract = question.asked.contract
    places = [parts(difference.pointer) for difference in nearest.differences]
    whose = frozenset() if contract is None else contract.receivers
    if not places or any(len(p) < 2 or p[0] not in whose for p in places):
        return ""
    if any(p[1] == CLASS for p in places):
        old = next(
            d.left for d, p in zip(nearest.differences, places, strict=True) if p[1] == CLASS
        )
        return f" (only renamed? __qualname__ = {json_text(old)} in the class)"
    if question.nature == "write":
        return " (does not tell whose it is? name what does: @tool(receiver=[...]))"
    return f" (does not matter? --ignore {question.tool}:{nearest.differences[0].pointer})"


def _but_for_bodies(
    tape: Tape, question: Question, library: Library, why: str | None
) -> tuple[RecordedCall | None, str | None]:
    """Find a call that differs only in fields that recorded bodies had changed before it.

    Beside it why the record cannot answer, which is ``why`` where there is no such call. No body
    runs in a replay, so an agent that builds on such a field comes to another value.
    """
    changed = tape.changed_by_bodies
    places = {at for one in changed for at in one.call.body_changed}
    unused = (p for p in tape.by_tool.get(question.tool, ()) if p not in library.taken)
    for place in islice(unused, _TRIED) if changed else ():
        like = tape.calls[place]
        apart = differences(like.arguments, question.arguments)
        if not apart or not places.issuperset(d.pointer for d in apart):
            continue
        known = {at for one in changed if _is_before(one, like) for at in _fields_of(one)}
        if {(d.pointer, _class_at(like, d.pointer)) for d in apart} <= known:
            where = f"decision {like.call.decision}" if like.call.decision else "a covered call"
            return like, (
                f"not in the recording; {where} differs in what recorded bodies changed: "
                f"{describe_differences(apart)}; no body runs in a replay (name what tells whose "
                "it is: @tool(receiver=[...]))"
            )
    return None, why


def _is_before(one: RecordedCall, other: RecordedCall) -> bool:
    began, later = one.call.ts_start_ns, other.call.ts_start_ns
    return one is not other and (began is None or later is None or began <= later)


def _fields_of(one: RecordedCall) -> set[tuple[str, JsonValue]]:
    return {(at, _class_at(one, at)) for at in one.call.body_changed}


def _class_at(one: RecordedCall, pointer: str) -> JsonValue:
    """The class of the receiver in which a field lies; None for a closure's."""
    whole = one.arguments.get(parts(pointer)[0]) if isinstance(one.arguments, dict) else None
    return whole.get(CLASS) if isinstance(whole, dict) else None


def _allowed(
    wanted: Unmatched,
    question: Question,
    policies: Policies,
    tape: Tape,
    nearest: Nearest | None,
) -> tuple[Unmatched, str]:
    """Return the policy that may be followed, and why it is not the one that was wanted."""
    writes = question.nature == "write"
    if wanted == "live":
        if writes:
            return "error", "a write is never sent out live"
        if question.asked.tool not in policies.live:
            return "error", f"live, but {question.asked.tool} is not among the live tools"
    if wanted == "nearest":
        if writes:
            return "error", "a write is never answered by the nearest one"
        if nearest is None:
            return "error", ""
        least = policies.least_similarity(question.asked.tool, question.effect)
        if nearest.similarity < least:
            return "error", f"similarity {nearest.similarity:.2f}, below {least:.2f}"
        recorded = tape.find(nearest.event_id)
        if recorded is None or not recorded.servable:
            return "error", "the observation of the nearest call was not kept"
    return wanted, ""
