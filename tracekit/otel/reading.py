"""A span of another instrumentation to fields of our facts. Pure.

Each convention is read by itself, then every field comes from the best that has it: current GenAI,
OpenInference, those of vendors, GenAI up to 1.36, flattened lists. Attributes that no field was
taken from are kept. The kind comes from what a span says of itself, never from its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tracekit.canonical import JsonValue
from tracekit.events import ContentState, PolicyDecision
from tracekit.otel import flattened, genai
from tracekit.otel.fields import Fields, listed
from tracekit.otel.messages import object_of, parsed, response
from tracekit.otel.values import SpanData

Kind = Literal["llm_call", "tool_call", "retrieval", "agent", "policy", "span"]
_KINDS: dict[JsonValue, Kind] = {
    "llm_call": "llm_call",
    "tool_call": "tool_call",
    "retrieval": "retrieval",
    "agent": "agent",
    "policy": "policy",
}
_CONVENTIONS = ("gen_ai", "openinference", "openllmetry", "pydantic-ai", "gen_ai/old", "legacy")
_TELLING = (
    "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.agent.name", "gen_ai.workflow.name",
    "gen_ai.data_source.id", "openinference.span.kind", "tool.name", "agent.name", "graph.node.id",
    "traceloop.span.kind", "llm.request.type", "traceloop.entity.name", "traceloop.workflow.name",
)  # fmt: skip
"""Attributes that tell kind and name."""
_BEGUN = ("model_requested", "provider", "tool_call_id")
_ENDED = (
    "model", "usage_input", "usage_output", "usage_cache_read", "usage_cache_write",
    "usage_reasoning",
)  # fmt: skip
_MASKS = ("__REDACTED__",)
_DECISIONS: dict[str, PolicyDecision] = {
    "allow": "allow", "pass": "allow", "passed": "allow", "deny": "deny", "block": "deny",
    "blocked": "deny", "fail": "deny", "modify": "modify", "ask": "ask", "escalate": "escalate",
    "terminate": "terminate",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Content:
    """A value that a span carries."""

    value: JsonValue
    state: ContentState = "captured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a span says, in our words."""

    kind: Kind
    actor: str
    convention: str
    """The best convention that it follows; empty where it follows none."""
    begun: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the begin fact."""
    ended: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the end fact."""
    argument: Content | None = None
    observation: Content | None = None
    error_type: str | None = None
    error_message: str | None = None
    evidence_ids: tuple[str, ...] = ()
    decision: PolicyDecision | None = None
    asked: tuple[str, ...] = ()
    """Ids of the tool calls that a model asked for, in their order."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    """What no field was taken from."""

    def as_span(self) -> Reading:
        """The same, as a step of no named kind."""
        columns = {**self.begun, **self.ended}
        kept = {**self.attributes, "tracekit.same_call": {"kind": self.kind, **columns}}
        return replace(self, kind="span", begun={}, ended={}, asked=(), attributes=kept)


def told_kind(name: str, attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of a span by what it has said so far; it may be under way."""
    telling = {key: attributes[key] for key in _TELLING if key in attributes}
    found = [
        genai.current(telling),
        flattened.openinference(telling),
        flattened.openllmetry(telling),
    ]
    kind = _best(found, "kind")
    return str(kind or "span"), str(_best(found, "actor") or name)


def read(span: SpanData) -> Reading:
    """Read a span that is over."""
    chosen = _Chosen(span)
    kind = _KINDS.get(chosen.take("kind"), "span")
    argument, observation, asked = _contents(kind, chosen.found, chosen.take)
    if span.dropped:
        argument, observation = _cut(argument), _cut(observation)
    error_type, message = _error(span, chosen.take("error_type"))
    model = chosen.take("model_requested") if kind == "llm_call" else None
    decision = _decision(span, observation) if kind == "policy" else None
    actor = chosen.take("actor") or model or span.name
    evidence = listed(chosen.take("evidence_ids"))
    begun, ended = chosen.columns(kind, _BEGUN), chosen.columns(kind, _ENDED)
    return Reading(
        kind="span" if kind == "policy" and decision is None else kind,
        actor=str(actor),
        convention=chosen.convention,
        begun=begun,
        ended=ended,
        argument=argument,
        observation=observation,
        error_type=error_type,
        error_message=message,
        evidence_ids=tuple(str(said) for said in evidence),
        decision=decision,
        asked=asked,
        attributes=chosen.left(),
    )


def other_events(span: SpanData) -> list[JsonValue]:
    """The events of a span that are no messages, which are read elsewhere: kept as they are."""
    return [
        {"name": event.name, "time_ns": event.time_ns, "attributes": dict(event.attributes)}
        for event in span.events
        if event.name not in genai.MESSAGES
    ]


class _Chosen:
    """Every field from the best convention that has it."""

    def __init__(self, span: SpanData) -> None:
        self._attributes = span.attributes
        self._taken = {"gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"}
        self.found = [
            genai.current(span.attributes),
            flattened.openinference(span.attributes),
            flattened.openllmetry(span.attributes),
            genai.pydantic_ai(span.attributes),
            genai.old(span.attributes, span.events),
            flattened.legacy(span.attributes),
        ]
        names = zip(_CONVENTIONS, self.found, strict=True)
        self.convention = next((name for name, said in names if "kind" in said.found), "")

    def take(self, name: str) -> Any:
        """A field's value; what it was read from is not kept among the attributes."""
        for said in self.found:
            if name in said.found:
                value, keys = said.found[name]
                self._taken.update(keys)
                return value
        return None

    def columns(self, kind: Kind, names: tuple[str, ...]) -> dict[str, Any]:
        """The columns that a row of this kind has; what it has not stays an attribute."""
        calls = kind in ("tool_call", "retrieval")
        fitting = [name for name in names if (calls if name == "tool_call_id" else not calls)]
        if kind not in ("llm_call", "tool_call", "retrieval"):
            return {}
        return {name: value for name in fitting if (value := self.take(name)) is not None}

    def left(self) -> dict[str, JsonValue]:
        """The attributes that nothing was taken from."""
        return {n: value for n, value in self._attributes.items() if n not in self._taken}


def _best(found: list[Fields], name: str) -> JsonValue:
    return next((said.found[name][0] for said in found if name in said.found), None)


def _contents(
    kind: Kind, found: list[Fields], take: Any
) -> tuple[Content | None, Content | None, tuple[str, ...]]:
    if kind == "llm_call":
        request, reply = _request(found, take), _reply(take)
        calls = object_of(reply.value).get("tool_calls") if reply is not None else None
        asked = tuple(str(object_of(call).get("id")) for call in listed(calls))
        return request, reply or _referred(take, "output.messages"), asked
    argument, observation = take("argument"), take("observation")
    if kind == "agent":
        argument = _spoken(take("messages")) if argument is None else argument
        observation = _last(take("replies")) if observation is None else observation
    return _argument(kind, argument), _observed(observation), ()


def _request(found: list[Fields], take: Any) -> Content | None:
    messages = take("messages")
    if messages is None:
        given = take("argument")
        if given is None:
            return _referred(take, "input.messages")
        return _masked(given) or Content(given if isinstance(given, dict) else {"input": given})
    request: dict[str, JsonValue] = {}
    if (model := _best(found, "model_requested")) is not None:
        request["model"] = model
    request["messages"] = [*listed(take("system")), *listed(messages)]
    if tools := take("tools"):
        request["tools"] = tools
    names = sorted({name for said in found for name in said.found if name.startswith("parameter.")})
    request |= {name.removeprefix("parameter."): take(name) for name in names}
    return Content(request, "redacted" if _holds_mask(request["messages"]) else "captured")


def _reply(take: Any) -> Content | None:
    replies = take("replies")
    if replies is None:
        given = take("observation")
        return None if given is None else _observed(given)
    said = response(listed(replies), None, model=None, response_id=None)
    return Content(said, "redacted" if _holds_mask(replies) else "captured")


def _referred(take: Any, side: str) -> Content | None:
    """Content that lies elsewhere; where, stays an attribute and is never opened."""
    return Content(None, "reference") if take(f"reference.{side}") is not None else None


def _argument(kind: Kind, given: JsonValue) -> Content | None:
    if given is None:
        return None
    if masked := _masked(given):
        return masked
    value = parsed(given)
    if isinstance(value, str) and kind == "tool_call" and value.lstrip()[:1] in ("{", "["):
        return Content(value, "invalid_json")
    return Content(value if isinstance(value, dict) else {"input": value})


def _observed(given: JsonValue) -> Content | None:
    return None if given is None else _masked(given) or Content(given)


def _masked(given: JsonValue) -> Content | None:
    return Content(None, "redacted") if isinstance(given, str) and given in _MASKS else None


def _holds_mask(messages: JsonValue) -> bool:
    return any(
        isinstance(said := object_of(message).get("content"), str) and said in _MASKS
        for message in listed(messages)
    )


def _cut(content: Content | None) -> Content | None:
    whole = content is None or content.state != "captured"
    return content if whole or content is None else replace(content, state="truncated")


def _spoken(messages: JsonValue) -> JsonValue:
    """What an agent was asked: the words of the user if they stand alone, else all messages."""
    said = [m for m in listed(messages) if object_of(m).get("role") == "user"]
    if len(said) == 1:
        return {"prompt": object_of(said[0]).get("content")}
    return None if messages is None else {"messages": messages}


def _last(replies: JsonValue) -> JsonValue:
    said = listed(replies)
    return object_of(said[-1]).get("content") if said else None


def _error(span: SpanData, error_type: JsonValue) -> tuple[str | None, str | None]:
    """Class and text of the error that a span ended with, wherever it says so."""
    raised = next((e.attributes for e in reversed(span.events) if e.name == "exception"), None)
    if not (span.error or error_type is not None):
        return None, None
    said = raised or {}
    name = error_type or said.get("exception.type") or "error"
    message = said.get("exception.message") or span.message
    return str(name), None if message is None else str(message)


def _decision(span: SpanData, observation: Content | None) -> PolicyDecision | None:
    """What a guardrail decided, None where it does not say."""
    said = observation.value if observation is not None else None
    if isinstance(said, dict):
        said = said.get("decision", said.get("action", said.get("result")))
    if isinstance(said, str) and said.lower() in _DECISIONS:
        return _DECISIONS[said.lower()]
    return "deny" if span.error else None
