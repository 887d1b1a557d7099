"""The trajectory of a run: decisions, actions, observations and their partial order.

This is the one view of the events that replay, diff, distill and analysis read. ``build`` is pure:
rows and the values behind them in, a value out. Calls that were issued together are one decision
and unordered among themselves; calls made beneath another tool call are *covered* by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue
from tracekit.contract import Contract
from tracekit.errortexts import value_without_addresses, without_addresses
from tracekit.events import ContentState, Effect, PolicyDecision, Rung
from tracekit.jsontree import walk
from tracekit.origin import Origin

GAVE_UP = "gave_up"
"""Attribute of a call that ended in a cancellation which its caller had not asked for."""
BODY_CHANGED = "body_changed"
"""Attribute of a call that names the fields of its receiver or closure that its body changed."""
FAULT = "fault_note"
"""Attribute of a call that says what a function of the program failed to tell of it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back for a call."""

    value: JsonValue = None
    state: ContentState = "absent"
    """Only ``captured`` may be replayed."""
    types: Mapping[str, JsonValue] = field(default_factory=dict)
    is_error: bool = False
    error_type: str | None = None
    error_message: str | None = None

    @property
    def digest_form(self) -> JsonValue:
        """The JSON value that stands for the observation when two are compared."""
        if self.is_error:
            said = self.error_message and without_addresses(self.error_message)
            return {"error": self.error_type, "message": said, "value": _compared(self.value)}
        return self.value


def _compared(error: JsonValue) -> JsonValue:
    """An error without the notes that were added on its way: frameworks write random ids there.

    And without what caused it, which is detail of the tool and often tells of ports and addresses.
    The addresses of objects in its texts are left out.
    """
    error = value_without_addresses(error)
    if not isinstance(error, dict):
        return error
    kept = {name: value for name, value in error.items() if name not in ("cause", "context")}
    attributes = error.get("attributes")
    if isinstance(attributes, dict):
        kept["attributes"] = {n: value for n, value in attributes.items() if n != "__notes__"}
    return kept


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call (or retrieval): the action and its observation."""

    event_id: str
    span_id: str
    tool: str
    arguments: JsonValue
    """Bound arguments; a JSON object unless ``argument_state`` says otherwise."""
    effect: Effect
    observation: Observation
    argument_state: ContentState = "captured"
    argument_types: Mapping[str, JsonValue] = field(default_factory=dict)
    contract: Contract | None = None
    idempotency_key: str | None = None
    """The key that its tool computed; one that is an argument stands among those."""
    tool_call_id: str | None = None
    path: tuple[str, ...] = ()
    """Names of the operations around it, outermost first, without the run itself."""
    occurrence: int = 0
    """How many earlier calls of the same tool stand on the same path."""
    decision: int = 0
    """1-based number of the decision it belongs to; 0 for covered calls."""
    position: int = 0
    """Its place among the calls of the decision, from 0."""
    covered_by: str | None = None
    """``event_id`` of the tool call beneath which it was made."""
    write_set: AbstractSet[str] = frozenset()
    """``event_id``s of the successful writes that it could see (see ``semantics``)."""
    ts_start_ns: int | None = None
    ts_end_ns: int | None = None
    latency_ns: int | None = None
    evidence: tuple[str, ...] = ()
    policy_decision: PolicyDecision | None = None
    policy_id: str | None = None
    policy_reason: str | None = None
    rung: Rung | None = None
    tainted: bool = False
    gave_up: bool = False
    """Whether it ended in a cancellation of its own, that its caller had not asked for."""
    body_changed: tuple[str, ...] = ()
    """Pointers to the fields of its receiver or closure that its body changed."""

    @property
    def writes(self) -> bool:
        """Whether it may have changed the world."""
        return self.effect in ("write", "unknown")

    @property
    def sent_in(self) -> list[Any]:
        """What a reader sent or threw into the generator that it handed out: see ``sent``."""
        match self.observation.types.get(""):
            case ["stream", _, *sent]:
                return sent
            case _:
                return []

    @property
    def refused(self) -> bool:
        """Whether a policy kept its body from running."""
        return self.policy_decision == "deny"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model and its reply."""

    event_id: str
    span_id: str
    prompt: JsonValue
    """The request in the provider's shape; None where it was not kept."""
    prompt_hash: str | None
    reply: Observation
    name: str = ""
    path: tuple[str, ...] = ()
    occurrence: int = 0
    model: str | None = None
    covered_by: str | None = None
    """``event_id`` of the tool call or model call beneath which it was made."""
    latency_ns: int | None = None
    prompt_types: Mapping[str, JsonValue] = field(default_factory=dict)
    rung: Rung | None = None
    tainted: bool = False
    left: int | None = None
    """In how many pieces its reply was read by a reader that then went away; 0 where that is not
    known, None where it was read to its end.
    """
    ts_start_ns: int | None = None
    ts_end_ns: int | None = None
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """Something said outside calls and model requests: a system prompt, a user's turn."""

    role: str
    """``system``, ``user`` or ``assistant``."""
    content: JsonValue
    before_decision: int
    """1-based number of the decision that followed it; one past the last where none did."""
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of the planner: the calls it issued together, or what it said, or both."""

    index: int
    """From 1."""
    calls: tuple[Call, ...] = ()
    message: JsonValue = None
    """What it said beside or instead of calls; None where it said nothing."""
    model_call: str | None = None
    """``event_id`` of the model call that made it, where one did."""
    final: bool = False
    """Whether ``message`` is the run's answer."""
    tainted: bool = False
    policy: PolicyDecision | None = None


@dataclass(frozen=True, slots=True)
class Mint:
    """A clock, id or random value that user code was given."""

    kind: str
    site: str
    occurrence: int
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A run as its reader sees it."""

    run_id: str
    agent: str
    input: Observation
    """The run's input; ``value`` is the bound arguments of the agent, or the user's text."""
    decisions: tuple[Decision, ...]
    answer: Observation
    status: str
    """``ok``, ``error`` or ``open``."""
    messages: tuple[Message, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    covered: tuple[Call, ...] = ()
    """Calls made beneath a tool call; in no decision."""
    tools: tuple[Contract, ...] = ()
    """What the planner could call, as far as the record says; at least what it did call."""
    mints: tuple[Mint, ...] = ()
    ts_start_ns: int | None = None
    ts_end_ns: int | None = None
    """When the agent came back; what it had begun may have gone on."""
    versions: Mapping[str, str] = field(default_factory=dict)
    made_by: Origin | None = None
    """The code that made it, where the record tells."""
    tags: tuple[str, ...] = ()
    task_id: str | None = None
    tenant: str | None = None
    operator: str | None = None
    replay_of: str | None = None
    source_format: str = "tracekit"
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    """The run's own attributes (importers keep labels such as utility here)."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of all decisions, in order."""
        return tuple(call for decision in self.decisions for call in decision.calls)

    @property
    def turns(self) -> tuple[Message, ...]:
        """The user's turns; a first one that says no more than the run's input is none."""
        told = sorted(
            (m for m in self.messages if m.role == "user"), key=lambda m: m.before_decision
        )
        if told and told[0].before_decision <= 1 and self.input.state == "captured":
            first, given = told[0].content, self.input.value
            if first == given or [first] == [leaf for _, leaf in walk(given)]:
                return tuple(told[1:])
        return tuple(told)

    @property
    def has_agent_code(self) -> bool:
        """Whether decorated code made this run (imported runs have none)."""
        return self.source_format == "tracekit"
