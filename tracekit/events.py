"""The event model: facts as they are journalled, and the rows that are read from them.

A *fact* is one frozen line of the journal: an operation began, it ended, or something was noted. A
*row* (``Event``) is one operation with both halves, the one data type between recording and
everything that reads; ``tracekit.rows`` builds it. A begin without an end becomes a row whose
``ts_end_ns`` is None. Column names and meaning: one wide table, additive only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tracekit.canonical import JsonValue, canonical_text, digest_bytes

SCHEMA_VERSION = 1

EventType = Literal[
    "run", "agent", "llm_call", "tool_call", "retrieval", "memory", "plan", "message", "handoff",
    "human", "state", "policy", "evaluation", "error", "span",
]  # fmt: skip
ActorKind = Literal["user", "agent", "model", "tool", "policy", "evaluator", "system"]
Status = Literal["unset", "ok", "error"]
ContentState = Literal["captured", "absent", "redacted", "truncated", "invalid_json", "reference"]
Effect = Literal["pure", "read", "write", "unknown"]
PolicyDecision = Literal["allow", "deny", "modify", "ask", "escalate", "terminate"]
ResultCategory = Literal["ok", "rejected", "retryable_error", "fatal_error"]
Rung = Literal[
    "exact", "normalised", "reused", "stale", "nearest", "simulate", "live", "sandbox", "invalid",
    "error", "stop",
]  # fmt: skip


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Payload(_Frozen):
    """Where one value is kept, and what is known of it."""

    state: ContentState = "captured"
    digest: str | None = None
    """Over the canonical form of the redacted value."""
    blob: str | None = None
    """Digest of the stored bytes; ``digest`` where they are the canonical form."""
    types: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON pointer → type tag, for Python types that JSON cannot carry."""


ABSENT = Payload(state="absent")


class Blob(NamedTuple):
    """Bytes kept once, named by the SHA-256 of exactly these bytes."""

    digest: str
    media_type: str
    data: bytes


class _Fact(_Frozen):
    """What every fact carries."""

    schema_version: int = SCHEMA_VERSION
    writer: str
    seq: int
    timestamp_ns: int
    run_id: str
    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    attributes: dict[str, JsonValue] = Field(default_factory=dict)


class _Begun(_Fact):
    actor: str
    argument: Payload = ABSENT


class _Ended(_Fact):
    status: Status
    observation: Payload = ABSENT
    error_type: str | None = None
    error_message: str | None = None


class RunBegun(_Begun):
    """An agent began to work on one input."""

    fact: Literal["run.begun"] = "run.begun"
    parent_run_id: str | None = None
    task_id: str | None = None
    request_id: str | None = None
    tenant: str | None = None
    operator: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    replay_of: str | None = None
    planner: str | None = None


class RunEnded(_Ended):
    """A run was over; ``observation`` is its answer."""

    fact: Literal["run.ended"] = "run.ended"
    verdict: str | None = None
    fidelity: dict[str, JsonValue] | None = None


class AgentBegun(_Begun):
    """A (sub-)agent was entered."""

    fact: Literal["agent.begun"] = "agent.begun"


class AgentEnded(_Ended):
    """A (sub-)agent returned."""

    fact: Literal["agent.ended"] = "agent.ended"


class SpanBegun(_Begun):
    """A step that is none of the named kinds began."""

    fact: Literal["span.begun"] = "span.begun"


class SpanEnded(_Ended):
    """A step that is none of the named kinds ended."""

    fact: Literal["span.ended"] = "span.ended"


class LlmCallBegun(_Begun):
    """A model was asked; ``argument`` is the request in the provider's shape."""

    fact: Literal["llm_call.begun"] = "llm_call.begun"
    model_requested: str | None = None
    provider: str | None = None
    prompt_hash: str | None = None
    system_hash: str | None = None
    tools_hash: str | None = None


class LlmCallEnded(_Ended):
    """A model answered; ``observation`` is the reply."""

    fact: Literal["llm_call.ended"] = "llm_call.ended"
    model: str | None = None
    usage_input: int | None = None
    usage_output: int | None = None
    usage_cache_read: int | None = None
    usage_cache_write: int | None = None
    usage_reasoning: int | None = None
    usage_raw: dict[str, JsonValue] | None = None
    rung: Rung | None = None
    tainted: bool | None = None


class ToolCallBegun(_Begun):
    """A tool was called; nothing of its body has run yet."""

    fact: Literal["tool_call.begun"] = "tool_call.begun"
    effect: Effect = "unknown"
    contract: str | None = None
    """Digest of the blob that holds the tool's contract."""
    tool_call_id: str | None = None
    llm_span_id: str | None = None
    call_index: int | None = None
    attempt: int | None = None
    idempotency_key: str | None = None


class ToolCallEnded(_Ended):
    """A tool came back with an observation."""

    fact: Literal["tool_call.ended"] = "tool_call.ended"
    observation_is_error: bool | None = None
    result_category: ResultCategory | None = None
    error_code: str | None = None
    policy_decision: PolicyDecision | None = None
    policy_id: str | None = None
    policy_reason: str | None = None
    rung: Rung | None = None
    tainted: bool | None = None


class RetrievalBegun(ToolCallBegun):
    """A retrieval began; a read like any other."""

    fact: Literal["retrieval.begun"] = "retrieval.begun"  # type: ignore[assignment]  # narrows the tag


class RetrievalEnded(ToolCallEnded):
    """A retrieval came back."""

    fact: Literal["retrieval.ended"] = "retrieval.ended"  # type: ignore[assignment]  # narrows the tag


class MessageNoted(_Fact):
    """Somebody spoke: a user's turn, a system prompt, the agent to the user."""

    fact: Literal["message.noted"] = "message.noted"
    actor: str
    actor_kind: ActorKind
    observation: Payload


class PolicyNoted(_Fact):
    """A policy decided about the step that ``parent_span_id`` names."""

    fact: Literal["policy.noted"] = "policy.noted"
    decision: PolicyDecision
    policy_id: str | None = None
    reason: str | None = None


class StateNoted(_Fact):
    """The agent's state before and after."""

    fact: Literal["state.noted"] = "state.noted"
    before: Payload
    after: Payload


class EvidenceNoted(_Fact):
    """Evidence was cited by the step that ``parent_span_id`` names."""

    fact: Literal["evidence.noted"] = "evidence.noted"
    evidence_ids: tuple[str, ...]


class MintNoted(_Fact):
    """A clock, id or random value was handed to user code; a replay hands out the same."""

    fact: Literal["mint.noted"] = "mint.noted"
    kind: str
    site: str
    occurrence: int
    value: JsonValue


class LossNoted(_Fact):
    """Events could not be kept; how many, and why."""

    fact: Literal["loss.noted"] = "loss.noted"
    count: int
    reason: str


Begun = RunBegun | AgentBegun | SpanBegun | LlmCallBegun | ToolCallBegun | RetrievalBegun
Ended = RunEnded | AgentEnded | SpanEnded | LlmCallEnded | ToolCallEnded | RetrievalEnded
Noted = MessageNoted | PolicyNoted | StateNoted | EvidenceNoted | MintNoted | LossNoted
Fact = Begun | Ended | Noted

FACT: TypeAdapter[Fact] = TypeAdapter(
    Annotated[Fact, Field(discriminator="fact")], config=ConfigDict(defer_build=True)
)
"""Reads and writes one fact as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row: one operation, or one point event. Field names are the stored column names."""

    event_id: str
    run_id: str
    trace_id: str
    span_id: str | None
    event_type: EventType
    writer: str
    seq: int
    ts_start_ns: int | None
    ts_end_ns: int | None = None
    latency_ns: int | None = None
    parent_span_id: str | None = None
    actor: str = ""
    actor_kind: ActorKind = "system"
    status: Status = "unset"
    error_type: str | None = None
    error_message: str | None = None
    model_requested: str | None = None
    model: str | None = None
    provider: str | None = None
    prompt_hash: str | None = None
    system_hash: str | None = None
    tools_hash: str | None = None
    usage_input: int | None = None
    usage_output: int | None = None
    usage_cache_read: int | None = None
    usage_cache_write: int | None = None
    usage_reasoning: int | None = None
    usage_raw: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_type: str | None = None
    llm_span_id: str | None = None
    call_index: int | None = None
    argument_digest: str | None = None
    argument_state: ContentState = "absent"
    argument_blob: str | None = None
    argument_types: str | None = None
    observation_digest: str | None = None
    observation_state: ContentState = "absent"
    observation_blob: str | None = None
    observation_types: str | None = None
    observation_is_error: bool | None = None
    state_before: str | None = None
    state_after: str | None = None
    evidence_ids: tuple[str, ...] = ()
    policy_decision: PolicyDecision | None = None
    policy_id: str | None = None
    policy_reason: str | None = None
    effect: Effect | None = None
    contract: str | None = None
    approval: str | None = None
    result_category: ResultCategory | None = None
    error_code: str | None = None
    attempt: int | None = None
    idempotency_key: str | None = None
    task_id: str | None = None
    request_id: str | None = None
    tenant: str | None = None
    operator: str | None = None
    rung: Rung | None = None
    tainted: bool | None = None
    attributes: str = "{}"
    source_format: str = "tracekit"
    source_version: str | None = "1"
    source_ref: str | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One line of the run catalogue. Field names are the stored column names."""

    run_id: str
    trace_id: str
    agent: str
    ts_start_ns: int | None
    ts_end_ns: int | None
    status: Literal["ok", "error", "open"]
    parent_run_id: str | None = None
    task_id: str | None = None
    tenant: str | None = None
    operator: str | None = None
    input_digest: str | None = None
    answer_digest: str | None = None
    events: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    writes: int = 0
    errors: int = 0
    refusals: int = 0
    usage_input: int = 0
    usage_output: int = 0
    cost_usd: float | None = None
    tools: tuple[str, ...] = ()
    versions: str = "{}"
    tags: tuple[str, ...] = ()
    replay_of: str | None = None
    planner: str | None = None
    fidelity: str | None = None
    verdict: str | None = None
    source_format: str = "tracekit"


def event_id(
    source_format: str, trace_id: str, native_id: str, event_type: str, ordinal: int
) -> str:
    """Name an event by what it is, so that importing it twice adds nothing."""
    key: JsonValue = [source_format, trace_id, native_id, event_type, ordinal]
    text = "tracekit/event/v1\n" + canonical_text(key)
    return digest_bytes(text.encode()).removeprefix("sha256:")[:32]
