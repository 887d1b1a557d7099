"""How calls, requests, replies and values are put in words. Pure."""

from __future__ import annotations

from tracekit.canonical import JsonValue, json_text
from tracekit.cli.text import arguments_text, value_text
from tracekit.decisions import reply_message
from tracekit.events import Event
from tracekit.items import chat_request, is_responses_request
from tracekit.numerals import counted
from tracekit.visible import shown_line, visible

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


def error_text(row: Event) -> str:
    """Put an error in words, its class once."""
    kind, message = row.error_type or "", row.error_message or ""
    return message if message.startswith(kind) else f"{kind}: {message}" if message else kind


def request_text(model: str, request: JsonValue) -> str:
    """Put a request to a model in words: how long the conversation is."""
    messages = request.get("messages") if isinstance(request, dict) else None
    if isinstance(request, dict) and is_responses_request(request):
        messages = chat_request(request)["messages"]
    if not isinstance(messages, list):
        return f"{model}({arguments_text(request)})" if request else model
    return f"{model} · {counted(len(messages), 'message')}"


def reply_text(value: JsonValue) -> str:
    """Put a model's reply in words: the tools it asks for, and what it says."""
    message = reply_message(value)
    if not message:
        return "" if value is None else value_text(value)
    calls = message.get("tool_calls")
    functions = [
        call.get("function") for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    ]  # fmt: skip
    names = [str(one.get("name")) for one in functions if isinstance(one, dict)]
    said = value_text(message.get("content") or "")
    if not names:
        return said or "(nothing)"
    return f"calls {', '.join(names)}" + (f" and says: {said}" if said else "")


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
        head = f"{shown_line(str(name))}{mark}"
        if mark and (len(below) > 1 or (isinstance(item, dict | list) and item)):
            lines += [head, *("  " + line for line in below)]
        else:
            lines += [f"{head} {below[0]}", *("  " + line for line in below[1:])]
    return lines
