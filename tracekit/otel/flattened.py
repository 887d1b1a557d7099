"""Conventions that write lists as numbered attributes: OpenInference, OpenLLMetry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.canonical import JsonValue
from tracekit.otel.fields import Fields, listed, number, text
from tracekit.otel.messages import chat_call, chat_tools, object_of, parsed, plain

_INFERENCE = {
    "LLM": "llm_call",
    "TOOL": "tool_call",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "GUARDRAIL": "policy",
}
"""OpenInference kind → ours; every other kind is a span."""
_LOOP = {"workflow": "agent", "agent": "agent", "tool": "tool_call"}
_REQUESTS = {"chat": "llm_call", "completion": "llm_call"}
_PARAMETERS = frozenset(
    ("max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "frequency_penalty",
     "presence_penalty", "seed", "stop", "tool_choice", "response_format", "n")
)  # fmt: skip


def openinference(attributes: Mapping[str, JsonValue]) -> Fields:
    """What OpenInference says."""
    fields = Fields(attributes)
    fields.take("kind", "openinference.span.kind", read=lambda said: _known(_INFERENCE, said))
    kind = fields.found.get("kind", ("",))[0]
    if not kind:
        return fields
    names = {"tool_call": "tool.name", "agent": "agent.name"}
    fields.take("actor", names.get(str(kind), ""), "graph.node.id", read=text)
    fields.take("provider", "llm.provider", "llm.system", read=text)
    fields.take("model_requested", "llm.request.model_name", "llm.model_name", read=text)
    fields.take("model", "llm.response.model_name", "llm.model_name", read=text)
    at = "llm.token_count."
    fields.take("usage_input", f"{at}prompt", read=number)
    fields.take("usage_output", f"{at}completion", read=number)
    fields.take("usage_cache_read", f"{at}prompt_details.cache_read", read=number)
    fields.take("usage_cache_write", f"{at}prompt_details.cache_write", read=number)
    fields.take("usage_reasoning", f"{at}completion_details.reasoning", read=number)
    if kind == "llm_call":
        _llm(fields)
    elif kind == "retrieval":
        _retrieved(fields)
    _values(fields)
    if kind == "tool_call":
        fields.take("tool_call_id", "tool.id", read=text)
        fields.take("argument", "tool.parameters", read=_arguments)
    return fields


def _known(kinds: Mapping[str, str], said: JsonValue) -> JsonValue:
    return kinds.get(said, "span") if isinstance(said, str) else None


def _llm(fields: Fields) -> None:
    for field, prefix in (("messages", "llm.input_messages"), ("replies", "llm.output_messages")):
        tree, keys = fields.tree(prefix)
        made: list[JsonValue] = [
            _message(object_of(object_of(item).get("message"))) for item in listed(tree)
        ]
        if made:
            fields.put(field, made, keys)
    if "replies" in fields.found:  # parts of one answer may stand as several messages
        replies, keys = fields.found["replies"]
        fields.found["replies"] = ([_merged(listed(replies))], keys)
    tree, keys = fields.tree("llm.tools")
    tools = [
        parsed(object_of(object_of(item).get("tool")).get("json_schema")) for item in listed(tree)
    ]
    if tools:
        fields.put("tools", chat_tools(tools), keys)
    given = object_of(parsed(fields.attributes.get("llm.invocation_parameters")))
    for name in sorted(_PARAMETERS & given.keys()):
        if given[name] is not None:
            fields.put(f"parameter.{name}", given[name], ())


def _message(said: Mapping[str, Any]) -> dict[str, JsonValue]:
    message: dict[str, JsonValue] = {"role": said.get("role") or "user"}
    if said.get("name") is not None:
        message["name"] = said["name"]
    contents = [_part(object_of(object_of(c).get("message_content"))) for c in _of(said)]
    parts: list[JsonValue] = [part for part in contents if part is not None]
    message["content"] = plain(parts) if parts else said.get("content")
    if said.get("tool_call_id") is not None:
        message["tool_call_id"] = said["tool_call_id"]
    calls = [object_of(object_of(call).get("tool_call")) for call in listed(said.get("tool_calls"))]
    if calls:
        message["tool_calls"] = [
            chat_call(
                call.get("id"),
                object_of(call.get("function")).get("name"),
                object_of(call.get("function")).get("arguments"),
            )
            for call in calls
        ]
    return message


def _of(said: Mapping[str, Any]) -> list[Any]:
    return listed(said.get("contents"))


def _part(content: Mapping[str, Any]) -> JsonValue:
    match content.get("type"):
        case "tool_use":
            return None  # the calls say it too
        case "text":
            return {"type": "text", "text": content.get("text")}
        case _:
            return dict(content)


def _merged(replies: list[Any]) -> JsonValue:
    """One answer: the texts of all, the calls of all."""
    if len(replies) == 1:
        whole: JsonValue = replies[0]
        return whole
    content: list[JsonValue] = []
    calls: list[JsonValue] = []
    for reply in replies:
        said = reply.get("content")
        content += [{"type": "text", "text": said}] if isinstance(said, str) else listed(said)
        calls += listed(reply.get("tool_calls"))
    merged: dict[str, JsonValue] = {"role": "assistant", "content": plain(content)}
    return {**merged, "tool_calls": calls} if calls else merged


def _retrieved(fields: Fields) -> None:
    tree, keys = fields.tree("retrieval.documents")
    documents = [object_of(object_of(item).get("document")) for item in listed(tree)]
    if documents:
        fields.put("observation", [dict(document) for document in documents], keys)
        ids = [str(d["id"]) for d in documents if d.get("id") is not None]
        fields.put("evidence_ids", list(ids), ())


def _values(fields: Fields) -> None:
    for field, side in (("argument", "input"), ("observation", "output")):
        mime = fields.attributes.get(f"{side}.mime_type")
        value = fields.attributes.get(f"{side}.value")
        if value is not None:
            keys = (f"{side}.value", f"{side}.mime_type")
            fields.put(field, parsed(value) if mime == "application/json" else value, keys)


def _arguments(said: JsonValue) -> JsonValue:
    """Arguments; ``tool.parameters`` is at times the schema instead."""
    value = parsed(said)
    schema = isinstance(value, dict) and {"properties", "type"} <= value.keys()
    return None if schema else value


def openllmetry(attributes: Mapping[str, JsonValue]) -> Fields:
    """What OpenLLMetry (Traceloop) says under names of its own."""
    fields = Fields(attributes)
    fields.take("kind", "traceloop.span.kind", read=lambda said: _known(_LOOP, said))
    fields.take("kind", "llm.request.type", read=lambda said: _known(_REQUESTS, said))
    fields.take("actor", "traceloop.entity.name", "traceloop.workflow.name", read=text)
    fields.take("argument", "traceloop.entity.input", read=_unwrapped)
    fields.take("observation", "traceloop.entity.output", read=parsed)
    return fields


def legacy(attributes: Mapping[str, JsonValue]) -> Fields:
    """What OpenLLMetry up to 0.4x says of a model call, flattened under ``gen_ai.``."""
    fields = Fields(attributes)
    at = "gen_ai.usage."
    fields.take("usage_cache_read", f"{at}cache_read_input_tokens", read=number)
    fields.take("usage_cache_write", f"{at}cache_creation_input_tokens", read=number)
    fields.take("usage_reasoning", f"{at}reasoning_tokens", read=number)
    prompts, keys = fields.tree("gen_ai.prompt")
    if isinstance(prompts, list):
        fields.put("messages", [_loop_message(object_of(item)) for item in prompts], keys)
    completions, keys = fields.tree("gen_ai.completion")
    if isinstance(completions, list):
        replies = [{**_loop_message(object_of(item)), "role": "assistant"} for item in completions]
        fields.put("replies", list(replies), keys)
    if "messages" in fields.found or "replies" in fields.found:
        fields.put("kind", "llm_call", ())
    tree, keys = fields.tree("llm.request.functions")
    tools = [_function(object_of(item)) for item in listed(tree)]
    if tools:
        fields.put("tools", chat_tools(tools), keys)
    return fields


def _loop_message(said: Mapping[str, Any]) -> dict[str, JsonValue]:
    message: dict[str, JsonValue] = {"role": said.get("role") or "user"}
    content = parsed(said.get("content"))  # at times a JSON array of parts
    message["content"] = content if isinstance(content, list) else said.get("content")
    if said.get("tool_call_id") is not None:
        message["tool_call_id"] = said["tool_call_id"]
    if calls := [object_of(call) for call in listed(said.get("tool_calls"))]:
        message["tool_calls"] = [
            chat_call(call.get("id"), call.get("name"), call.get("arguments")) for call in calls
        ]
    return message


def _function(said: Mapping[str, Any]) -> JsonValue:
    return {**said, "parameters": parsed(said.get("parameters"))}


def _unwrapped(said: JsonValue) -> JsonValue:
    """Arguments that were only given by name, without the wrapping."""
    value = parsed(said)
    if isinstance(value, dict) and value.keys() == {"args", "kwargs"} and not value["args"]:
        return value["kwargs"]
    return value
