"""Rows to trajectory: order, decisions, coverage, write sets. Pure: values in, a value out.

Values are read here, and rows joined to the operations around them; how calls and replies become
decisions stands in ``decisions``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.canonical import canonical_text, digest, parse_json
from tracekit.chains import LoadBlob, Resolver, Whole, value_of
from tracekit.contract import Contract
from tracekit.decisions import Grouping, number, plain_name, reply_message, with_answer
from tracekit.events import Event
from tracekit.order import in_order
from tracekit.origin import MADE_BY, Origin
from tracekit.rows import root_of
from tracekit.sent import without_types
from tracekit.trajectory import (
    BODY_CHANGED,
    GAVE_UP,
    Call,
    Decision,
    Message,
    Mint,
    ModelCall,
    Observation,
    Trajectory,
)
from tracekit.writesets import with_write_sets

__all__ = ["LoadBlob", "build", "plain_name", "reply_message", "trajectory_digest", "value_of"]

_TOOL = ("tool_call", "retrieval")


def build(events: Sequence[Event], load: LoadBlob) -> Trajectory:
    """Build the trajectory of one run from its rows, in any order.

    Args:
        events: The rows; not empty.
        load: Finds a blob by its digest; None where it is gone.
    """
    rows = _own_tree(in_order(events))
    reader = _Reader(load, {row.span_id: row for row in rows if row.span_id})
    root = root_of(rows)
    agent = _agent_row(root, rows)
    attributes = _object(root.attributes)
    calls, covered = _calls(rows, reader)
    models = _model_calls(rows, reader)
    answer = reader.observation(agent)
    decisions = number(with_answer(Grouping(rows, calls, models).decisions(), answer, root.status))
    return Trajectory(
        run_id=root.run_id,
        agent=agent.actor,
        input=reader.argument(agent),
        decisions=decisions,
        answer=answer,
        status=_status(root),
        messages=_messages(rows, reader, decisions),
        model_calls=tuple(models),
        covered=tuple(covered),
        tools=_tools(attributes.get("tools"), [*calls, *covered], load),
        mints=_mints(rows),
        ts_start_ns=root.ts_start_ns,
        ts_end_ns=agent.ts_end_ns,
        versions=attributes.get("versions") or {},
        made_by=Origin.from_attribute(_object(agent.attributes).get(MADE_BY)),
        tags=tuple(attributes.get("tags") or ()),
        task_id=root.task_id,
        tenant=root.tenant,
        operator=root.operator,
        replay_of=attributes.get("replay_of"),
        source_format=root.source_format,
        attributes=attributes,
    )


def trajectory_digest(trajectory: Trajectory) -> str:
    """Digest what the planner did and saw: no ids, no wall times, no order inside a decision.

    Reads of glue code between two writes are one set: which of them overlapped is chance.
    """
    steps: list[Any] = []
    in_reads = False
    for decision in trajectory.decisions:
        calls = [_done_and_seen(call) for call in decision.calls]
        glue = decision.model_call is None and decision.message is None
        reads = glue and not any(call.writes for call in decision.calls)
        if reads and in_reads:
            steps[-1][0] += calls
        else:
            steps.append([calls, decision.message, decision.final])
        in_reads = reads
    for step in steps:
        step[0].sort(key=canonical_text)
    return digest([steps, trajectory.answer.digest_form])


def _done_and_seen(call: Call) -> list[Any]:
    seen = call.observation.digest_form
    done = [call.tool, call.arguments, seen, call.policy_decision]
    sent = [*map(without_types, call.sent_in)]
    return [*done, sent] if sent else done  # runs of old, and most, have none


def _own_tree(rows: Sequence[Event]) -> list[Event]:
    """Let our steps stand beneath our steps: a replay knows nothing of the spans in between."""
    foreign = {row.span_id: row.parent_span_id for row in rows if row.span_id and _is_foreign(row)}
    if not foreign:
        return list(rows)
    return [
        replace(row, parent_span_id=_lifted(row, foreign))
        if row.parent_span_id in foreign and row.span_id not in foreign
        else row
        for row in rows
    ]


def _lifted(row: Event, foreign: Mapping[str, str | None]) -> str | None:
    parent, steps = row.parent_span_id, 0  # counted, since a record may have a loop
    while parent is not None and parent in foreign and steps <= len(foreign):
        parent, steps = foreign[parent], steps + 1
    return parent


def _is_foreign(row: Event) -> bool:
    """Whether it was a span of another instrumentation; see ``tracekit.foreign``."""
    if '"otel"' not in row.attributes:
        return False
    told = _object(row.attributes).get("otel")
    return isinstance(told, dict) and "convention" in told


def _agent_row(root: Event, rows: Sequence[Event]) -> Event:
    """The row with input and answer: the run's, or its agent's where the run was opened by hand."""
    if root.argument_state != "absent":
        return root
    return next((row for row in rows if row.event_type == "agent"), root)


def _is_the_run(step: Event, outer: Event | None) -> bool:
    """Whether ``step`` is the agent of a run that was opened by hand, and so has no input."""
    by_hand = outer is not None and outer.event_type == "run" and outer.argument_state == "absent"
    return by_hand and step.event_type == "agent"


def _status(root: Event) -> str:
    if root.ts_end_ns is None and root.source_format == "tracekit":
        return "open"
    return "error" if root.status == "error" else "ok"


@dataclass
class _Reader:
    """Reads values and the tree above a row."""

    load: LoadBlob
    by_span: Mapping[str, Event]
    resolver: Resolver = field(init=False)
    _contracts: dict[str, Contract | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.resolver = Resolver(self.load)

    def argument(self, row: Event) -> Observation:
        whole, state = self._value(row.argument_blob, row.argument_state)
        types = {**_object(row.argument_types), **whole.types}
        return Observation(value=whole.value, state=state, types=types)  # type: ignore[arg-type]  # state is checked where it is stored

    def observation(self, row: Event) -> Observation:
        whole, state = self._value(row.observation_blob, row.observation_state)
        failed = bool(row.observation_is_error) or row.status == "error"
        return Observation(
            value=whole.value,
            state=state,  # type: ignore[arg-type]  # state is checked where it is stored
            types={**_object(row.observation_types), **whole.types},
            is_error=failed,
            error_type=row.error_type if failed else None,
            error_message=row.error_message if failed else None,
        )

    def _value(self, blob: str | None, state: str) -> tuple[Whole, str]:
        if blob is None:
            return Whole(None), state
        found = self.resolver.value(blob)
        return (Whole(None), "reference") if found is None else (found, state)

    def contract(self, reference: str | None) -> Contract | None:
        """The contract that a call refers to; all calls of a tool share one."""
        if reference is None:
            return None
        if reference not in self._contracts:
            blob = self.load(reference)
            made = Contract.model_validate_json(blob.data) if blob else None
            self._contracts[reference] = made
        return self._contracts[reference]

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
        """Names of the operations around ``row``, without the run and the agent that is the run.

        A run opened by hand around its agent and one that the agent opened itself have equal paths.
        """
        above = self.ancestors(row)[::-1]
        kept = [
            step
            for step, outer in zip(above, [None, *above], strict=False)
            if step.event_type != "run" and not _is_the_run(step, outer)
        ]
        return tuple(step.tool_name or step.actor for step in kept)

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
    return with_write_sets(planned), covered


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
        contract=reader.contract(row.contract),
        idempotency_key=row.idempotency_key,
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
        gave_up=_gave_up(row),
        body_changed=_body_changed(row),
    )


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
                left=_left(row),
                gave_up=_gave_up(row),
                ts_start_ns=row.ts_start_ns,
                ts_end_ns=row.ts_end_ns,
            )
        )
        seen[row.actor, path] += 1
    return found


def _left(row: Event) -> int | None:
    """How much of a reply was read, where its reader went away."""
    if '"partial"' not in row.attributes:
        return None
    marks = _object(row.attributes)
    pieces = marks.get("pieces", 0)
    return pieces if marks.get("partial") is True and isinstance(pieces, int) else None


def _gave_up(row: Event) -> bool:
    return f'"{GAVE_UP}"' in row.attributes and _object(row.attributes).get(GAVE_UP) is True


def _body_changed(row: Event) -> tuple[str, ...]:
    if f'"{BODY_CHANGED}"' not in row.attributes:
        return ()
    places = _object(row.attributes).get(BODY_CHANGED)
    return tuple(map(str, places)) if isinstance(places, list) else ()


def _messages(
    rows: Sequence[Event], reader: _Reader, decisions: tuple[Decision, ...]
) -> tuple[Message, ...]:
    order = {row.event_id: index for index, row in enumerate(rows)}
    starts = sorted(
        min(order[i] for i in [*(c.event_id for c in d.calls), *filter(None, [d.model_call])])
        for d in decisions
        if d.calls or d.model_call
    )
    roles = {"user": "user", "system": "system"}
    return tuple(
        Message(
            role=roles.get(row.actor_kind, "assistant"),
            content=reader.observation(row).value,
            before_decision=1 + bisect_left(starts, order[row.event_id]),
            event_id=row.event_id,
        )
        for row in rows
        if row.event_type == "message"
    )


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
