"""Calls and replies to decisions.

A reply's tool calls are joined to the calls it led to: by the model's span where the record has it,
else by tool and arguments, in the order of the reply. Calls that no reply explains (glue code) are
decisions of their own; those that overlap in time are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.canonical import JsonValue, parse_json
from tracekit.errors import InvalidJson
from tracekit.events import Event
from tracekit.items import assistant_message
from tracekit.trajectory import Call, Decision, ModelCall, Observation


@dataclass
class Grouping:
    """Groups planned calls and replies into decisions, in the order of the run."""

    rows: Sequence[Event]
    calls: Sequence[Call]
    models: Sequence[ModelCall]
    groups: list[Decision] = field(default_factory=list)

    def decisions(self) -> list[Decision]:
        """Give the decisions, not numbered yet."""
        calls = {call.event_id: call for call in self.calls}
        models = {m.event_id: m for m in self.models if m.covered_by is None}
        pending: list[_Requested] = []
        at: dict[str, int] = {}
        for row in self.rows:
            if model := models.get(row.event_id):
                at[model.span_id] = len(self.groups)
                self.groups.append(
                    Decision(0, message=said(model.reply), model_call=model.event_id)
                )
                # The next reply of an agent replaces what its last one asked for; agents that work
                # side by side keep their own.
                pending = [r for r in pending if r.parent != row.parent_span_id]
                pending += requested(model, len(self.groups) - 1, parent=row.parent_span_id)
            elif call := calls.get(row.event_id):
                self._place(call, row, at.get(row.llm_span_id or ""), pending)
        return [group for group in self.groups if group.calls or group.message is not None]

    def _place(self, call: Call, row: Event, group: int | None, pending: list[_Requested]) -> None:
        wanted = _wanted(call, row.parent_span_id, pending, group)
        if wanted is not None:
            pending.remove(wanted)
            group = wanted.group
        if group is None and self.groups:
            last = self.groups[-1]
            if last.model_call is None and last.calls and _overlaps(last.calls, call):
                group = len(self.groups) - 1
        if group is None:
            self.groups.append(Decision(0, calls=(call,)))
        else:
            known = self.groups[group]
            self.groups[group] = replace(known, calls=(*known.calls, call))


def _wanted(
    call: Call, parent: str | None, pending: list[_Requested], group: int | None
) -> _Requested | None:
    """What a reply asked for and this call is: best of the same agent, and of the last reply."""
    if not pending:
        return None
    name = plain_name(call.tool)
    same = [r for r in pending if r.tool == name]
    if group is not None:
        same = [r for r in same if r.group == group]
    own = [r for r in same if r.parent == parent]
    # Where the model is asked inside a step of its own, its last reply stands for the agent's.
    latest = max((r.group for r in pending), default=-1)
    others = sorted((r for r in same if r.parent != parent), key=lambda r: -r.group)
    likely = [*own, *(r for r in others if r.group == latest)]
    return next((r for r in [*own, *others] if r.fits(call)), next(iter(likely), None))


@dataclass(frozen=True)
class _Requested:
    """A tool call that a reply asked for and that no tool row has been joined to yet."""

    tool: str
    arguments: JsonValue
    group: int
    parent: str | None
    """Span of the operation in which the model was asked."""

    def fits(self, call: Call) -> bool:
        if self.tool != plain_name(call.tool) or not isinstance(call.arguments, dict):
            return False
        if not isinstance(self.arguments, dict):
            return False
        return all(call.arguments.get(name) == value for name, value in self.arguments.items())


def plain_name(tool: str) -> str:
    """A tool's name in the alphabet that model providers allow (``a.b`` is offered as ``a_b``)."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tool)


def requested(model: ModelCall, group: int, *, parent: str | None = None) -> list[_Requested]:
    """The tool calls that a reply asks for, in its order."""
    found = []
    for call in reply_message(model.reply.value).get("tool_calls") or []:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        arguments: JsonValue = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = parse_json(arguments) if arguments else {}
            except InvalidJson:
                arguments = None
        tool = plain_name(str(function.get("name", "")))
        found.append(_Requested(tool, arguments, group, parent))
    return found


def reply_message(reply: JsonValue) -> dict[str, Any]:
    """The assistant message inside a reply, whether it is the message or a whole response."""
    if not isinstance(reply, dict):
        return {}
    choices = reply.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return message if isinstance(message, dict) else {}
    output = reply.get("output")
    if isinstance(output, list) and reply.get("object") == "response":
        return assistant_message(output)
    return reply if reply.get("role") == "assistant" else {}


def said(reply: Observation) -> JsonValue:
    """What a reply says in words; None where it only calls tools or is no text."""
    if isinstance(reply.value, str):
        return reply.value or None
    content = reply_message(reply.value).get("content")
    return content or None


def _overlaps(group: tuple[Call, ...], call: Call) -> bool:
    last = group[-1]
    if last.path != call.path or call.ts_start_ns is None:
        return False
    return any(
        other.ts_start_ns is not None
        and (other.ts_end_ns is None or other.ts_end_ns > call.ts_start_ns)
        for other in group
    )


def with_answer(decisions: list[Decision], answer: Observation, status: str) -> list[Decision]:
    """Mark the decision that answers, or add it where glue code composed the answer."""
    if answer.state == "absent" or answer.is_error or status == "error":
        return decisions
    if decisions and not decisions[-1].calls:
        return [*decisions[:-1], replace(decisions[-1], message=answer.value, final=True)]
    if answer.value is None:
        return decisions
    return [*decisions, Decision(0, message=answer.value, final=True)]


def number(decisions: list[Decision]) -> tuple[Decision, ...]:
    """Number decisions from 1 and tell their calls."""
    return tuple(
        Decision(
            index=index,
            calls=tuple(
                replace(call, decision=index, position=position)
                for position, call in enumerate(decision.calls)
            ),
            message=decision.message,
            model_call=decision.model_call,
            final=decision.final,
            tainted=any(call.tainted for call in decision.calls),
            policy=decision.policy,
        )
        for index, decision in enumerate(decisions, 1)
    )
