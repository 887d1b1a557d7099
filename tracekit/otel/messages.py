"""Messages in the two shapes: chat (``content``, ``tool_calls``) and GenAI (``parts``). Pure.

Our events keep the chat shape, the conventions want parts. Whatever has neither shape is kept as it
stands: a message is somebody's data, never a reason to fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.errors import InvalidJson

_SYSTEM = ("system", "developer")
_FINISH = {"tool_call": "tool_calls"}


def object_of(value: object) -> dict[str, Any]:
    """``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def parsed(value: JsonValue) -> JsonValue:
    """What a text that may be JSON says; any other value, or text, as it stands."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except InvalidJson:
        return value


def from_chat(messages: JsonValue) -> list[JsonValue]:
    """Chat messages in the GenAI shape, without those of the system."""
    listed = messages if isinstance(messages, list) else [messages]
    made: list[JsonValue] = []
    for message in listed:
        said = object_of(message)
        role = str(said.get("role", "user"))
        if role not in _SYSTEM:
            made.append({"role": role, "parts": _parts(said, role)})
    return made


def system_of(request: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The system's instructions in a chat request, as parts."""
    found = _content(request.get("system"))
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if object_of(message).get("role") in _SYSTEM:
            found += _content(object_of(message).get("content"))
    return found


def reply_of(value: JsonValue) -> list[JsonValue]:
    """The chat messages in what a model answered: a response, a message, or anything else."""
    said = object_of(value)
    choices = said.get("choices")
    if isinstance(choices, list):
        return [object_of(choice).get("message") or {} for choice in choices]
    if "role" in said or "content" in said:
        return [{"role": "assistant", **said}]
    text = value if isinstance(value, str) else json_text(value)
    return [{"role": "assistant", "content": text}]


def definitions(tools: JsonValue) -> list[JsonValue]:
    """Tool definitions in the GenAI shape: flat, without ``function`` in between."""
    flat: list[JsonValue] = []
    for tool in tools if isinstance(tools, list) else []:
        function = object_of(tool).get("function")
        kind = object_of(tool).get("type", "function")
        flat.append({"type": kind, **function} if isinstance(function, dict) else tool)
    return flat


def _parts(message: Mapping[str, Any], role: str) -> list[JsonValue]:
    if isinstance(message.get("parts"), list):
        return list(message["parts"])
    if role == "tool":
        answer: dict[str, JsonValue] = {"type": "tool_call_response"}
        if message.get("tool_call_id") is not None:
            answer["id"] = message["tool_call_id"]
        return [{**answer, "response": message.get("content")}]
    parts = _content(message.get("content"))
    for call in message.get("tool_calls") or []:
        function = object_of(object_of(call).get("function")) or object_of(call)
        part: dict[str, JsonValue] = {"type": "tool_call"}
        if object_of(call).get("id") is not None:
            part["id"] = call["id"]
        part |= {"name": function.get("name") or "", "arguments": parsed(function.get("arguments"))}
        parts.append(part)
    return parts


def _content(content: JsonValue) -> list[JsonValue]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    parts: list[JsonValue] = []
    for part in content if isinstance(content, list) else [content]:
        said = object_of(part)
        if said.get("type") in ("text", "input_text", "output_text"):
            parts.append({"type": "text", "content": said.get("text", said.get("content"))})
        else:
            parts.append(part)
    return parts


def to_chat(messages: JsonValue) -> list[JsonValue]:
    """GenAI messages in the chat shape; those that have it already stay as they are."""
    made: list[JsonValue] = []
    for message in messages if isinstance(messages, list) else [messages]:
        said = object_of(message)
        if isinstance(message, str):
            made.append({"role": "user", "content": message})
        elif isinstance(said.get("parts"), list):
            made += _from_parts(said)
        elif said:
            made.append(said)
    return made


def _from_parts(message: Mapping[str, Any]) -> list[JsonValue]:
    """One message of parts; answers of tools become messages of their own, as chat has it."""
    content: list[JsonValue] = []
    calls: list[JsonValue] = []
    made: list[JsonValue] = []
    for part in message["parts"]:
        said = object_of(part)
        match said.get("type"):
            case "text":
                content.append({"type": "text", "text": said.get("content")})
            case "tool_call":
                calls.append(chat_call(said.get("id"), said.get("name"), said.get("arguments")))
            case "tool_call_response":
                response = said.get("response", said.get("result"))
                text = response if isinstance(response, str) else json_text(response)
                made.append({"role": "tool", "tool_call_id": said.get("id"), "content": text})
            case _:
                content.append(part)
    if content or calls or not made:
        whole: dict[str, JsonValue] = {"role": message.get("role", "user")}
        if message.get("name") is not None:
            whole["name"] = message["name"]
        whole["content"] = plain(content)
        made.append({**whole, "tool_calls": calls} if calls else whole)
    return made


def plain(content: list[JsonValue]) -> JsonValue:
    """Parts of a chat message: one text alone is that text, none at all is None."""
    if len(content) == 1 and object_of(content[0]).get("type") == "text":
        text: JsonValue = object_of(content[0]).get("text")
        return text
    return content or None


def chat_call(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> dict[str, JsonValue]:
    """A call that a model asks for, in the chat shape."""
    text = arguments if isinstance(arguments, str) else json_text(arguments or {})
    function: dict[str, JsonValue] = {"name": name or "", "arguments": text}
    return {"id": call_id, "type": "function", "function": function}


def chat_tools(tools: JsonValue) -> list[JsonValue]:
    """Tool definitions in the chat shape, from the flat one or as they stand."""
    made: list[JsonValue] = []
    for tool in tools if isinstance(tools, list) else []:
        said = object_of(tool)
        if said.get("type", "function") == "function" and "function" not in said and said:
            rest = {name: value for name, value in said.items() if name != "type"}
            made.append({"type": "function", "function": rest})
        else:
            made.append(tool)
    return made


def response(
    replies: list[JsonValue], reasons: JsonValue, *, model: JsonValue, response_id: JsonValue
) -> JsonValue:
    """What a model answered, in the shape our events have: a message, or several as choices."""
    if len(replies) == 1:
        return replies[0]
    listed = reasons if isinstance(reasons, list) else []
    choices: list[JsonValue] = []
    for index, reply in enumerate(replies):
        reason = listed[index] if index < len(listed) else None
        finish = _FINISH.get(reason, reason) if isinstance(reason, str) else reason
        choices.append({"index": index, "finish_reason": finish, "message": reply})
    whole: dict[str, JsonValue] = {"object": "chat.completion", "choices": choices}
    named = {"id": response_id, "model": model}
    return {**{name: value for name, value in named.items() if value is not None}, **whole}
