"""The messages that a planner gets back: what a call is answered, in the words of the pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from replay.isolation.protocol import ProtocolError
from replay.matching import Answer
from tracekit.canonical import JsonValue, json_text
from tracekit.canonical.plain import Plain
from tracekit.contract import EFFECTS
from tracekit.events import Effect
from tracekit.redact import Redactor
from tracekit.trajectory import Observation


class Announced(NamedTuple):
    """A call that the planner's process tells of and asks about in one message."""

    kind: Literal["tool_call", "retrieval"]
    actor: str
    effect: Effect
    span_id: str
    parent_span_id: str
    timestamp_ns: int
    contract: str
    """The digest that names it; its text comes with the first call of a tool."""


class Given(NamedTuple):
    """What the end of an answered call is recorded with, in place of what the planner says."""

    observation: Observation | None
    """None where only the planner's side knows what came back."""
    fields: Mapping[str, Any]


_TYPES = (str, str, str, str, str, int, str)


def announced(message: Mapping[str, Any]) -> Announced:
    """Read the message of such a call; what came through a pipe is the planner's, and is checked.

    Raises:
        ProtocolError: it is none.
    """
    try:
        call = Announced(*message["call"])
    except TypeError:
        raise ProtocolError("a call with other fields than a call has") from None
    argument = type(message.get("argument"))
    if argument is Plain:  # which no pipe can bring: it was made in this process
        return call
    texts = argument is str and type(message.get("contract", "")) is str
    sound = texts and tuple(map(type, call)) == _TYPES
    if (
        not sound
        or not _are_ids(call.span_id, call.parent_span_id)
        or call.kind not in _CALLS
        or call.effect not in EFFECTS
    ):
        raise ProtocolError("a call that is none")
    return call


_CALLS = ("tool_call", "retrieval")


def _are_ids(one: str, other: str) -> bool:
    both = one + other
    return len(one) > 0 and len(other) > 0 and both.isascii() and both.isalnum()


def tool_message(call_id: str, tool: str, seen: Observation) -> dict[str, JsonValue]:
    """The message by which a deciding planner learns what a call came back with."""
    message: dict[str, JsonValue] = {
        "role": "tool",
        "tool_call_id": call_id,
        "name": tool,
        "content": seen.value,
    }
    if seen.is_error:
        kind = seen.error_type or "error"
        message["error"] = f"{kind}: {seen.error_message}" if seen.error_message else kind
    return message


def assistant_message(decision: Mapping[str, Any], number: int) -> dict[str, JsonValue]:
    """The message that a deciding planner's decision comes to."""
    calls: list[JsonValue] = [
        {"id": f"call_{number}_{place}", "name": call["tool"], "arguments": call["arguments"]}
        for place, call in enumerate(decision["calls"])
    ]
    spoken: dict[str, JsonValue] = {"role": "assistant", "content": decision["message"]}
    return {**spoken, "tool_calls": calls} if calls else spoken


def provider_message(spoken: Mapping[str, Any]) -> JsonValue:
    """The same message in the shape of model replies, as imported and recorded runs keep it."""
    calls: Sequence[Any] = spoken.get("tool_calls") or ()
    message: dict[str, JsonValue] = {"role": "assistant", "content": spoken["content"]}
    if calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json_text(call["arguments"])},
            }
            for call in calls
        ]
    return message


def reply(answer: Answer, latency_ns: int, *, tool: str, effect: str) -> dict[str, Any]:
    """The message that tells the planner's process what a call is answered."""
    seen = answer.observation or Observation(is_error=True, error_type="not_answered")
    said = {
        "value": seen.value,
        "types": dict(seen.types),
        "fields": {"rung": answer.rung, "tainted": answer.tainted},
        "latency_ns": latency_ns,
    }
    if not seen.is_error:
        return {"do": "return", **said}
    return {
        "do": "raise",
        **said,
        "error_type": seen.error_type or "error",
        "error_message": seen.error_message,
        "tool": tool,
        "effect": effect,
    }


def is_plain(seen: Observation) -> bool:
    """Whether the planner's side has nothing to do with what came back but to hand it on."""
    return seen.state == "captured" and not seen.is_error and not seen.types


def refusal(why: str) -> dict[str, Any]:
    """The message that refuses a call that no answerer was asked about."""
    return {
        "do": "raise",
        "value": None,
        "error_type": "tracekit.errors.WriteBlocked",
        "error_message": why,
        "tool": "call",
        "effect": "unknown",
        "fields": {},
    }


def proposed_reply(said: Mapping[str, Any], redactor: Redactor) -> Observation:
    """What a scripted model would have said: ``value``, or ``error`` and ``message``."""
    if "error" in said:
        message = str(redactor.redact(said["message"]).value)
        return Observation(is_error=True, error_type=str(said["error"]), error_message=message)
    return Observation(redactor.redact(said["value"]).value, "captured")
