"""Facts of an operation to the attributes of its span. Pure.

Names are the current ones of the GenAI conventions; what those have no name for stands under
``tracekit.``. The values are those of the facts, so they are redacted. What was asked and answered
goes out only where that is wanted, as JSON text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from tracekit.canonical import JsonValue, digest_bytes, json_text
from tracekit.drafts import Draft
from tracekit.events import (
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    PolicyNoted,
    StateNoted,
    ToolCallBegun,
    ToolCallEnded,
    event_id,
)
from tracekit.otel.fields import listed
from tracekit.otel.messages import (
    definitions,
    from_chat,
    object_of,
    reply_of,
    system_of,
)

_TAG = len("sha256:")


class HasValue(Protocol):
    """A value that is kept."""

    @property
    def value(self) -> JsonValue:
        """The redacted value; reading it may cost."""

    @property
    def without_messages(self) -> JsonValue:
        """The same, of a prompt without its messages; reading it costs little."""


_COLUMNS = {
    "provider": "gen_ai.provider.name",
    "model_requested": "gen_ai.request.model",
    "model": "gen_ai.response.model",
    "usage_input": "gen_ai.usage.input_tokens",
    "usage_output": "gen_ai.usage.output_tokens",
    "usage_cache_read": "gen_ai.usage.cache_read.input_tokens",
    "usage_cache_write": "gen_ai.usage.cache_write.input_tokens",
    "usage_reasoning": "gen_ai.usage.reasoning.output_tokens",
    "tool_call_id": "gen_ai.tool.call.id",
    "prompt_hash": "tracekit.prompt.hash",
    "system_hash": "tracekit.system.hash",
    "tools_hash": "tracekit.tools.hash",
    "call_index": "tracekit.tool.call.index",
    "policy_decision": "tracekit.policy.decision",
    "policy_id": "tracekit.policy.id",
    "policy_reason": "tracekit.policy.reason",
}
"""Column → attribute, wherever a fact has the column."""
_DECISION = {"decision": "tracekit.policy.decision", "reason": "tracekit.policy.reason"}
"""The same of a policy's decision."""
_REQUEST = {
    "max_tokens": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "frequency_penalty": float,
    "presence_penalty": float,
    "seed": int,
    "stream": bool,
}
"""Parameter of a request → type of ``gen_ai.request.<parameter>``."""


def say(
    attributes: dict[str, Any],
    fact: Fact | Draft,
    kept: HasValue | None,
    content: dict[str, JsonValue] | None,
) -> None:
    """Add what a fact says to the attributes of the span beside its operation.

    Args:
        attributes: What earlier facts of the operation said.
        fact: The next one.
        kept: What it keeps.
        content: Where what was asked and answered goes, if it is wanted.
    """
    kind, said = _said(fact)
    shape = _shape(kind)
    if shape.noted:
        attributes |= _noted(kind, said, attributes)
        return
    if not shape.ended:
        seq = said["seq"]
        attributes["tracekit.event.id"] = _event_id(
            shape.event_type, said["trace_id"], said["span_id"], seq
        )
        attributes["tracekit.seq"] = seq
    for column, attribute in shape.columns:
        value = said.get(column)
        if value is not None:
            attributes[attribute] = value
    if shape.digest is not None:
        column, attribute = shape.digest
        payload = said.get(column)
        if payload is not None and payload.digest is not None:
            attributes[attribute] = payload.digest
    if kind is ToolCallBegun:
        attributes["gen_ai.tool.type"] = "function"
    # A value may be long, and of most nothing is said.
    if kept is not None and (content is not None or kind is LlmCallBegun or kind is LlmCallEnded):
        value = kept.without_messages if content is None else kept.value
        _say_kept(attributes, kind, said, value, content)


def _said(fact: Fact | Draft) -> tuple[type[Fact], Mapping[str, Any]]:
    """Kind and fields of a fact, whichever way it was written."""
    return (fact.kind, fact.fields) if isinstance(fact, Draft) else (type(fact), vars(fact))


class CallAttributes:
    """What ``say`` says of the facts of a call, where all of a fact but ids and digests is known.

    Args:
        begun, ended: Kinds of the two facts.
        begins, ends: What they say.
    """

    def __init__(
        self,
        begun: type[Fact],
        begins: Mapping[str, Any],
        ended: type[Fact],
        ends: Mapping[str, Any],
    ) -> None:
        self._begun, self._ended = _shape(begun), _shape(ended)
        self._begins = _constants(self._begun, begins)
        self._ends = _constants(self._ended, ends)
        if begun is ToolCallBegun:
            self._begins["gen_ai.tool.type"] = "function"

    def of_begin(self, trace_id: str, span_id: str, seq: int, digest: str) -> dict[str, Any]:
        """Give those of the begin, which keeps a value with this digest."""
        shape = self._begun
        made = self._begins.copy()
        made["tracekit.event.id"] = _event_id(shape.event_type, trace_id, span_id, seq)
        made["tracekit.seq"] = seq
        if shape.digest is not None:
            made[shape.digest[1]] = digest
        return made

    def of_end(self, digest: str) -> dict[str, Any]:
        """Give those of the end, which keeps a value with this digest."""
        made = dict(self._ends)
        if self._ended.digest is not None:
            made[self._ended.digest[1]] = digest
        return made


def _constants(shape: _Shape, said: Mapping[str, Any]) -> dict[str, Any]:
    found = {attribute: said.get(column) for column, attribute in shape.columns}
    return {attribute: value for attribute, value in found.items() if value is not None}


def _say_kept(
    attributes: dict[str, Any],
    kind: type[Fact],
    said: Mapping[str, Any],
    value: JsonValue,
    content: dict[str, JsonValue] | None,
) -> None:
    if kind is LlmCallBegun:
        attributes |= _request(object_of(value))
    elif kind is LlmCallEnded:
        attributes |= _response(object_of(value))
    if content is not None:
        content |= _content(kind, said, value)


def _event_id(event_type: str, trace_id: str, span_id: str, seq: int) -> str:
    """The same as ``event_id`` gives; ids of ours are plain, so the key needs no writer of JSON."""
    if not (trace_id.isalnum() and trace_id.isascii()):
        return event_id("tracekit", trace_id, span_id, event_type, seq)
    key = f'tracekit/event/v1\n["tracekit","{trace_id}","{span_id}","{event_type}",{seq}]'
    return digest_bytes(key.encode())[_TAG : _TAG + 32]


def _noted(
    kind: type[Fact], said: Mapping[str, Any], so_far: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Evidence and state, which are noted apart and belong to the operation around them."""
    if kind is EvidenceNoted:
        cited = so_far.get("tracekit.evidence.ids", ())
        return {"tracekit.evidence.ids": tuple(dict.fromkeys([*cited, *said["evidence_ids"]]))}
    before = so_far.get("tracekit.state.before", said["before"].digest)
    found = {"tracekit.state.before": before, "tracekit.state.after": said["after"].digest}
    return {name: digest for name, digest in found.items() if digest is not None}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What there is to say of a kind of fact."""

    event_type: str
    ended: bool
    noted: bool
    """Whether it is noted apart and belongs to the operation around it."""
    columns: tuple[tuple[str, str], ...]
    """Columns that it has, each with its attribute."""
    digest: tuple[str, str] | None
    """Of a tool: the value that it has, and the attribute of its digest."""


@functools.cache
def _shape(kind: type[Fact]) -> _Shape:
    event_type, _, half = kind.model_fields["fact"].default.partition(".")
    names = {**_COLUMNS, **(_DECISION if kind is PolicyNoted else {})}
    known = tuple((column, name) for column, name in names.items() if column in kind.model_fields)
    side = "observation" if half == "ended" else "argument"
    tool = issubclass(kind, (ToolCallBegun, ToolCallEnded))
    return _Shape(
        event_type,
        half == "ended",
        kind in (EvidenceNoted, StateNoted),
        known,
        (side, f"tracekit.tool.{side}.digest") if tool else None,
    )


def _request(request: Mapping[str, JsonValue]) -> dict[str, Any]:
    longest = request.get("max_completion_tokens", request.get("max_output_tokens"))
    given = {"max_tokens": longest, **request}
    attributes = _asked_for(request)
    for name, kind in _REQUEST.items():
        value = given.get(name)
        if isinstance(value, bool) == (kind is bool) and isinstance(value, (kind, int)):
            attributes[f"gen_ai.request.{name}"] = kind(value)
    stop = request.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if isinstance(stops, list) and stops and all(isinstance(word, str) for word in stops):
        attributes["gen_ai.request.stop_sequences"] = tuple(stops)
    return attributes


def _asked_for(request: Mapping[str, JsonValue]) -> dict[str, Any]:
    """How many answers of which type, and the conversation that they go on with."""
    attributes: dict[str, Any] = {}
    count = request.get("n")
    if type(count) is int and count != 1:
        attributes["gen_ai.request.choice.count"] = count
    form = request.get("response_format") or object_of(request.get("text")).get("format")
    if isinstance(kind := object_of(form).get("type"), str):
        attributes["gen_ai.output.type"] = "json" if kind.startswith("json") else kind
    conversation = request.get("conversation")
    known = object_of(conversation).get("id", conversation)
    if isinstance(known, str):
        attributes["gen_ai.conversation.id"] = known
    return attributes


def _response(response: Mapping[str, JsonValue]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    whole = "choices" in response or response.get("object") == "response"
    if isinstance(response.get("id"), str) and whole:
        attributes["gen_ai.response.id"] = response["id"]
    choices = response.get("choices")
    given = [object_of(choice).get("finish_reason") for choice in listed(choices)]
    if response.get("object") == "response":
        given = [_why_over(response)]
    reasons = [_REASONS.get(reason, reason) for reason in given if isinstance(reason, str)]
    if reasons:
        attributes["gen_ai.response.finish_reasons"] = tuple(reasons)
    return attributes


_REASONS = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "max_output_tokens": "length",
    "failed": "error",
}


def _why_over(response: Mapping[str, JsonValue]) -> JsonValue:
    """Why a reply of the Responses API ends where it does, which it says in several places."""
    status = response.get("status")
    if status == "completed":
        kinds = [object_of(item).get("type") for item in listed(response.get("output"))]
        return "tool_call" if {"function_call", "custom_tool_call"} & {*map(str, kinds)} else "stop"
    return object_of(response.get("incomplete_details")).get("reason") or status


def server_of(url: str) -> dict[str, Any]:
    """Which server an address names."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return {}
    if not host:
        return {}
    return {"server.address": host, **({} if port is None else {"server.port": port})}


_PORTS = {"http": 80, "https": 443}


def _content(
    kind: type[Fact], said: Mapping[str, Any], value: JsonValue
) -> Iterator[tuple[str, JsonValue]]:
    if kind is LlmCallBegun:
        request = object_of(value)
        if not isinstance(request.get("messages"), list):
            request = {"messages": [{"role": "user", "content": json_text(value)}]}
        yield "gen_ai.input.messages", from_chat(request["messages"])
        if system := system_of(request):
            yield "gen_ai.system_instructions", system
        if tools := definitions(request.get("tools")):
            yield "gen_ai.tool.definitions", tools
    elif kind is ToolCallBegun:
        yield "gen_ai.tool.call.arguments", value
    elif said.get("status") == "error":
        return  # what came of it is the error
    elif kind is LlmCallEnded:
        yield "gen_ai.output.messages", from_chat(reply_of(value))
    elif kind is ToolCallEnded:
        yield "gen_ai.tool.call.result", value


def as_text(content: Mapping[str, JsonValue]) -> dict[str, str]:
    """Content as it stands on spans: as JSON text, which every reader takes."""
    return {name: json_text(value) for name, value in content.items()}
