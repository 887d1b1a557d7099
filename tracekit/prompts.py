"""The hash of a prompt: what a model was really asked, without ids, times and user names.

Requests are brought into the GenAI message form (role, parts) first, so that the same prompt sent
through two clients, or through chat completions and the Responses API, has one hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from tracekit.canonical import (
    JsonValue,
    RunningDigest,
    canonical_bytes,
    canonical_text,
    digest_bytes,
    parse_json,
)
from tracekit.errors import InvalidJson
from tracekit.growing import MESSAGES, Path, frame, list_at, with_list
from tracekit.items import (
    assistant_message,
    chat_request,
    continues,
    finished_messages,
    is_responses_request,
)

_SAMPLING = (
    "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "n",
    "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "temperature",
    "tool_choice", "top_k", "top_p",
)  # fmt: skip
_SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class PromptHashes:
    """Hashes of a request and of two of its parts; None for a part that is not there."""

    prompt: str | None
    """None where the request holds only the end of what the model is asked."""
    system: str | None
    tools: str | None

    def as_columns(self) -> dict[str, str | None]:
        """Give them by column of the event."""
        return {
            "prompt_hash": self.prompt,
            "system_hash": self.system,
            "tools_hash": self.tools,
        }


def hash_prompt(request: Mapping[str, JsonValue]) -> PromptHashes:
    """Hash a request in the shape of a conversation, or any other as one user message.

    It takes any JSON: whatever has not the shape it should have is hashed as it stands.
    """
    if is_responses_request(request):
        hashes = hash_prompt(chat_request(request))
        return replace(hashes, prompt=None) if continues(request) else hashes
    messages = request.get("messages")
    began = PromptHash.begun(request)
    if isinstance(messages, list) and (whole := began.with_more(messages)) is not None:
        return whole.hashes()
    return began.of_text(canonical_text(dict(request)))


@dataclass(frozen=True)
class PromptHash:
    """The hashes of a prompt, taken message by message: a longer one costs only what is new."""

    running: RunningDigest
    """Over the messages so far that are not the system's."""
    system: tuple[JsonValue, ...]
    rest: bytes
    """Canonical text of the sampling parameters."""
    tools: bytes
    tools_hash: str | None
    some: bool = False
    """Whether there is a message already, so that a comma comes before the next."""

    @classmethod
    def begun(cls, request: Mapping[str, JsonValue]) -> PromptHash:
        """Begin with all of ``request`` but its messages."""
        tools = [_tool(tool) for tool in _list(request.get("tools"))]
        params: dict[str, JsonValue] = {
            name: request[name] for name in _SAMPLING if request.get(name) is not None
        }
        return cls(
            running=RunningDigest(b'tracekit/prompt/v1\n{"messages":['),
            system=tuple(_content(request["system"]) if request.get("system") else []),
            rest=canonical_bytes(params),
            tools=canonical_bytes(tools),
            tools_hash=_hash("tracekit/tools/v1", tools) if tools else None,
        )

    def with_more(self, messages: Sequence[JsonValue]) -> PromptHash | None:
        """Add ``messages``; None where one of them is no message in chat shape."""
        if not all(isinstance(message, dict) and "role" in message for message in messages):
            return None
        system = [part for m in messages if _role(m) in _SYSTEM for part in _parts(m)]
        spelt = [one for m in messages if _role(m) not in _SYSTEM for one in _messages(m)]
        text = b",".join(canonical_bytes(one) for one in spelt)
        if text and self.some:
            text = b"," + text
        return replace(
            self,
            running=self.running.with_more(text),
            system=(*self.system, *system),
            some=self.some or bool(text),
        )

    def of_text(self, text: str) -> PromptHashes:
        """Give the hashes where ``text`` is all that was said."""
        said: JsonValue = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
        alone = replace(
            self, system=(), running=self.running.with_more(canonical_bytes(said)[1:-1])
        )
        return alone.hashes()

    def hashes(self) -> PromptHashes:
        """Give the hashes of the messages so far."""
        system = list(self.system)
        parts = (b'],"params":', self.rest, b',"system":', canonical_bytes(system), b',"tools":')
        whole = self.running.with_more(b"".join(parts) + self.tools + b"}")
        return PromptHashes(
            prompt=whole.name(),
            system=_hash("tracekit/system/v1", system) if system else None,
            tools=self.tools_hash,
        )


class ListHash(Protocol):
    """The hashes of a request whose list grows: a longer one costs only what is new."""

    def with_more(self, messages: Sequence[JsonValue]) -> Self | None:
        """Add ``messages``; None where the request would be of another kind with them."""

    def hashes(self) -> PromptHashes:
        """Give the hashes so far: those that ``hash_prompt`` gives."""


def hash_list(request: Mapping[str, JsonValue], path: Path) -> ListHash:
    """Hash a request whose list at ``path`` may go on."""
    items: list[JsonValue] = list_at(request, path) or []
    if path == MESSAGES and (whole := PromptHash.begun(request).with_more(items)) is not None:
        return whole
    if path == ("input",) and is_responses_request(request):
        return _ItemsHash.begun(request).with_more(items)
    return _TextHash.begun(request, path).with_more(items)


@dataclass(frozen=True)
class _ItemsHash:
    """Of a request to the Responses API, whose items make up messages."""

    told: PromptHash
    """Over the messages that are over."""
    turn: tuple[JsonValue, ...]
    """Items of the last one, which may go on."""
    complete: bool
    """Whether the request holds all that the model is asked."""

    @classmethod
    def begun(cls, request: Mapping[str, JsonValue]) -> _ItemsHash:
        asked = chat_request({**request, "input": []})
        told = PromptHash.begun(asked)
        return cls(told.with_more(_list(asked["messages"])) or told, (), not continues(request))

    def with_more(self, messages: Sequence[JsonValue]) -> _ItemsHash:
        over, turn = finished_messages([*self.turn, *messages])
        return replace(self, told=self.told.with_more(over) or self.told, turn=tuple(turn))

    def hashes(self) -> PromptHashes:
        last = [assistant_message(self.turn, whole=True)] if self.turn else []
        hashes = (self.told.with_more(last) or self.told).hashes()
        return hashes if self.complete else replace(hashes, prompt=None)


@dataclass(frozen=True)
class _TextHash:
    """Of any other request, which counts as one text: its own canonical form."""

    began: PromptHash
    running: RunningDigest
    after: bytes
    some: bool = False

    @classmethod
    def begun(cls, request: Mapping[str, JsonValue], path: Path) -> _TextHash:
        before, after = frame(with_list(request, path, None), path)
        began = replace(PromptHash.begun(request), system=())
        text = b'{"parts":[{"content":"' + _inside_text(before)
        return cls(began, began.running.with_more(text), after)

    def with_more(self, messages: Sequence[JsonValue]) -> _TextHash:
        text = b",".join(canonical_bytes(one) for one in messages)
        if text and self.some:
            text = b"," + text
        running = self.running.with_more(_inside_text(text))
        return replace(self, running=running, some=self.some or bool(text))

    def hashes(self) -> PromptHashes:
        end = _inside_text(self.after) + b'","type":"text"}],"role":"user"}'
        return replace(self.began, running=self.running.with_more(end)).hashes()


def _inside_text(text: bytes) -> bytes:
    """Spell JSON as it stands inside a JSON text."""
    return canonical_bytes(text.decode())[1:-1]


def prompt_columns(request: JsonValue) -> dict[str, str | None]:
    """The hashes of any request as columns of its event."""
    return hash_prompt(request if isinstance(request, dict) else {"prompt": request}).as_columns()


def is_conversation(request: JsonValue) -> bool:
    """Tell whether a request has the shape of a conversation, so that its hash says all of it."""
    if not isinstance(request, dict):
        return False
    return isinstance(request.get("messages"), list) or is_responses_request(request)


def _hash(domain: str, value: JsonValue) -> str:
    return digest_bytes(f"{domain}\n{canonical_text(value)}".encode())


def _role(message: Any) -> str:
    return str(message.get("role", ""))


def _messages(message: Any) -> list[JsonValue]:
    """A message in the GenAI form; answers of tools that share one message stand apart."""
    if _role(message) == "tool" and "parts" not in message:
        response = _plain_text(message.get("content"))
        return [{"role": "tool", "parts": [{"type": "tool_call_response", "response": response}]}]
    parts = _parts(message)
    answers = [part for part in parts if _type(part) == "tool_call_response"]
    others = [part for part in parts if _type(part) != "tool_call_response"]
    spelt: list[JsonValue] = [{"role": "tool", "parts": [answer]} for answer in answers]
    if others or not answers:
        spelt.append({"role": _role(message), "parts": others})
    return spelt


def _parts(message: Any) -> list[JsonValue]:
    parts = _content(message.get("parts", message.get("content")))
    for call in _list(message.get("tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        parts.append(_call(function) if isinstance(function, dict) else call)
    return parts


def _content(content: JsonValue) -> list[JsonValue]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    return [_part(part) for part in _list(content)]


def _part(part: Any) -> JsonValue:
    match _type(part):
        case "text" | "input_text" | "output_text":
            return {"type": "text", "content": part.get("text", part.get("content"))}
        case "tool_call":
            return _call(part)
        case "tool_use":
            return _call({"name": part.get("name"), "arguments": part.get("input")})
        case "tool_call_response":
            response = part.get("response", part.get("result"))
            return {"type": "tool_call_response", "response": _plain_text(response)}
        case "tool_result":
            response = _plain_text(part.get("content"))
            return {"type": "tool_call_response", "response": response}
        case _:
            kept: JsonValue = part
            return kept


def _call(function: Mapping[str, Any]) -> JsonValue:
    return {
        "type": "tool_call",
        "name": function.get("name") or "",
        "arguments": _arguments(function.get("arguments")),
    }


def _plain_text(content: Any) -> JsonValue:
    """A content of one text part is that text."""
    if isinstance(content, list) and len(content) == 1 and _type(content[0]) == "text":
        text: JsonValue = content[0].get("text", content[0].get("content"))
        return text
    kept: JsonValue = content
    return kept


def _arguments(arguments: JsonValue) -> JsonValue:
    if not isinstance(arguments, str) or not arguments:
        return arguments or {}
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


def _list(value: Any) -> list[Any]:
    """What there is several of; a single thing where one was expected to be several."""
    if isinstance(value, list):
        return value
    return [] if value is None or value in ("", {}) else [value]


def _type(part: Any) -> object:
    return part.get("type") if isinstance(part, dict) else None
