"""The OpenTelemetry GenAI conventions: the current ones, and those up to 1.36. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.canonical import JsonValue
from tracekit.otel.fields import Fields, listed, number, result, text
from tracekit.otel.messages import (
    chat_call,
    chat_tools,
    object_of,
    parsed,
    to_chat,
)
from tracekit.otel.values import SpanEvent

KINDS = {
    "chat": "llm_call",
    "generate_content": "llm_call",
    "text_completion": "llm_call",
    "retrieval": "retrieval",
    "create_agent": "agent",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "execute_tool": "tool_call",
}
"""Operation → kind; every other operation is a span."""
_PARAMETERS = (
    "max_tokens", "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed",
)  # fmt: skip
OLD_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
MESSAGES = frozenset(
    (*OLD_EVENTS, "gen_ai.choice", "gen_ai.content.prompt", "gen_ai.content.completion")
)
"""Events that carry what was asked and answered."""


def current(attributes: Mapping[str, JsonValue]) -> Fields:
    """What the current conventions say."""
    fields = Fields(attributes)
    fields.take("kind", "gen_ai.operation.name", read=_kind)
    kind = fields.found.get("kind", ("",))[0]
    fields.take("provider", "gen_ai.provider.name", read=text)
    fields.take("model_requested", "gen_ai.request.model", read=text)
    fields.take("model", "gen_ai.response.model", read=text)
    _usage(fields)
    if kind == "tool_call":
        fields.take("actor", "gen_ai.tool.name", read=text)
        fields.take("argument", "gen_ai.tool.call.arguments")
        fields.take("observation", "gen_ai.tool.call.result", read=result)
    elif kind == "retrieval":
        fields.take("actor", "gen_ai.data_source.id", read=text)
        fields.take("argument", "gen_ai.retrieval.query.text", read=lambda said: {"query": said})
        fields.take("observation", "gen_ai.retrieval.documents", read=parsed)
        _cited(fields)
    elif kind == "agent":
        fields.take("actor", "gen_ai.agent.name", "gen_ai.workflow.name", read=text)
    fields.take("tool_call_id", "gen_ai.tool.call.id", read=text)
    fields.take("messages", "gen_ai.input.messages", read=_messages)
    fields.take("replies", "gen_ai.output.messages", read=_messages)
    fields.take("system", "gen_ai.system_instructions", read=_instructions)
    fields.take("tools", "gen_ai.tool.definitions", read=lambda said: chat_tools(parsed(said)))
    for name in _PARAMETERS:
        fields.take(f"parameter.{name}", f"gen_ai.request.{name}")
    fields.take("parameter.stop", "gen_ai.request.stop_sequences")
    fields.take("error_type", "error.type", read=text)
    for side in ("input.messages", "output.messages"):
        fields.take(f"reference.{side}", f"gen_ai.{side}_ref", read=text)
    return fields


def _kind(operation: JsonValue) -> JsonValue:
    return KINDS.get(operation, "span") if isinstance(operation, str) else None


def _usage(fields: Fields) -> None:
    at = "gen_ai.usage."
    fields.take("usage_input", f"{at}input_tokens", read=number)
    fields.take("usage_output", f"{at}output_tokens", read=number)
    fields.take("usage_cache_read", f"{at}cache_read.input_tokens", read=number)
    written = (f"{at}cache_write.input_tokens", f"{at}cache_creation.input_tokens")
    fields.take("usage_cache_write", *written, read=number)
    fields.take("usage_reasoning", f"{at}reasoning.output_tokens", read=number)


def _cited(fields: Fields) -> None:
    documents = parsed(fields.attributes.get("gen_ai.retrieval.documents"))
    ids = [object_of(document).get("id") for document in listed(documents)]
    if named := [str(said) for said in ids if said is not None]:
        fields.put("evidence_ids", list(named), ("gen_ai.retrieval.documents",))


def _messages(said: JsonValue) -> JsonValue:
    """Messages in the chat shape; what is no list of messages has another field."""
    messages = parsed(said)
    return to_chat(messages) if isinstance(messages, list) else None


def _instructions(said: JsonValue) -> JsonValue:
    parts = parsed(said)
    if isinstance(parts, str):
        return [{"role": "system", "content": parts}]
    return to_chat([{"role": "system", "parts": listed(parts)}])


def pydantic_ai(attributes: Mapping[str, JsonValue]) -> Fields:
    """What Pydantic AI says of an agent, which the conventions have no name for."""
    fields = Fields(attributes)
    fields.take("observation", "final_result", read=result)
    fields.take("messages", "pydantic_ai.all_messages", read=_asked)
    return fields


def _asked(said: JsonValue) -> JsonValue:
    """The messages before the first answer."""
    messages = listed(_messages(said))
    roles = [object_of(message).get("role") for message in messages]
    return messages[: roles.index("assistant")] if "assistant" in roles else messages or None


def old(attributes: Mapping[str, JsonValue], events: Sequence[SpanEvent]) -> Fields:
    """What the conventions up to 1.36 say, messages in span events included."""
    fields = Fields(attributes)
    fields.take("provider", "gen_ai.system", read=text)
    fields.take("usage_input", "gen_ai.usage.prompt_tokens", read=number)
    fields.take("usage_output", "gen_ai.usage.completion_tokens", read=number)
    fields.take("messages", "gen_ai.prompt", read=_prompt)
    fields.take("replies", "gen_ai.completion", read=_completion)
    messages, replies = _from_events(events)
    if messages:
        fields.put("messages", messages, ())
    if replies:
        fields.put("replies", replies, ())
    return fields


def _prompt(said: JsonValue) -> JsonValue:
    value = parsed(said)
    return to_chat(value) if isinstance(value, (list, str)) and value else None


def _completion(said: JsonValue) -> JsonValue:
    value = parsed(said)
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    messages = [object_of(item).get("message", item) for item in listed(value)]
    return to_chat(messages) or None


def _from_events(events: Sequence[SpanEvent]) -> tuple[list[JsonValue], list[JsonValue]]:
    messages: list[JsonValue] = []
    replies: list[JsonValue] = []
    for event in events:
        if event.name == "gen_ai.content.prompt":
            messages += listed(_prompt(event.attributes.get("gen_ai.prompt")))
        elif event.name == "gen_ai.content.completion":
            replies += listed(_completion(event.attributes.get("gen_ai.completion")))
        elif event.name in OLD_EVENTS:
            messages.append(_message(event, OLD_EVENTS[event.name]))
        elif event.name == "gen_ai.choice":
            replies.append(_message(event, "assistant"))
    return messages, replies


def _message(event: SpanEvent, role: str) -> JsonValue:
    body = object_of(parsed(event.attributes.get("gen_ai.event.content")))
    said: dict[str, Any] = {
        **event.attributes,
        **body,
    }
    inner = object_of(parsed(said.get("message")))
    said = {**said, **inner}
    message: dict[str, JsonValue] = {
        "role": said.get("role") or role,
        "content": said.get("content"),
    }
    if role == "tool":
        message["tool_call_id"] = said.get("id")
    if calls := listed(parsed(said.get("tool_calls"))):
        message["tool_calls"] = [
            chat_call(
                object_of(call).get("id"),
                (object_of(object_of(call).get("function")) or object_of(call)).get("name"),
                (object_of(object_of(call).get("function")) or object_of(call)).get("arguments"),
            )
            for call in calls
        ]
    return message
