"""Messages and replies of LangChain's chat models in the shape of chat completions, and back.

What that shape cannot say (ids, metadata, content in blocks) stands beside it under ``langchain``,
so that a recorded reply comes back as it was; a reply from elsewhere is one all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.errors import InvalidJson, NotReplayable
from tracekit.integrations import chat

BESIDE = "langchain"
"""Field of a recorded reply with what only LangChain knows."""
_ROLES = {"human": "user", "ai": "assistant"}
_PARAMETERS = ("temperature", "max_tokens", "stop")
_KEPT = ("id", "name", "additional_kwargs", "response_metadata", "usage_metadata")
_COUNTS = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
_DETAILS = (
    ("input_token_details", "cache_read", "prompt_tokens_details", "cached_tokens"),
    ("input_token_details", "cache_creation", "prompt_tokens_details", "cache_write_tokens"),
    ("output_token_details", "reasoning", "completion_tokens_details", "reasoning_tokens"),
)


def request_of(
    messages: Sequence[BaseMessage], params: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """A request as it would be sent for chat completions.

    Args:
        messages: What the model is asked.
        params: What the model says of itself, in LangChain's words for traces.
        options: What this call is given: tools and the like.
    """
    said = {name: params.get(f"ls_{name}") for name in _PARAMETERS}
    return {
        "model": params.get("ls_model_name"),
        "messages": [_message(message) for message in messages],
        **{name: value for name, value in said.items() if value is not None},
        **{name: _option(name, value) for name, value in options.items() if not _internal(name)},
    }


def _internal(name: str) -> bool:
    return name.startswith("ls_") or name == "stream"


def _option(name: str, value: Any) -> Any:
    """An option by what it asks for: tools as the others spell them, a class by its schema."""
    if name == "tools" and isinstance(value, list):
        return [_tool(tool) for tool in value]
    if not isinstance(value, type):
        return value
    return value.model_json_schema() if issubclass(value, BaseModel) else value.__qualname__


def _tool(tool: Any) -> Any:
    if isinstance(tool, dict) and "input_schema" not in tool:
        return tool  # as it is to be spelt, or one that the provider runs by itself
    try:
        return convert_to_openai_tool(tool)
    except (ValueError, TypeError, KeyError):  # it has no such form
        return tool


def _message(message: BaseMessage) -> dict[str, Any]:
    try:
        spelt = convert_to_openai_messages([message])
    except (ValueError, TypeError, KeyError):  # blocks that have no such form
        return {"role": _ROLES.get(message.type, message.type), "content": message.content}
    return dict(spelt[0])


def reply_of(result: ChatResult) -> dict[str, Any]:
    """A reply as the response that chat completions would have sent."""
    choices, beside = [], []
    for index, generation in enumerate(result.generations):
        message, told = generation.message, generation.generation_info or {}
        spelt = {"role": "assistant", "content": None, **_message(message)}
        for call in getattr(message, "invalid_tool_calls", []):
            spelt["tool_calls"] = [*spelt.get("tool_calls", []), _asked(call)]
        reason = told.get("finish_reason") or message.response_metadata.get("finish_reason")
        reason = reason or ("tool_calls" if spelt.get("tool_calls") else "stop")
        choices.append({"index": index, "finish_reason": reason, "message": spelt})
        kept = {name: getattr(message, name, None) for name in _KEPT}
        if not isinstance(message.content, str):
            kept["content"] = message.content
        kept = {name: value for name, value in kept.items() if value}
        beside.append({"message": kept, "generation_info": generation.generation_info})
    reply: dict[str, Any] = {"object": "chat.completion", "choices": choices}
    if result.generations:
        metadata = result.generations[0].message.response_metadata
        model = metadata.get("model_name") or metadata.get("model")
        usage = _usage(getattr(result.generations[0].message, "usage_metadata", None))
        reply |= {n: v for n, v in (("model", model), ("usage", usage)) if v}
    return {**reply, BESIDE: {"generations": beside, "llm_output": result.llm_output}}


def _asked(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call.get("name") or "", "arguments": call.get("args") or ""}
    return {"type": "function", "id": call.get("id"), "function": function}


def _usage(counted: Mapping[str, Any] | None) -> dict[str, Any]:
    if not counted:
        return {}
    usage: dict[str, Any] = {theirs: counted.get(ours) for ours, theirs in _COUNTS}
    usage["total_tokens"] = counted.get("total_tokens")
    for ours, what, theirs, name in _DETAILS:
        if (number := (counted.get(ours) or {}).get(what)) is not None:
            usage.setdefault(theirs, {})[name] = number
    return usage


def _counted(usage: object) -> dict[str, Any] | None:
    """Usage in LangChain's words, from a reply that it did not make."""
    if not isinstance(usage, dict) or not all(
        isinstance(usage.get(theirs), int) for _, theirs in _COUNTS
    ):
        return None
    counted: dict[str, Any] = {ours: usage[theirs] for ours, theirs in _COUNTS}
    counted["total_tokens"] = counted["input_tokens"] + counted["output_tokens"]
    for ours, what, theirs, name in _DETAILS:
        if isinstance(number := (usage.get(theirs) or {}).get(name), int):
            counted.setdefault(ours, {})[what] = number
    return counted


def response_of(reply: object, *, model: str) -> dict[str, Any]:
    """A whole response, made from a reply that may be one, an assistant message, or a text.

    Raises:
        NotReplayable: it is none of them.
    """
    return chat.as_response(reply, model=model)


def result_of(response: Mapping[str, Any]) -> ChatResult:
    """The reply again as what a chat model returns.

    Raises:
        NotReplayable: it says nothing that one could return.
    """
    beside = _object(response.get(BESIDE))
    kept = beside.get("generations")
    kept = kept if isinstance(kept, list) else []
    generations = [
        _generation(choice, _object(kept[place]) if place < len(kept) else {}, response)
        for place, choice in enumerate(response["choices"])
    ]
    if not generations:
        raise NotReplayable("the recorded reply of a chat model is empty")
    return ChatResult(generations=generations, llm_output=beside.get("llm_output"))


def _generation(
    choice: Mapping[str, Any], kept: Mapping[str, Any], response: Mapping[str, Any]
) -> ChatGeneration:
    spelt, calls, broken = _object(choice.get("message")), [], []
    for call in spelt.get("tool_calls") or []:
        function = _object(_object(call).get("function"))
        given = _arguments(function.get("arguments"))
        head = {"name": function.get("name"), "id": call.get("id")}
        if isinstance(given, dict):
            calls.append({**head, "args": given, "type": "tool_call"})
        else:
            raw = {"args": function.get("arguments"), "error": None, "type": "invalid_tool_call"}
            broken.append({**head, **raw})
    fields: dict[str, Any] = {
        "content": spelt.get("content") or "",
        "response_metadata": {
            "finish_reason": choice.get("finish_reason"),
            "model_name": response.get("model"),
        },
        "usage_metadata": _counted(response.get("usage")),
    }
    if kept:
        fields = {"content": fields["content"], **_object(kept.get("message"))}
    try:
        message = AIMessage(**fields, tool_calls=calls, invalid_tool_calls=broken)
    except (ValueError, TypeError) as error:
        raise NotReplayable("the recorded reply is none that a chat model gives") from error
    return ChatGeneration(message=message, generation_info=kept.get("generation_info"))


def _arguments(text: object) -> JsonValue:
    try:
        return parse_json(text) if isinstance(text, str) and text else {}
    except InvalidJson:
        return None


def chunk_of(result: ChatResult) -> ChatGenerationChunk:
    """A reply as the only piece of a stream."""
    generation = result.generations[0]
    message = generation.message
    assert isinstance(message, AIMessage)
    asked = [*message.tool_calls, *message.invalid_tool_calls]
    pieces: list[Any] = [
        {
            "name": call["name"],
            "args": call["args"] if isinstance(call["args"], str) else json_text(call["args"]),
            "id": call["id"],
            "index": place,
            "type": "tool_call_chunk",
        }
        for place, call in enumerate(asked)
    ]
    whole = AIMessageChunk(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        tool_call_chunks=pieces,
        id=message.id,
        name=message.name,
        chunk_position="last",
    )
    return ChatGenerationChunk(message=whole, generation_info=generation.generation_info)


def chunks_of(result: ChatResult, count: int) -> list[ChatGenerationChunk]:
    """The beginning of a reply as the pieces of a stream that has not ended.

    Args:
        result: What was read of it.
        count: In how many pieces; 0 where that is not known.
    """
    if not result.generations or not (count or result.generations[0].message.content):
        return []
    whole = chunk_of(result)
    texts = chat.cut(whole.message.content, count) if count else chat.words(whole.text, 1)
    texts += [""] * (count - len(texts))
    *before, last = texts
    given = whole.message.model_copy(update={"content": last, "chunk_position": None})
    empty: dict[str, Any] = {
        "tool_call_chunks": [],
        "usage_metadata": None,
        "response_metadata": {},
    }
    empty |= {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    made = [given.model_copy(update={**empty, "content": text}) for text in before]
    return [
        *(ChatGenerationChunk(message=message) for message in made),
        ChatGenerationChunk(message=given, generation_info=whole.generation_info),
    ]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
