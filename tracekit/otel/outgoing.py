"""Facts of an operation to the attributes of its span. Pure.

Names are the current ones of the GenAI conventions; what those have no name for stands under
``tracekit.``. The values are those of the facts, so they are redacted. What was asked and answered
goes out only where that is wanted, as JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tracekit.canonical import JsonValue, json_text
from tracekit.events import (
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    PolicyNoted,
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


Told = Sequence[tuple[Fact, HasValue | None]]
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
        kind, _, half = fact.fact.partition(".")
        if half != "ended":
            name = event_id("tracekit", fact.trace_id, fact.span_id, kind, fact.seq)
            attributes |= {"tracekit.event.id": name, "tracekit.seq": fact.seq}
        for column, attribute in _COLUMNS.items():
            if (said := getattr(fact, column, None)) is not None:
                attributes[attribute] = said
        match fact:
            case ToolCallBegun():
                attributes |= _digest("tracekit.tool.argument.digest", fact.argument.digest)
                attributes["gen_ai.tool.type"] = "function"
            case ToolCallEnded():
                attributes |= _digest("tracekit.tool.observation.digest", fact.observation.digest)
            case LlmCallBegun():
                attributes |= _request(_object(kept))
            case LlmCallEnded():
                attributes |= _response(_object(kept))
            case PolicyNoted():
                attributes |= _policy(fact)
            case _:
                pass
        if content and kept is not None:
            attributes |= dict(_content(fact, kept.value))
    if any(fact.fact.startswith("retrieval") for fact, _ in told):
        attributes.pop("gen_ai.tool.type", None)  # a retrieval's span is not that of a tool
    return attributes


def policy_of(told: Told) -> str | None:
    """The policy whose decision is told, if one is."""
    return next((fact.policy_id for fact, _ in told if isinstance(fact, PolicyNoted)), None)


def _object(kept: HasValue | None) -> dict[str, Any]:
    return {} if kept is None else object_of(kept.value)


def _digest(attribute: str, digest: str | None) -> dict[str, str]:
    return {} if digest is None else {attribute: digest}


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


def _policy(fact: PolicyNoted) -> dict[str, Any]:
    said = {"decision": fact.decision, "id": fact.policy_id, "reason": fact.reason}
    return {f"tracekit.policy.{name}": value for name, value in said.items() if value is not None}


def _content(fact: Fact, value: JsonValue) -> Iterator[tuple[str, str]]:
    match fact:
        case LlmCallBegun():
            request = object_of(value)
            if not isinstance(request.get("messages"), list):
                request = {"messages": [{"role": "user", "content": json_text(value)}]}
            yield "gen_ai.input.messages", json_text(from_chat(request["messages"]))
            if system := system_of(request):
                yield "gen_ai.system_instructions", json_text(system)
            if tools := definitions(request.get("tools")):
                yield "gen_ai.tool.definitions", json_text(tools)
        case LlmCallEnded():
            if fact.status != "error":
                yield "gen_ai.output.messages", json_text(from_chat(reply_of(value)))
        case ToolCallBegun():
            yield "gen_ai.tool.call.arguments", json_text(value)
        case ToolCallEnded():
            if fact.status != "error":
                yield "gen_ai.tool.call.result", json_text(value)
        case _:
            pass
