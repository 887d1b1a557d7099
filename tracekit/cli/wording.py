"""How calls, requests, replies and values are put in words. Pure."""

from __future__ import annotations

from typing import Any

from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.cli.text import arguments_text, value_text, visible
from tracekit.errors import InvalidJson

_DEEPEST = 40


def asked_text(value: JsonValue) -> str:
    """Put a run's input in words: the prompt alone where that is all there is."""
    if isinstance(value, dict) and len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, str):
            return only
    return "" if value is None else arguments_text(value)


def tool_text(name: str, argument: JsonValue, missing: str | None) -> str:
    """Put a call in words: ``search(query='x')``."""
    if missing is not None:
        return f"{name}({missing})"
    return f"{name}({'' if argument is None else arguments_text(argument)})"


def request_text(model: str, request: JsonValue) -> str:
    """Put a request to a model in words: how long the conversation is, and who spoke last."""
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list):
        return f"{model}({arguments_text(request)})" if request else model
    if not messages:
        return model
    last: Any = messages[-1] if isinstance(messages[-1], dict) else {}
    said = value_text(last.get("content") or "")
    count = "1 message" if len(messages) == 1 else f"{len(messages)} messages"
    return f"{model} · {count}, last from {last.get('role', '?')}: {said}"


def come_back_text(value: JsonValue) -> str:
    """Put what came back in words; a model's reply by what it says and the calls it asks for."""
    message = _message(value)
    if message is None:
        return "" if value is None else value_text(value)
    parts = []
    if message.get("content"):
        parts.append(value_text(message["content"]))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = _parsed(function.get("arguments"))
            parts.append(tool_text(str(function.get("name")), arguments, None))
    return " ⇒ ".join(parts) if parts else "(nothing said)"


def _message(value: JsonValue) -> dict[str, Any] | None:
    """Find the assistant's message in a reply: the value itself, or the first choice's."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        value = choices[0].get("message")
    if isinstance(value, dict) and value.get("role") == "assistant":
        return value
    return None


def _parsed(arguments: Any) -> JsonValue:
    if not isinstance(arguments, str):
        return arguments if isinstance(arguments, dict) else None
    try:
        return parse_json(arguments)
    except InvalidJson:
        return arguments


def value_lines(value: JsonValue, *, depth: int = 0) -> list[str]:
    """Write a value whole, on as many lines as reading it needs."""
    if isinstance(value, str):
        return visible(value).splitlines() or [""]
    if depth > _DEEPEST or not isinstance(value, dict | list) or not value:
        return [visible(json_text(value))]
    entries = value.items() if isinstance(value, dict) else [("-", item) for item in value]
    mark = ":" if isinstance(value, dict) else ""
    lines: list[str] = []
    for name, item in entries:
        below = value_lines(item, depth=depth + 1)
        head = f"{visible(str(name))}{mark}"
        if mark and (len(below) > 1 or (isinstance(item, dict | list) and item)):
            lines += [head, *("  " + line for line in below)]
        else:
            lines += [f"{head} {below[0]}", *("  " + line for line in below[1:])]
    return lines
