"""The hash of a prompt: what a model was really asked, without ids, times and user names.

Requests are brought into the GenAI message form (role, parts) first, so that the same prompt sent
through two clients has one hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.canonical import JsonValue, canonical_text, digest_bytes, parse_json
from tracekit.errors import InvalidJson

_SAMPLING = (
    "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "n",
    "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "temperature",
    "tool_choice", "top_k", "top_p",
)  # fmt: skip
_SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class PromptHashes:
    """Hashes of a request and of two of its parts; None for a part that is not there."""

    prompt: str
    system: str | None
    tools: str | None


def hash_prompt(request: Mapping[str, JsonValue]) -> PromptHashes:
    """Hash a request in chat shape (``messages``), or any other as one user message."""
    messages = request.get("messages")
    if isinstance(messages, list) and all(isinstance(m, dict) and "role" in m for m in messages):
        system = [p for m in messages if _role(m) in _SYSTEM for p in _parts(m)]
        rest: list[JsonValue] = [_message(m) for m in messages if _role(m) not in _SYSTEM]
    else:
        system = []
        text = canonical_text(dict(request))
        rest = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    tools = [_tool(tool) for tool in request.get("tools") or []]  # type: ignore[union-attr]  # a list where present
    params: dict[str, JsonValue] = {
        name: request[name] for name in _SAMPLING if request.get(name) is not None
    }
    whole: JsonValue = {"system": system, "messages": rest, "tools": tools, "params": params}
    return PromptHashes(
        prompt=_hash("tracekit/prompt/v1", whole),
        system=_hash("tracekit/system/v1", system) if system else None,
        tools=_hash("tracekit/tools/v1", tools) if tools else None,
    )


def _hash(domain: str, value: JsonValue) -> str:
    return digest_bytes(f"{domain}\n{canonical_text(value)}".encode())


def _role(message: Any) -> str:
    return str(message.get("role", ""))


def _message(message: Any) -> JsonValue:
    if _role(message) == "tool":
        response: JsonValue = {"type": "tool_call_response", "response": message.get("content")}
        return {"role": "tool", "parts": [response]}
    return {"role": _role(message), "parts": _parts(message)}


def _parts(message: Any) -> list[JsonValue]:
    content = message.get("content")
    parts: list[JsonValue] = []
    if isinstance(content, str) and content:
        parts.append({"type": "text", "content": content})
    elif isinstance(content, list):
        parts += [_part(part) for part in content]
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        parts.append(
            {
                "type": "tool_call",
                "name": function.get("name", ""),
                "arguments": _arguments(function.get("arguments")),
            }
        )
    return parts


def _part(part: Any) -> JsonValue:
    if isinstance(part, dict) and part.get("type") == "text":
        return {"type": "text", "content": part.get("text", part.get("content"))}
    kept: JsonValue = part
    return kept


def _arguments(arguments: JsonValue) -> JsonValue:
    if not isinstance(arguments, str) or not arguments:
        return arguments
    try:
        return parse_json(arguments)
    except InvalidJson:
        return arguments


def _tool(tool: Any) -> JsonValue:
    if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
        flat: dict[str, JsonValue] = {"type": tool.get("type", "function"), **tool["function"]}
        return flat
    kept: JsonValue = tool
    return kept
