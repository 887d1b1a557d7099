"""Facts to rows, and rows to the run catalogue. Pure: values in, values out.

Evidence, policy decisions and state changes are noted apart from the operation they belong to; they
are folded into its row here, so that a reader finds an operation whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from tracekit.canonical import canonical_text, parse_json
from tracekit.events import (
    ABSENT,
    ActorKind,
    AgentBegun,
    Begun,
    Ended,
    Event,
    EventType,
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    LossNoted,
    MessageNoted,
    MintNoted,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
    RunRow,
    SpanBegun,
    StateNoted,
    ToolCallBegun,
    ToolCallEnded,
    event_id,
)
from tracekit.numerals import counted

_BEGUN = (RunBegun, AgentBegun, SpanBegun, LlmCallBegun, ToolCallBegun)
_SAME_IN_THE_CATALOGUE = (
    "run_id", "trace_id", "ts_start_ns", "ts_end_ns", "task_id", "tenant", "operator",
    "source_format",
)  # fmt: skip
"""Columns of a run's row that its line in the catalogue takes over."""
_ACTOR_KINDS: dict[str, ActorKind] = {
    "run": "agent",
    "agent": "agent",
    "llm_call": "model",
    "tool_call": "tool",
    "retrieval": "tool",
    "span": "system",
}


def rows_from_facts(facts: Iterable[Fact]) -> list[Event]:
    """Build the rows of any number of runs, in the order in which their operations began.

    A fact that stands twice (a journal read while it is being compacted) counts once. An end
    without a begin is kept as a row of its own: nothing that was written is dropped.
    """
    begun: dict[tuple[str, str, str], Begun] = {}
    ended: dict[tuple[str, str, str], Ended] = {}
    noted: dict[tuple[str, int], Fact] = {}
    for fact in facts:
        kind, _, half = fact.fact.partition(".")
        if isinstance(fact, _BEGUN):
            begun.setdefault((fact.run_id, fact.span_id, kind), fact)
        elif half == "ended":
            ended.setdefault((fact.run_id, fact.span_id, kind), fact)  # type: ignore[arg-type]  # told by the tag
        else:
            noted.setdefault((fact.writer, fact.seq), fact)
    rows = [operation_row(begin, ended.pop(key, None)) for key, begin in begun.items()]
    rows += [_orphan(end) for end in ended.values()]
    known = {(row.run_id, row.span_id) for row in rows}
    rows += [
        _point(note)
        for note in noted.values()
        if not (isinstance(note, EvidenceNoted) and (note.run_id, note.parent_span_id) in known)
    ]
    return _fold(sorted(rows, key=told_order), list(noted.values()))


def without_known_ends(rows: Iterable[Event], known: Iterable[Event]) -> list[Event]:
    """Leave out the ends of operations that are known whole.

    A journal is removed file by file, so that the one with an operation's begin may be gone, and
    the one with its end still there.
    """
    whole = {_operation_of(row) for row in known if row.ts_start_ns is not None}
    return [row for row in rows if not (_is_only_an_end(row) and _operation_of(row) in whole)]


def _is_only_an_end(row: Event) -> bool:
    return row.ts_start_ns is None and row.source_format == "tracekit"


def _operation_of(row: Event) -> tuple[str, str | None, str]:
    return row.run_id, row.span_id, row.event_type


def told_order(row: Event) -> tuple[int, str, int]:
    """Tell where among the rows of a journal one stands: by when it was told of first."""
    return (row.ts_start_ns or row.ts_end_ns or 0, row.writer, row.seq)


def operation_row(begin: Begun, end: Ended | None) -> Event:
    """Build the row of one operation, as far as that follows from its two halves."""
    kind: EventType = begin.fact.partition(".")[0]  # type: ignore[assignment]  # told by the tag
    columns: dict[str, Any] = {
        **_common(begin, kind, begin.seq),
        "actor": begin.actor,
        "actor_kind": _ACTOR_KINDS[kind],
        "ts_start_ns": begin.timestamp_ns,
        **_payload("argument", begin.argument),
    }
    attributes = dict(begin.attributes)
    match begin:
        case RunBegun():
            columns |= _take(begin, "task_id", "request_id", "tenant", "operator")
            attributes |= {
                "versions": dict(begin.versions),
                "tags": list(begin.tags),
                **_present(begin, "parent_run_id", "replay_of", "planner"),
            }
        case LlmCallBegun():
            columns |= _take(
                begin, "model_requested", "provider", "prompt_hash", "system_hash", "tools_hash"
            )
            columns["model"] = begin.model_requested
        case ToolCallBegun():
            columns |= _take(
                begin, "effect", "contract", "tool_call_id", "llm_span_id", "call_index"
            ) | _take(begin, "attempt", "idempotency_key")
            columns["tool_name"] = begin.actor
        case _:
            pass
    if end is not None:
        attributes |= end.attributes
        columns |= _end_columns(end, attributes)
        columns["latency_ns"] = max(0, end.timestamp_ns - begin.timestamp_ns)
    columns["attributes"] = canonical_text(attributes)
    return Event(**columns)


def _orphan(end: Ended) -> Event:
    kind: EventType = end.fact.partition(".")[0]  # type: ignore[assignment]  # told by the tag
    attributes = dict(end.attributes)
    columns: dict[str, Any] = {
        **_common(end, kind, end.seq),
        "actor_kind": _ACTOR_KINDS[kind],
        "ts_start_ns": None,
        **_end_columns(end, attributes),
    }
    columns["attributes"] = canonical_text(attributes)
    return Event(**columns)


def _end_columns(end: Ended, attributes: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "ts_end_ns": end.timestamp_ns,
        **_take(end, "status", "error_type", "error_message"),
        **_payload("observation", end.observation),
    }
    match end:
        case RunEnded():
            attributes |= _present(end, "verdict", "fidelity")
        case LlmCallEnded():
            columns |= _take(
                end, "usage_input", "usage_output", "usage_cache_read", "usage_cache_write"
            ) | _take(end, "usage_reasoning", "rung", "tainted")
            if end.model is not None:
                columns["model"] = end.model
            if end.usage_raw is not None:
                columns["usage_raw"] = canonical_text(end.usage_raw)
        case ToolCallEnded():
            columns |= _take(
                end, "observation_is_error", "result_category", "error_code", "policy_decision"
            ) | _take(end, "policy_id", "policy_reason", "rung", "tainted")
        case _:
            pass
    return columns


def _point(note: Fact) -> Event:
    kind: EventType = "span"
    columns: dict[str, Any] = {}
    attributes = dict(note.attributes)
    match note:
        case MessageNoted():
            kind = "message"
            columns = {"actor": note.actor, "actor_kind": note.actor_kind}
            columns |= _payload("observation", note.observation)
        case PolicyNoted():
            kind = "policy"
            columns = {
                "actor": note.policy_id or "policy",
                "actor_kind": "policy",
                "policy_decision": note.decision,
                "policy_id": note.policy_id,
                "policy_reason": note.reason,
            }
        case StateNoted():
            kind = "state"
            columns = {
                "actor": "state",
                "state_before": note.before.digest,
                "state_after": note.after.digest,
                **_payload("argument", note.before),
                **_payload("observation", note.after),
            }
        case EvidenceNoted():
            columns = {"actor": "evidence", "evidence_ids": note.evidence_ids}
        case MintNoted():
            columns = {"actor": "mint"}
            attributes["mint"] = _take(note, "kind", "site", "occurrence", "value")
        case LossNoted():
            kind = "error"
            columns = {"actor": "loss", "status": "error", "error_type": "events_lost"}
            columns["error_message"] = f"{counted(note.count, 'event')} lost: {note.reason}"
        case _:
            pass
    columns |= {"ts_start_ns": note.timestamp_ns, "ts_end_ns": note.timestamp_ns}
    return Event(**_common(note, kind, note.seq), **columns, attributes=canonical_text(attributes))


def _fold(rows: list[Event], notes: Sequence[Fact]) -> list[Event]:
    """Give operations the evidence, the policy decision and the state noted inside them."""
    evidence: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    policies: dict[tuple[str, str], PolicyNoted] = {}
    states: dict[tuple[str, str], StateNoted] = {}
    for note in sorted(notes, key=lambda note: (note.timestamp_ns, note.writer, note.seq)):
        if note.parent_span_id is None:
            continue
        key = (note.run_id, note.parent_span_id)
        match note:
            case EvidenceNoted():
                evidence[key] += [e for e in note.evidence_ids if e not in evidence[key]]
            case PolicyNoted():
                policies[key] = note
            case StateNoted():
                first = states.get(key, note)
                states[key] = note.model_copy(update={"before": first.before})
            case _:
                pass
    if not (evidence or policies or states):
        return rows
    return [_folded(row, evidence, policies, states) for row in rows]


def _folded(
    row: Event,
    evidence: dict[tuple[str, str], list[str]],
    policies: dict[tuple[str, str], PolicyNoted],
    states: dict[tuple[str, str], StateNoted],
) -> Event:
    key = (row.run_id, row.span_id or "")
    if row.event_type in ("message", "policy", "state", "error"):
        return row
    changes: dict[str, Any] = {}
    if cited := evidence.get(key):
        changes["evidence_ids"] = tuple(cited)
    if (policy := policies.get(key)) and row.policy_decision is None:
        changes |= {
            "policy_decision": policy.decision,
            "policy_id": policy.policy_id,
            "policy_reason": policy.reason,
        }
    if state := states.get(key):
        changes |= {"state_before": state.before.digest, "state_after": state.after.digest}
    return replace(row, **changes) if changes else row


def _common(fact: Fact, kind: EventType, ordinal: int) -> dict[str, Any]:
    return {
        "event_id": event_id("tracekit", fact.trace_id, fact.span_id, kind, ordinal),
        "event_type": kind,
        **_take(fact, "run_id", "trace_id", "span_id", "parent_span_id", "writer", "seq"),
    }


def _take(fact: Fact, *names: str) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in names}


def _present(fact: Fact, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(fact, name)) is not None}


def _payload(side: str, payload: Payload) -> dict[str, Any]:
    if payload is ABSENT:
        return {}
    return {
        f"{side}_digest": payload.digest,
        f"{side}_state": payload.state,
        f"{side}_blob": payload.blob,
        f"{side}_types": canonical_text(dict(payload.types)) if payload.types else None,
    }


@dataclass(frozen=True, slots=True)
class Totals:
    """What some rows of a run add up to."""

    events: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    writes: int = 0
    errors: int = 0
    refusals: int = 0
    usage_input: int = 0
    usage_output: int = 0
    tools: frozenset[str] = frozenset()

    def times(self, count: int) -> Totals:
        """Add up ``count`` rows of which each adds this much."""
        return replace(self, **{name: getattr(self, name) * count for name in _COUNTED})

    def __add__(self, other: Totals) -> Totals:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTED}
        return Totals(**sums, tools=self.tools | other.tools)


NONE = Totals()
_COUNTED = tuple(field.name for field in fields(Totals) if field.name != "tools")


def totals_of(rows: Sequence[Event]) -> Totals:
    """Add up some rows of a run."""
    calls = [row for row in rows if row.event_type in ("tool_call", "retrieval")]
    models = [row for row in rows if row.event_type == "llm_call"]
    return Totals(
        events=len(rows),
        llm_calls=len(models),
        tool_calls=len(calls),
        writes=sum(row.effect in ("write", "unknown") for row in calls),
        errors=sum(bool(row.observation_is_error) or row.status == "error" for row in calls),
        refusals=sum(row.policy_decision == "deny" for row in calls),
        usage_input=sum(row.usage_input or 0 for row in models),
        usage_output=sum(row.usage_output or 0 for row in models),
        tools=frozenset(row.tool_name for row in calls if row.tool_name),
    )


def root_of(rows: Sequence[Event]) -> Event:
    """The row of the run itself; where that is missing, the first that is no loss."""
    first = next((row for row in rows if row.error_type != "events_lost"), rows[0])
    return next((row for row in rows if row.event_type == "run"), first)


def run_row(rows: Sequence[Event], *, more: Totals = NONE) -> RunRow:
    """Sum up the rows of one run as its line in the catalogue.

    Args:
        rows: The rows, in order; those of the run itself and of its agents are among them.
        more: What other rows of the run add up to.

    Raises:
        ValueError: there are none.
    """
    if not rows:
        raise ValueError("a run has at least one row")
    root = root_of(rows)
    attributes: dict[str, Any] = _parse(root.attributes)
    agents = [row.actor for row in rows if row.event_type == "agent" and row.actor]
    totals = totals_of(rows) + more
    return RunRow(
        **{name: getattr(root, name) for name in _SAME_IN_THE_CATALOGUE},
        **{name: getattr(totals, name) for name in _COUNTED},
        agent=root.actor or next(iter(agents), ""),
        status=_status(root),
        parent_run_id=attributes.get("parent_run_id"),
        input_digest=root.argument_digest,
        answer_digest=root.observation_digest,
        tools=tuple(sorted(totals.tools)),
        versions=canonical_text(attributes.get("versions", {})),
        tags=tuple(attributes.get("tags", ())),
        replay_of=attributes.get("replay_of"),
        planner=attributes.get("planner"),
        fidelity=canonical_text(attributes["fidelity"]) if attributes.get("fidelity") else None,
        verdict=attributes.get("verdict"),
    )


def _status(root: Event) -> Literal["ok", "error", "open"]:
    if root.ts_end_ns is None and root.source_format == "tracekit":
        return "open"
    return "error" if root.status == "error" else "ok"


def _parse(text: str) -> dict[str, Any]:
    value = parse_json(text)
    return value if isinstance(value, dict) else {}
