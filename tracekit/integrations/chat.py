"""The chat-completions wire form: streams put together, and replies taken apart into streams.

Pure: plain JSON in, plain JSON out; knows nothing of the client. How a provider cut a reply into
chunks is not kept: a rebuilt stream has the same text a few words at a time, and the rest whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.errors import InvalidJson, NotReplayable

_NAMES = ("role", "type", "id", "index")
"""Fields of a delta that are sent whole; other strings arrive in pieces."""
_WORDS = re.compile(r"\s*\S+|\s+$")
_WORDS_A_PIECE, _MOST_PIECES = 3, 200
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_DERIVED = ("parsed", "parsed_arguments")
"""Fields that the client adds to what the provider sent."""


@dataclass
class Accumulator:
    """Chunks of one stream, put together to the response that would have been sent whole."""

    _head: dict[str, Any] = field(default_factory=dict)
    _choices: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in the next chunk."""
        for name, value in chunk.items():
            if name not in ("choices", "object") and (
                value is not None or name not in self._head or name == "usage"
            ):
                self._head[name] = value if value is not None else self._head.get(name)
        for part in chunk.get("choices") or []:
            index = part.get("index", 0)
            choice = self._choices.setdefault(index, {"index": index, "finish_reason": None})
            _merge(choice.setdefault("message", {}), part.get("delta") or {})
            if part.get("finish_reason") is not None:
                choice["finish_reason"] = part["finish_reason"]
            for name, entries in (part.get("logprobs") or {}).items():
                known = choice.setdefault("logprobs", {})
                known[name] = [*(known.get(name) or []), *(entries or [])]

    def response(self) -> dict[str, JsonValue]:
        """The response so far."""
        choices = []
        for _, choice in sorted(self._choices.items()):
            message = {"role": "assistant", "content": None, **choice.get("message", {})}
            if calls := message.get("tool_calls"):
                message["tool_calls"] = [
                    {name: value for name, value in call.items() if name != "index"}
                    for call in calls
                ]
            choices.append({**choice, "message": message})
        return {**self._head, "object": "chat.completion", "choices": choices}


def _merge(known: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        before = known.get(name)
        if name == "tool_calls" and isinstance(value, list):
            known[name] = _merge_calls(before or [], value)
        elif isinstance(value, str) and isinstance(before, str) and name not in _NAMES:
            known[name] = before + value
        elif isinstance(value, Mapping):
            known[name] = dict(before or {})
            _merge(known[name], value)
        elif value is not None or name not in known:
            known[name] = value


def _merge_calls(known: list[dict[str, Any]], deltas: Iterable[Mapping[str, Any]]) -> list[Any]:
    by_index = {call["index"]: call for call in known}
    for position, delta in enumerate(deltas):
        call = by_index.setdefault(delta.get("index", position), {})
        _merge(call, {"index": position, **delta})
    return [by_index[index] for index in sorted(by_index)]


@dataclass
class EventLines:
    """Reads the chunks out of the bytes of an event stream, however they are cut."""

    _rest: bytes = b""
    done: bool = False
    """Whether the stream has said that it is over; readers stop there, before its last byte."""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the chunks that are complete with ``data``."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            if line[5:].strip() == b"[DONE]":
                self.done = True
                continue
            try:
                chunk = parse_json(line[5:].decode("utf-8", "replace").strip())
            except InvalidJson:
                continue  # the client reports it; here it only says nothing
            if isinstance(chunk, dict):
                self.done = self.done or chunk.get("type") in _LAST_EVENTS
                yield chunk


def as_sent(response: JsonValue) -> JsonValue:
    """A response without what the client derived from it."""
    if isinstance(response, dict):
        derived = {name for name in _DERIVED if name in response}
        if "parsed" in derived and response.get("tool_calls") is None:
            derived.add("tool_calls")
        return {name: as_sent(value) for name, value in response.items() if name not in derived}
    if isinstance(response, list):
        return [as_sent(item) for item in response]
    return response


def as_response(reply: object, *, model: str) -> dict[str, Any]:
    """A whole response, made from a reply that may be one, an assistant message, or a text.

    Raises:
        NotReplayable: it is none of them.
    """
    if isinstance(reply, dict) and isinstance(reply.get("choices"), list):
        return reply
    if isinstance(reply, str):
        reply = {"role": "assistant", "content": reply}
    if not isinstance(reply, dict) or not {"content", "tool_calls"} & reply.keys():
        raise NotReplayable(
            f"a chat completion cannot be answered with a value of type {type(reply).__name__}",
            hint="give a chat-completions response, an assistant message or a text",
        )
    message = {"role": "assistant", "content": None, **reply}
    if message.get("tool_calls"):
        message["tool_calls"] = [_call(i, c) for i, c in enumerate(message["tool_calls"])]
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-replayed",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
    }


def _call(position: int, call: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in call or call.get("type") == "custom":
        return {"id": f"call_{position}", "type": "function", **call}
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    function = {"name": call.get("name", call.get("tool", "")), "arguments": text}
    return {"id": call.get("id", f"call_{position}"), "type": "function", "function": function}


def pieces(content: Any) -> list[Any]:
    """A text as the pieces of a stream, a few words each; anything else as it is."""
    return words(content, _WORDS_A_PIECE)


def words(content: Any, size: int) -> list[Any]:
    """A text in pieces of ``size`` words, or of more where there were too many pieces."""
    if not isinstance(content, str):
        return [content]
    found = _WORDS.findall(content)
    size = max(size, -(-len(found) // _MOST_PIECES))
    return ["".join(found[at : at + size]) for at in range(0, len(found), size)] or [content]


def cut(content: Any, count: int) -> list[Any]:
    """A text in ``count`` pieces of about the same length; anything else as it is."""
    if not isinstance(content, str) or count < 2:
        return [content]
    size = len(content)
    return [content[size * at // count : size * (at + 1) // count] for at in range(count)]


def chunks(
    response: Mapping[str, Any], *, usage: bool, cut: Callable[[Any], list[Any]] = pieces
) -> Iterator[dict[str, Any]]:
    """Take a response apart into the chunks of a stream.

    Args:
        response: The whole response.
        usage: Whether the usage comes in a chunk of its own at the end.
        cut: How a text is cut.
    """
    head = {n: v for n, v in response.items() if n not in ("choices", "usage", "object")}
    head |= {"object": "chat.completion.chunk"}
    for choice in response.get("choices") or []:
        index, message = choice.get("index", 0), dict(choice.get("message") or {})
        calls = message.pop("tool_calls", None) or []
        first, *rest = cut(message.get("content"))
        if message:
            said = {**message, "content": first} if "content" in message else message
            for delta in (said, *({"content": piece} for piece in rest)):
                yield {**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        for position, call in enumerate(calls):
            delta = {"tool_calls": [{"index": position, **call}]}
            yield {**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        if (reason := choice.get("finish_reason")) is not None:
            last = {"index": index, "delta": {}, "finish_reason": reason}
            if choice.get("logprobs"):
                last["logprobs"] = choice["logprobs"]
            yield {**head, "choices": [last]}
    if usage and response.get("usage") is not None:
        yield {**head, "choices": [], "usage": response["usage"]}


def event_stream(response: Mapping[str, Any], *, usage: bool) -> str:
    """A response as the text of an event stream."""
    lines = [f"data: {json_text(chunk)}\n\n" for chunk in chunks(response, usage=usage)]
    return "".join([*lines, "data: [DONE]\n\n"])


def begun_stream(response: Mapping[str, Any], *, pieces: int) -> str:
    """The beginning of an event stream, as far as ``response`` goes, in so many events.

    Who counts them finds as many as the recorded reader did, if a text can be cut into so many.
    """
    sent = list(chunks(response, usage=True, cut=lambda text: [text]))
    texts = sum(bool((c.get("message") or {}).get("content")) for c in response["choices"])
    if texts and (more := pieces - len(sent)) > 0:
        sent = list(chunks(response, usage=True, cut=lambda text: cut(text, 1 + more // texts)))
    elif texts and not pieces:
        sent = list(chunks(response, usage=True, cut=lambda text: words(text, 1)))
    if sent:
        nothing = {"index": 0, "delta": {}, "finish_reason": None}
        sent[1:1] = [{**sent[0], "choices": [nothing]}] * (pieces - len(sent))
    return "".join(f"data: {json_text(chunk)}\n\n" for chunk in sent)


def is_whole(response: JsonValue, request: Mapping[str, Any]) -> bool:
    """Whether ``response`` is all that was to come: each choice has ended, and usage was told."""
    if not isinstance(response, dict) or not isinstance(response.get("choices"), list):
        return False
    choices = [_object(choice) for choice in response["choices"]]  # type: ignore[union-attr]  # a list, as seen above
    usage = _object(request.get("stream_options")).get("include_usage")
    return (
        len(choices) >= int(request.get("n") or 1)
        and all(choice.get("finish_reason") for choice in choices)
        and (not usage or response.get("usage") is not None)
    )


def ended_columns(
    response: JsonValue, *, asked: str = "prompt_tokens", told: str = "completion_tokens"
) -> dict[str, Any]:
    """Columns of a model call that its response fills.

    Args:
        response: The whole response.
        asked, told: What its usage calls the tokens of the prompt and of the reply.
    """
    if not isinstance(response, dict):
        return {}
    usage = _object(response.get("usage"))
    read = _object(usage.get(f"{asked}_details"))
    written = _object(usage.get(f"{told}_details"))
    columns: dict[str, Any] = {
        "model": response.get("model"),
        "usage_input": usage.get(asked),
        "usage_output": usage.get(told),
        "usage_cache_read": read.get("cached_tokens"),
        "usage_cache_write": read.get("cache_write_tokens"),
        "usage_reasoning": written.get("reasoning_tokens"),
        "usage_raw": dict(usage) or None,
    }
    return {name: value for name, value in columns.items() if _fits(name, value)}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _fits(name: str, value: object) -> bool:
    """Whether a provider's value fits its column; what does not is still in the response."""
    if name == "usage_raw":
        return isinstance(value, dict)
    if name == "model":
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool)
