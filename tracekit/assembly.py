"""Rows to trajectory: order, decisions, coverage, write sets. Pure: values in, a value out.

Decisions come from model calls where the record has them: a reply's tool calls are joined to the
tool rows it led to, by id, else by tool and arguments, in the order of the reply. Calls that no
reply explains (glue code) are decisions of their own; those that overlap in time are one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.canonical import JsonValue, canonical_text, digest, parse_json
from tracekit.contract import Contract
from tracekit.errors import InvalidJson
from tracekit.events import Blob, Event
from tracekit.order import in_order
from tracekit.trajectory import (
    Call,
    Decision,
    Message,
    Mint,
    ModelCall,
    Observation,
    Trajectory,
)

LoadBlob = Callable[[str], Blob | None]
_TOOL = ("tool_call", "retrieval")


def build(events: Sequence[Event], load: LoadBlob) -> Trajectory:
    """Build the trajectory of one run.

    Args:
        events: The rows of one run, in any order.
        load: Finds a blob by its digest; None where it is gone.

    Raises:
        ValueError: ``events`` is empty.
    """
    if not events:
        raise ValueError("a run has at least one row")
    rows = in_order(events)
    reader = _Reader(load, {row.span_id: row for row in rows if row.span_id})
    root = next((row for row in rows if row.event_type == "run"), rows[0])
    attributes = _object(root.attributes)
    calls, covered = _with_write_sets(*_calls(rows, reader))
    models = _model_calls(rows, reader)
    decisions = _Grouping(rows, calls, models).decisions()
    answer = reader.observation(root)
    decisions = _number(_with_answer(decisions, answer, root.status))
    return Trajectory(
        run_id=root.run_id,
        agent=root.actor,
        input=reader.argument(root),
        decisions=decisions,
        answer=answer,
        status="open" if _open(root) else ("error" if root.status == "error" else "ok"),
        messages=_messages(rows, reader, decisions),
        model_calls=tuple(models),
        covered=tuple(covered),
        tools=_tools(attributes.get("tools"), [*calls, *covered], load),
        mints=_mints(rows),
        ts_start_ns=root.ts_start_ns,
        versions=attributes.get("versions") or {},
        tags=tuple(attributes.get("tags") or ()),
        task_id=root.task_id,
        tenant=root.tenant,
        operator=root.operator,
        replay_of=attributes.get("replay_of"),
        source_format=root.source_format,
        attributes=attributes,
    )


def trajectory_digest(trajectory: Trajectory) -> str:
    """Digest what the planner did and saw: no store ids, no wall times, no order inside a decision."""
    steps: list[JsonValue] = []
    for decision in trajectory.decisions:
        calls: list[JsonValue] = sorted(
            (
                [call.tool, call.arguments, call.observation.digest_form, call.policy_decision]
                for call in decision.calls
            ),
            key=canonical_text,
        )
        steps.append([calls, decision.message, decision.final])
    return digest([steps, trajectory.answer.digest_form])


def value_of(blob: Blob) -> JsonValue:
    """Read the value that a blob holds: JSON parsed, any other text as it is."""
    text = blob.data.decode("utf-8", "replace")
    if not blob.media_type.startswith("application/json"):
        return text
    try:
        return parse_json(text)
    except InvalidJson:
        return text


def _open(root: Event) -> bool:
    return root.ts_end_ns is None and root.source_format == "tracekit"


@dataclass
class _Reader:
    """Reads values and the tree above a row."""

    load: LoadBlob
    by_span: Mapping[str, Event]

    def argument(self, row: Event) -> Observation:
        value, state = self._value(row.argument_blob, row.argument_state)
        return Observation(value=value, state=state, types=_object(row.argument_types))  # type: ignore[arg-type]  # state is checked where it is stored

    def observation(self, row: Event) -> Observation:
        value, state = self._value(row.observation_blob, row.observation_state)
        failed = bool(row.observation_is_error) or row.status == "error"
        return Observation(
            value=value,
            state=state,  # type: ignore[arg-type]  # state is checked where it is stored
            types=_object(row.observation_types),
            is_error=failed,
            error_type=row.error_type if failed else None,
            error_message=row.error_message if failed else None,
        )

    def _value(self, blob: str | None, state: str) -> tuple[JsonValue, str]:
        if blob is None:
            return None, state
        found = self.load(blob)
        return (None, "reference") if found is None else (value_of(found), state)

    def ancestors(self, row: Event) -> list[Event]:
        """The operations around ``row``, innermost first; stops where the record has a loop."""
        found: list[Event] = []
        seen = {row.span_id}
        parent = row.parent_span_id
        while parent and parent in self.by_span and parent not in seen:
            seen.add(parent)
            found.append(self.by_span[parent])
            parent = found[-1].parent_span_id
        return found

    def path(self, row: Event) -> tuple[str, ...]:
        above = reversed(self.ancestors(row))
        return tuple(a.tool_name or a.actor for a in above if a.event_type != "run")

    def covering(self, row: Event, kinds: tuple[str, ...]) -> str | None:
        return next((a.event_id for a in self.ancestors(row) if a.event_type in kinds), None)


def _calls(rows: Sequence[Event], reader: _Reader) -> tuple[list[Call], list[Call]]:
    planned: list[Call] = []
    covered: list[Call] = []
    seen: defaultdict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    for row in rows:
        if row.event_type not in _TOOL:
            continue
        path = reader.path(row)
        tool = row.tool_name or row.actor
        above = reader.covering(row, _TOOL)
        call = _call(row, reader, path, seen[tool, path], above)
        seen[tool, path] += 1
        (planned if above is None else covered).append(call)
    return planned, covered


def _call(
    row: Event, reader: _Reader, path: tuple[str, ...], occurrence: int, above: str | None
) -> Call:
    argument = reader.argument(row)
    return Call(
        event_id=row.event_id,
        span_id=row.span_id or "",
        tool=row.tool_name or row.actor,
        arguments=argument.value,
        argument_state=argument.state,
        argument_types=argument.types,
        effect=row.effect or "unknown",
        observation=reader.observation(row),
        contract=_contract(row.contract, reader.load),
        tool_call_id=row.tool_call_id,
        path=path,
        occurrence=occurrence,
        covered_by=above,
        ts_start_ns=row.ts_start_ns,
        ts_end_ns=row.ts_end_ns,
        latency_ns=row.latency_ns,
        evidence=row.evidence_ids,
        policy_decision=row.policy_decision,
        policy_id=row.policy_id,
        policy_reason=row.policy_reason,
        rung=row.rung,
        tainted=bool(row.tainted),
    )


def _with_write_sets(planned: list[Call], covered: list[Call]) -> tuple[list[Call], list[Call]]:
    """Give each call the successful writes that had ended before it began and share a resource.

    Where the record has no times, calls count as made one after the other.
    """
    writes = [
        call for call in planned if call.writes and not call.observation.is_error and not call.refused
    ]
    position = {call.event_id: index for index, call in enumerate(planned)}

    def visible(call: Call) -> Call:
        earlier = [w for w in writes if w.event_id != call.event_id and _before(w, call, position)]
        return replace(call, write_set=frozenset(w.event_id for w in earlier if _shares(w, call)))

    return [visible(call) for call in planned], covered


def _before(write: Call, call: Call, position: Mapping[str, int]) -> bool:
    if write.ts_end_ns is not None and call.ts_start_ns is not None and write.latency_ns is not None:
        return write.ts_end_ns <= call.ts_start_ns and write.ts_start_ns != call.ts_start_ns
    return position[write.event_id] < position[call.event_id]


def _shares(left: Call, right: Call) -> bool:
    if left.contract is None or right.contract is None:
        return True
    return left.contract.shares_resource(right.contract)


def _model_calls(rows: Sequence[Event], reader: _Reader) -> list[ModelCall]:
    found: list[ModelCall] = []
    seen: defaultdict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    for row in rows:
        if row.event_type != "llm_call":
            continue
        path = reader.path(row)
        prompt = reader.argument(row)
        found.append(
            ModelCall(
                event_id=row.event_id,
                span_id=row.span_id or "",
                prompt=prompt.value if prompt.state == "captured" else None,
                prompt_types=prompt.types,
                prompt_hash=row.prompt_hash,
                reply=reader.observation(row),
                name=row.actor,
                path=path,
                occurrence=seen[row.actor, path],
                model=row.model,
                covered_by=reader.covering(row, (*_TOOL, "llm_call")),
                latency_ns=row.latency_ns,
                rung=row.rung,
                tainted=bool(row.tainted),
            )
        )
        seen[row.actor, path] += 1
    return found


@dataclass
class _Grouping:
    """Groups planned calls and replies into decisions, in the order of the run."""

    rows: Sequence[Event]
    calls: Sequence[Call]
    models: Sequence[ModelCall]
    groups: list[Decision] = field(default_factory=list)

    def decisions(self) -> list[Decision]:
        calls = {call.event_id: call for call in self.calls}
        models = {m.event_id: m for m in self.models if m.covered_by is None}
        native = {row.event_id: row.llm_span_id for row in self.rows}
        pending: list[_Requested] = []
        at: dict[str, int] = {}
        for row in self.rows:
            if model := models.get(row.event_id):
                at[model.span_id] = len(self.groups)
                self.groups.append(Decision(0, message=said(model.reply), model_call=model.event_id))
                pending = requested(model, len(self.groups) - 1)
            elif call := calls.get(row.event_id):
                self._place(call, at.get(native[row.event_id] or ""), pending)
        return [group for group in self.groups if group.calls or group.message is not None]

    def _place(self, call: Call, group: int | None, pending: list[_Requested]) -> None:
        if group is None:
            wanted = next((r for r in pending if r.fits(call)), None) or next(
                (r for r in pending if r.tool == plain_name(call.tool)), None
            )
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


@dataclass(frozen=True)
class _Requested:
    """A tool call that a reply asked for and that no tool row has been joined to yet."""

    tool: str
    arguments: JsonValue
    group: int

    def fits(self, call: Call) -> bool:
        if self.tool != plain_name(call.tool) or not isinstance(call.arguments, dict):
            return False
        if not isinstance(self.arguments, dict):
            return False
        return all(call.arguments.get(name) == value for name, value in self.arguments.items())


def plain_name(tool: str) -> str:
    """A tool's name in the alphabet that model providers allow (``a.b`` is offered as ``a_b``)."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tool)


def requested(model: ModelCall, group: int) -> list[_Requested]:
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
        found.append(_Requested(plain_name(str(function.get("name", ""))), arguments, group))
    return found


def reply_message(reply: JsonValue) -> dict[str, Any]:
    """The assistant message inside a reply, whether it is the message or a whole response."""
    if not isinstance(reply, dict):
        return {}
    choices = reply.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return message if isinstance(message, dict) else {}
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


def _with_answer(decisions: list[Decision], answer: Observation, status: str) -> list[Decision]:
    """Mark the decision that answers, or add it where glue code composed the answer."""
    if answer.state == "absent" or answer.is_error or status == "error":
        return decisions
    if decisions and not decisions[-1].calls:
        return [*decisions[:-1], replace(decisions[-1], message=answer.value, final=True)]
    if answer.value is None:
        return decisions
    return [*decisions, Decision(0, message=answer.value, final=True)]


def _number(decisions: list[Decision]) -> tuple[Decision, ...]:
    return tuple(
        replace(
            decision,
            index=index,
            calls=tuple(
                replace(call, decision=index, position=position)
                for position, call in enumerate(decision.calls)
            ),
            tainted=any(call.tainted for call in decision.calls),
        )
        for index, decision in enumerate(decisions, 1)
    )


def _messages(
    rows: Sequence[Event], reader: _Reader, decisions: tuple[Decision, ...]
) -> tuple[Message, ...]:
    order = {row.event_id: index for index, row in enumerate(rows)}
    starts = [
        min(order[i] for i in [*(c.event_id for c in d.calls), *filter(None, [d.model_call])])
        for d in decisions
        if d.calls or d.model_call
    ]
    roles = {"user": "user", "system": "system"}
    return tuple(
        Message(
            role=roles.get(row.actor_kind, "assistant"),
            content=reader.observation(row).value,
            before_decision=1 + sum(start < order[row.event_id] for start in starts),
            event_id=row.event_id,
        )
        for row in rows
        if row.event_type == "message"
    )


def _contract(reference: str | None, load: LoadBlob) -> Contract | None:
    blob = load(reference) if reference else None
    return Contract.model_validate_json(blob.data) if blob else None


def _tools(reference: object, calls: Sequence[Call], load: LoadBlob) -> tuple[Contract, ...]:
    found: dict[str, Contract] = {}
    blob = load(reference) if isinstance(reference, str) else None
    offered = value_of(blob) if blob else []
    for item in offered if isinstance(offered, list) else []:
        contract = Contract.model_validate(item)
        found[contract.name] = contract
    for call in calls:
        found.setdefault(call.tool, call.contract or Contract(name=call.tool, effect=call.effect))
    return tuple(found.values())


def _mints(rows: Sequence[Event]) -> tuple[Mint, ...]:
    found = (_object(row.attributes).get("mint") for row in rows if row.actor == "mint")
    return tuple(Mint(**mint) for mint in found if isinstance(mint, dict))


def _object(text: str | None) -> dict[str, Any]:
    value = parse_json(text) if text else {}
    return value if isinstance(value, dict) else {}
