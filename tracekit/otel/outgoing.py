"""Facts of an operation to the attributes of its span. Pure.

Names are the current ones of the GenAI conventions; what those have no name for stands under
``tracekit.``. The values are those of the facts, so they are redacted. What was asked and answered
goes out only where that is wanted, as JSON text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tracekit.canonical import JsonValue, json_text
from tracekit.drafts import Draft
from tracekit.events import (
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    PolicyNoted,
    StateNoted,
    ToolCallBegun,
    ToolCallEnded,
    event_id,
)
from tracekit.otel.messages import (
    definitions,
    from_chat,
    object_of,
    reply_of,
    system_of,
)


class HasValue(Protocol):
    """A value that is kept."""

    @property
    def value(self) -> JsonValue:
        """The redacted value; reading it may cost."""


Told = Sequence[tuple[Fact | Draft, HasValue | None]]
"""Facts of one operation, each with what it keeps: its argument or observation."""
_COLUMNS = {
    "provider": "gen_ai.provider.name",
    "model_requested": "gen_ai.request.model",
    "model": "gen_ai.response.model",
    "usage_input": "gen_ai.usage.input_tokens",
    "usage_output": "gen_ai.usage.output_tokens",
    "usage_cache_read": "gen_ai.usage.cache_read.input_tokens",
    "usage_cache_write": "gen_ai.usage.cache_write.input_tokens",
    "usage_reasoning": "gen_ai.usage.reasoning.output_tokens",
    "tool_call_id": "gen_ai.tool.call.id",
    "prompt_hash": "tracekit.prompt.hash",
    "system_hash": "tracekit.system.hash",
    "tools_hash": "tracekit.tools.hash",
    "call_index": "tracekit.tool.call.index",
    "policy_decision": "tracekit.policy.decision",
    "policy_id": "tracekit.policy.id",
    "policy_reason": "tracekit.policy.reason",
}
"""Column → attribute, wherever a fact has the column."""
_DECISION = {"decision": "tracekit.policy.decision", "reason": "tracekit.policy.reason"}
"""The same of a policy's decision."""
_REQUEST = {
    "max_tokens": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "frequency_penalty": float,
    "presence_penalty": float,
    "seed": int,
    "stream": bool,
}
"""Parameter of a request → type of ``gen_ai.request.<parameter>``."""


def attributes_of(told: Told, *, content: bool) -> dict[str, Any]:
    """The attributes of the span beside one operation.

    Args:
        told: Its facts, in order.
        content: Whether what was asked and answered goes out as well.
    """
    attributes: dict[str, Any] = {}
    for fact, kept in told:
        kind, said = _said(fact)
        if kind is EvidenceNoted or kind is StateNoted:
            attributes |= _noted(kind, said, attributes)
            continue
        event_type, ended, columns = _shape(kind)
        if not ended:
            name = event_id("tracekit", said["trace_id"], said["span_id"], event_type, said["seq"])
            attributes |= {"tracekit.event.id": name, "tracekit.seq": said["seq"]}
        for column, attribute in columns:
            if (value := said.get(column)) is not None:
                attributes[attribute] = value
        if issubclass(kind, (ToolCallBegun, ToolCallEnded)):
            attributes |= _digests(said)
            if kind is ToolCallBegun:
                attributes["gen_ai.tool.type"] = "function"
        elif kind is LlmCallBegun:
            attributes |= _request(_object(kept))
        elif kind is LlmCallEnded:
            attributes |= _response(_object(kept))
        if content and kept is not None:
            attributes |= dict(_content(kind, said, kept.value))
    return attributes


def _noted(
    kind: type[Fact], said: Mapping[str, Any], so_far: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Evidence and state, which are noted apart and belong to the operation around them."""
    if kind is EvidenceNoted:
        cited = so_far.get("tracekit.evidence.ids", ())
        return {"tracekit.evidence.ids": list(dict.fromkeys([*cited, *said["evidence_ids"]]))}
    before = so_far.get("tracekit.state.before", said["before"].digest)
    found = {"tracekit.state.before": before, "tracekit.state.after": said["after"].digest}
    return {name: digest for name, digest in found.items() if digest is not None}


def _said(fact: Fact | Draft) -> tuple[type[Fact], Mapping[str, Any]]:
    """Kind and fields of a fact, whichever way it was written."""
    if isinstance(fact, Draft):
        return fact.kind, fact.fields
    return type(fact), vars(fact)


@functools.cache
def _shape(kind: type[Fact]) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    """Of a kind of fact: its event type, whether it is an end, and its columns as attributes."""
    event_type, _, half = kind.model_fields["fact"].default.partition(".")
    names = {**_COLUMNS, **(_DECISION if kind is PolicyNoted else {})}
    known = tuple((column, name) for column, name in names.items() if column in kind.model_fields)
    return event_type, half == "ended", known


def _digests(said: Mapping[str, Any]) -> dict[str, str]:
    found = {side: said.get(side) for side in ("argument", "observation")}
    return {
        f"tracekit.tool.{side}.digest": payload.digest
        for side, payload in found.items()
        if payload is not None and payload.digest is not None
    }


def policy_of(told: Told) -> str | None:
    """The policy whose decision is told, if one is."""
    for fact, _ in told:
        kind, said = _said(fact)
        if kind is PolicyNoted:
            return said.get("policy_id")
    return None


def _object(kept: HasValue | None) -> dict[str, Any]:
    return {} if kept is None else object_of(kept.value)


def _request(request: Mapping[str, JsonValue]) -> dict[str, Any]:
    given = {"max_tokens": request.get("max_completion_tokens"), **request}
    attributes: dict[str, Any] = {}
    for name, kind in _REQUEST.items():
        value = given.get(name)
        if isinstance(value, bool) == (kind is bool) and isinstance(value, (kind, int)):
            attributes[f"gen_ai.request.{name}"] = kind(value)
    stop = request.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if isinstance(stops, list) and stops and all(isinstance(word, str) for word in stops):
        attributes["gen_ai.request.stop_sequences"] = stops
    return attributes


def _response(response: Mapping[str, JsonValue]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if isinstance(response.get("id"), str) and "choices" in response:
        attributes["gen_ai.response.id"] = response["id"]
    choices = response.get("choices")
    reasons = [
        _REASONS.get(reason, reason)
        for choice in (choices if isinstance(choices, list) else [])
        if isinstance(reason := object_of(choice).get("finish_reason"), str)
    ]
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = reasons
    return attributes


_REASONS = {"tool_calls": "tool_call", "function_call": "tool_call"}


def _content(
    kind: type[Fact], said: Mapping[str, Any], value: JsonValue
) -> Iterator[tuple[str, str]]:
    if kind is LlmCallBegun:
        request = object_of(value)
        if not isinstance(request.get("messages"), list):
            request = {"messages": [{"role": "user", "content": json_text(value)}]}
        yield "gen_ai.input.messages", json_text(from_chat(request["messages"]))
        if system := system_of(request):
            yield "gen_ai.system_instructions", json_text(system)
        if tools := definitions(request.get("tools")):
            yield "gen_ai.tool.definitions", json_text(tools)
    elif kind is ToolCallBegun:
        yield "gen_ai.tool.call.arguments", json_text(value)
    elif said.get("status") == "error":
        return  # what came of it is the error
    elif kind is LlmCallEnded:
        yield "gen_ai.output.messages", json_text(from_chat(reply_of(value)))
    elif kind is ToolCallEnded:
        yield "gen_ai.tool.call.result", json_text(value)
