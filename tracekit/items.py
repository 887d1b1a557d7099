"""The items of the Responses API in the shape of chat completions.

Prompts are hashed and replies are read in one shape, so that the same conversation is the same one
whichever API it went through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.canonical import JsonValue

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of an item by which a model asks for a tool → field with what the tool is given."""
_RESULTS = ("function_call_output", "custom_tool_call_output")
_EARLIER = ("previous_response_id", "conversation")


def is_responses_request(request: Mapping[str, JsonValue]) -> bool:
    """Tell whether a request is one to the Responses API."""
    if "messages" in request or not isinstance(request.get("model"), str):
        return False
    return isinstance(request.get("input"), str | list)


def continues(request: Mapping[str, JsonValue]) -> bool:
    """Tell whether a Responses request holds only the end of what the model is asked."""
    return any(request.get(name) for name in _EARLIER)


def chat_request(request: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Spell a Responses request as one for chat completions, as far as that can say it."""
    given, settings = request["input"], request.get("reasoning")
    messages: list[JsonValue] = []
    if request.get("instructions"):
        messages.append({"role": "system", "content": request["instructions"]})
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    else:
        messages += _messages(given if isinstance(given, list) else [])
    spelt = {name: value for name, value in request.items() if name not in ("input", "text")}
    plain = isinstance(settings, dict) and set(settings) == {"effort"}
    renamed: dict[str, JsonValue] = {
        "messages": messages,
        "max_completion_tokens": request.get("max_output_tokens"),
        "reasoning_effort": settings["effort"]
        if plain and isinstance(settings, dict)
        else settings,
        "response_format": request.get("text"),
    }
    return {**spelt, **{name: value for name, value in renamed.items() if value is not None}}


def _messages(items: Sequence[JsonValue]) -> list[JsonValue]:
    messages, turn = finished_messages(items)
    return [*messages, assistant_message(turn, whole=True)] if turn else messages


def finished_messages(items: Sequence[JsonValue]) -> tuple[list[JsonValue], list[JsonValue]]:
    """Give the messages that are over, and the items of the last turn that may still go on."""
    messages: list[JsonValue] = []
    turn: list[JsonValue] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        role = item.get("role") if isinstance(item, dict) else None
        if kind not in _RESULTS and role in (None, "assistant"):
            turn.append(item)  # what a model says and asks for in one turn is one message
            continue
        if turn:
            messages.append(assistant_message(turn, whole=True))
        turn = []
        if isinstance(item, dict):
            result: JsonValue = {"role": "tool", "content": item.get("output")}
            messages.append(result if kind in _RESULTS else item)
    return messages, turn


def assistant_message(items: Sequence[Any], *, whole: bool = False) -> dict[str, Any]:
    """The message that the items of one turn of a model come to.

    Args:
        items: The items.
        whole: Keep what is neither words nor a call as well, its ids apart.
    """
    parts: list[Any] = []
    calls: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind in _CALLS:
            function = {"name": item.get("name"), "arguments": item.get(_CALLS[str(kind)])}
            calls.append({"id": item.get("call_id"), "type": "function", "function": function})
        elif isinstance(item, dict) and item.get("role") == "assistant":
            content = item.get("content")
            parts += content if isinstance(content, list) else [_text(content)]
        elif whole and isinstance(item, dict):
            parts.append({name: value for name, value in item.items() if name != "id"})
        elif whole:
            parts.append(item)
    words = [_words(part) for part in parts]
    content = "".join(word for word in words if word is not None) or None
    if whole and None in words:
        content = parts
    message: dict[str, Any] = {"role": "assistant", "content": content}
    return {**message, "tool_calls": calls} if calls else message


def _text(content: object) -> dict[str, object]:
    return {"type": "output_text", "text": content}


def _words(part: Any) -> str | None:
    """The text of a part; None where it is something else."""
    if not isinstance(part, dict):
        return None
    name = "refusal" if part.get("type") == "refusal" else "text"
    words = part.get(name) if part.get("type") in ("output_text", "text", "refusal") else None
    return words if isinstance(words, str) else None
