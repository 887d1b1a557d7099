"""Replays that start late: what came before a decision is taken from the record, not decided again.

A planner that decides is shown the recorded history. A decorated agent runs from its beginning, and
its model says what it said, whatever it is asked, until that decision; decisions that code made
itself cannot be given to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.messages import provider_message
from replay.scribe import Scribe
from replay.tape_answers import decision_messages, history_of
from tracekit.canonical import JsonValue
from tracekit.errors import ReplayNotPossible, UsageError
from tracekit.events import LlmCallBegun, LlmCallEnded, MessageNoted, ToolCallBegun, ToolCallEnded
from tracekit.trajectory import Call, Decision, Message, ModelCall, Observation, Trajectory


def check_span(start: int, until: int | None) -> None:
    """Refuse bounds that are none.

    Raises:
        UsageError: a bound is no decision, or the end lies before the start.
    """
    for name, bound in (("--from-step", start), ("--until-step", until)):
        if bound is not None and bound < 1:
            raise UsageError(f"{name} {bound}: decisions are counted from 1")
    if until is not None and until < start:
        raise UsageError(f"--until-step {until} lies before --from-step {start}")


def check_start(record: Trajectory, start: int, *, deciding: bool) -> None:
    """Refuse a start that the record does not allow.

    Raises:
        UsageError: there is no such decision.
        ReplayNotPossible: what was before it cannot be given to the planner.
    """
    if start > max(1, len(record.decisions)):
        raise UsageError(
            f"--from-step {start}: there is no such decision",
            hint=f"run {record.run_id} has {len(record.decisions)}; tracekit show lists them",
        )
    if start > 1 and not deciding and not given_models(record, start):
        raise ReplayNotPossible(
            f"run {record.run_id} cannot be replayed from decision {start}: no model made the "
            "decisions before it, so the agent's code makes them again",
            hint="leave --from-step out, or give a planner that decides(history, tools)",
        )


def given_models(record: Trajectory, start: int) -> tuple[ModelCall, ...]:
    """Return the requests to a model whose replies led to the decisions before ``start``."""
    own = [model for model in record.model_calls if model.covered_by is None]
    later = {decision.model_call for decision in record.decisions[start - 1 :]} - {None}
    until = next((at for at, model in enumerate(own) if model.event_id in later), None)
    if until is None and not any(d.model_call for d in record.decisions[: start - 1]):
        return ()
    return tuple(own[:until])


def history_before(record: Trajectory, start: int) -> list[JsonValue]:
    """Return what a planner that decides is shown before decision ``start``, as recorded."""
    shown = history_of(record)
    for decision in record.decisions[: start - 1]:
        shown += decision_messages(decision)
        shown += [{"role": "user", "content": turn.content} for turn in _turns(record, decision)]
    return shown


def write_prefix(scribe: Scribe, record: Trajectory, start: int, *, actor: str) -> None:
    """Write what was said and decided before ``start`` into a replay as it was recorded."""
    _write_turns(scribe, [turn for turn in record.turns if turn.before_decision == 1])
    for decision in record.decisions[: start - 1]:
        _write_decision(scribe, decision, actor)
        _write_turns(scribe, _turns(record, decision))


def _turns(record: Trajectory, decision: Decision) -> list[Message]:
    """What the user said between a decision and the next."""
    after = decision.index + 1
    return [m for m in record.messages if m.role == "user" and m.before_decision == after]


def _write_turns(scribe: Scribe, turns: Iterable[Message]) -> None:
    for turn in turns:
        scribe.note(MessageNoted, actor="user", actor_kind="user", observation=turn.content)


def _write_decision(scribe: Scribe, decision: Decision, actor: str) -> None:
    root = scribe.root
    ids = [call_id(decision, place) for place in range(len(decision.calls))]
    asked = [
        {"id": id_, "name": call.tool, "arguments": call.arguments}
        for id_, call in zip(ids, decision.calls, strict=True)
    ]
    spoken = provider_message({"content": decision.message, "tool_calls": asked})
    span = scribe.begin(LlmCallBegun, parent=root, actor=actor)
    said = Observation(spoken, "captured")
    scribe.end(LlmCallEnded, span, parent=root, observation=said, rung="exact", tainted=False)
    for place, call in enumerate(decision.calls):
        _write_call(scribe, call, span, place, ids[place])


def _write_call(scribe: Scribe, call: Call, model: str, place: int, id_: str) -> None:
    root = scribe.root
    begun = scribe.begin(
        ToolCallBegun,
        parent=root,
        actor=call.tool,
        argument=call.arguments,
        effect=call.effect,
        contract_of=call.contract,
        tool_call_id=id_,
        llm_span_id=model,
        call_index=place,
    )
    scribe.elapsed_ns += 1_000 + (call.latency_ns or 0)
    scribe.end(
        ToolCallEnded,
        begun,
        parent=root,
        observation=call.observation,
        rung="exact",
        tainted=False,
        observation_is_error=call.observation.is_error,
        policy_decision=call.policy_decision,
        policy_id=call.policy_id,
        policy_reason=call.policy_reason,
    )


def call_id(decision: Decision, place: int) -> str:
    """Return the id by which a planner knows a recorded call."""
    return decision.calls[place].tool_call_id or f"call_{decision.index}_{place}"
