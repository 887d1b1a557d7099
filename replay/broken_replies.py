"""Replies of a model, broken in the ways in which models break them. Pure: a reply in, one out.

A reply is a chat-completions response, a Responses response, an assistant message, or a text: what
recorded runs, live models and scripts give. The other fields of a response stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from tracekit.integrations import chat

Damage = Literal["malformed", "truncated", "refusal", "empty", "duplicate", "unknown-tool"]
REFUSAL = "I'm sorry, but I can't help with that."
UNKNOWN_TOOL = "no_such_tool"
_LANGCHAIN = "langchain"
"""Field of a recorded reply that says the same once more in LangChain's words."""
_Message = dict[str, Any]


class CannotBreak(ValueError):
    """The reply has nothing that could be broken in this way."""


def break_reply(damage: Damage, reply: object, detail: str = "") -> Any:
    """Return ``reply`` with ``damage``.

    Args:
        damage: What happens to it: arguments of a tool call that are no JSON; cut off in the
            middle; refused; nothing said at all; every tool call made twice; a call of a tool that
            does not exist.
        reply: The reply; it is not changed.
        detail: Words of a refusal, or the name of the tool that does not exist.

    Raises:
        CannotBreak: it has no tool call, say, or is nothing that a model replies.
    """
    if isinstance(reply, str):
        message, _ = _break_message(damage, {"role": "assistant", "content": reply}, detail)
        plain = message.get("tool_calls") is None
        return (message.get("refusal") or message["content"]) if plain else message
    if not isinstance(reply, dict):
        raise CannotBreak(f"a reply of type {type(reply).__name__} is none that can be broken")
    if isinstance(reply.get("output"), list):
        return _break_response(damage, reply, detail)
    if isinstance(reply.get("choices"), list) and reply["choices"]:
        first, *rest = reply["choices"]
        message, reason = _break_message(damage, first.get("message") or {}, detail)
        known = {name: value for name, value in reply.items() if name != _LANGCHAIN}
        broken = {**first, "message": message, "finish_reason": reason}
        return {**known, "choices": [broken, *rest]}
    if not {"content", "tool_calls"} & reply.keys():
        raise CannotBreak("the reply is no message of a model")
    whole = chat.as_response(reply, model="")["choices"][0]["message"]
    return _break_message(damage, whole, detail)[0]


def half(text: str) -> str:
    """The first half of a text, which is never all of it."""
    return text[: len(text) // 2]


# --- a message of chat completions ----------------------------------------------------------------


def _break_message(damage: Damage, message: _Message, detail: str) -> tuple[_Message, str]:
    """The broken message, and the reason for which the model stopped."""
    calls = list(message.get("tool_calls") or [])
    bare = {name: value for name, value in message.items() if name != "tool_calls"}
    stop = "tool_calls" if calls else "stop"
    match damage:
        case "refusal":
            return {**bare, "content": None, "refusal": detail or REFUSAL}, "stop"
        case "empty":
            return {**bare, "content": ""}, "stop"
        case "truncated":
            return _cut(bare, calls), "length"
        case "malformed" if calls:
            return {**message, "tool_calls": [_with_broken_json(calls[0]), *calls[1:]]}, stop
        case "malformed":
            return {**message, "content": _broken_json(message.get("content"))}, stop
        case "duplicate":
            again = [{**call, "id": f"{call.get('id')}_again"} for call in _some(calls)]
            return {**message, "tool_calls": [*calls, *again]}, stop
        case "unknown-tool":
            name = detail or UNKNOWN_TOOL
            made: _Message = {"id": "call_0", "type": "function", "function": {"arguments": "{}"}}
            first: _Message = calls[0] if calls else made
            renamed = {**first, "function": {**(first.get("function") or {}), "name": name}}
            return {**message, "tool_calls": [renamed, *calls[1:]]}, "tool_calls"


def _cut(bare: _Message, calls: list[Any]) -> _Message:
    if not calls:
        return {**bare, "content": half(bare.get("content") or "")}
    return {**bare, "tool_calls": [_with_broken_json(calls[0])]}


def _some(calls: list[Any]) -> list[Any]:
    if not calls:
        raise CannotBreak("the reply asks for no tool")
    return calls


def _with_broken_json(call: Mapping[str, Any]) -> _Message:
    function = call.get("function") or {}
    return {**call, "function": {**function, "arguments": _unclosed(function.get("arguments"))}}


def _unclosed(arguments: object) -> str:
    """Arguments whose end is missing; of none at all, a brace that nobody closes."""
    return (arguments if isinstance(arguments, str) and arguments else "{}")[:-1]


def _broken_json(content: object) -> str:
    if not isinstance(content, str) or content.lstrip()[:1] not in ("{", "["):
        raise CannotBreak("the reply asks for no tool, and its text is no JSON")
    return content.rstrip()[:-1]


# --- a response of the Responses API --------------------------------------------------------------


def _break_response(damage: Damage, response: Mapping[str, Any], detail: str) -> dict[str, Any]:
    items: list[Any] = list(response["output"])
    calls = [item for item in items if item.get("type") == "function_call"]
    match damage:
        case "refusal":
            said = {"type": "refusal", "refusal": detail or REFUSAL}
            return {**response, "output": [_said(said)]}
        case "empty":
            return {**response, "output": []}
        case "truncated":
            reason = {"reason": "max_output_tokens"}
            cut = {**response, "status": "incomplete", "incomplete_details": reason}
            return {**cut, "output": [_cut_item(item) for item in items[:1]]}
        case "malformed" if calls:
            return {**response, "output": _first(items, calls, _with_unclosed)}
        case "malformed":
            return {**response, "output": [_with_broken_text(item) for item in _some(items)]}
        case "duplicate":
            again = [_again(call) for call in _some(calls)]
            return {**response, "output": [*items, *again]}
        case "unknown-tool":
            name = detail or UNKNOWN_TOOL
            if calls:
                return {**response, "output": _first(items, calls, lambda c: {**c, "name": name})}
            made = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "arguments": "{}"}
            return {**response, "output": [*items, {**made, "name": name, "status": "completed"}]}


def _first(items: list[Any], calls: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    return [change(item) if item is calls[0] else item for item in items]


def _with_unclosed(call: Mapping[str, Any]) -> _Message:
    return {**call, "arguments": _unclosed(call.get("arguments"))}


def _again(call: Mapping[str, Any]) -> _Message:
    return {**call, "id": f"{call.get('id')}_again", "call_id": f"{call.get('call_id')}_again"}


def _said(part: Mapping[str, Any]) -> _Message:
    head = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed"}
    return {**head, "content": [dict(part)]}


def _cut_item(item: Mapping[str, Any]) -> _Message:
    cut = {**item, "status": "incomplete"}
    if item.get("type") == "function_call":
        return _with_unclosed(cut)
    parts = [
        {**part, "text": half(part["text"])} if isinstance(part.get("text"), str) else part
        for part in item.get("content") or []
    ]
    return {**cut, "content": parts}


def _with_broken_text(item: Mapping[str, Any]) -> _Message:
    parts = [{**p, "text": _broken_json(p.get("text"))} for p in item.get("content") or []]
    return {**item, "content": parts}
