"""The Responses wire form: streams put together, and replies taken apart into streams.

The counterpart of ``chat`` for ``/responses``, and as pure. A reply is a list of items here, and
its stream tells each item's life; a rebuilt stream tells the same lives, a few words at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue, json_text
from tracekit.errors import NotReplayable
from tracekit.integrations import chat

_ENDS = ("completed", "incomplete", "failed")
_PIECES = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
"""Event → field of an item that it continues."""
_PART_PIECES = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
"""Event → field of a part of a message that it continues."""


@dataclass
class Accumulator:
    """Events of one stream, put together to the response that would have been sent whole."""

    _head: dict[str, Any] = field(default_factory=dict)
    _items: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in the next event."""
        kind, place = event.get("type"), event.get("output_index", 0)
        if isinstance(event.get("response"), Mapping):
            self._head = dict(event["response"])
        elif isinstance(event.get("item"), Mapping):
            self._items[place] = dict(event["item"])
        elif kind == "error":
            self._head["error"] = {n: event.get(n) for n in ("code", "message", "param")}
        elif kind in _PIECES:
            _continue(self._items.setdefault(place, {}), _PIECES[kind], event)
        else:
            self._add_part(kind, self._items.setdefault(place, {}), event)

    def _add_part(self, kind: object, item: dict[str, Any], event: Mapping[str, Any]) -> None:
        index = event.get("content_index")
        if not isinstance(index, int) or not (kind in _PART_PIECES or "part" in event):
            return
        parts = item["content"] = [*(item.get("content") or [])]
        parts += [{} for _ in range(index + 1 - len(parts))]
        if isinstance(event.get("part"), Mapping):
            parts[index] = dict(event["part"])
        elif isinstance(kind, str) and kind in _PART_PIECES:
            _continue(parts[index], _PART_PIECES[kind], event)

    def response(self) -> dict[str, JsonValue]:
        """The response so far."""
        output = self._head.get("output") or [item for _, item in sorted(self._items.items())]
        return {**self._head, "output": output}


def _continue(known: dict[str, Any], name: str, event: Mapping[str, Any]) -> None:
    known[name] = f"{known.get(name) or ''}{event.get('delta') or ''}"


def as_response(reply: object, *, model: str) -> dict[str, Any]:
    """A whole response, made from a reply that may be one, an assistant message, or a text.

    Raises:
        NotReplayable: it is none of them.
    """
    if isinstance(reply, dict) and isinstance(reply.get("output"), list):
        return reply
    try:
        message = chat.as_response(reply, model=model)["choices"][0]["message"]
    except NotReplayable as error:
        raise NotReplayable(
            f"a Responses request cannot be answered with a value of type {type(reply).__name__}",
            hint="give a response of that API, an assistant message or a text",
        ) from error
    return {
        "id": "resp_replayed",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": list(_items_of(message)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _items_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if content := message.get("content"):
        text = content if isinstance(content, str) else json_text(content)
        part = {"type": "output_text", "text": text, "annotations": []}
        yield {
            "id": "msg_replayed",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        yield {
            "id": f"fc_{call['id']}",
            "type": "function_call",
            "call_id": call["id"],
            "name": function.get("name", ""),
            "arguments": function.get("arguments", ""),
            "status": "completed",
        }


Cut = Callable[[Any], list[Any]]
"""Cuts a text into the pieces in which it is told."""


def events(response: Mapping[str, Any], cut: Cut = chat.pieces) -> Iterator[dict[str, Any]]:
    """Take a response apart into the events of a stream, not numbered yet."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, item in enumerate(response.get("output") or []):
        where = {"output_index": place}
        emptied, life = _life(item, cut)
        yield {"type": "response.output_item.added", **where, "item": emptied}
        for event in life:
            yield {"item_id": item.get("id"), **where, **event}
        yield {"type": "response.output_item.done", **where, "item": item}
    status = response.get("status")
    end = status if status in _ENDS else "completed"
    yield {"type": f"response.{end}", "response": dict(response)}


def _life(item: Mapping[str, Any], cut: Cut) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """An item as it is announced, and what is told of it until it is done."""
    match item.get("type"):
        case "message":
            return {**item, "status": "in_progress", "content": []}, _parts(item, cut)
        case "function_call":
            told = _piecewise("function_call_arguments", "arguments", item)
            return {**item, "status": "in_progress", "arguments": ""}, told
        case "custom_tool_call":
            return {**item, "input": ""}, _piecewise("custom_tool_call_input", "input", item)
        case _:
            return dict(item), iter(())


def _piecewise(event: str, name: str, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = item.get(name) or ""
    yield {"type": f"response.{event}.delta", "delta": text}
    done = {"type": f"response.{event}.done", name: text}
    yield {**done, "name": item.get("name")} if name == "arguments" else done


def _parts(item: Mapping[str, Any], cut: Cut) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(item.get("content") or []):
        where = {"content_index": index}
        name = "refusal" if part.get("type") == "refusal" else "text"
        event = "refusal" if name == "refusal" else "output_text"
        more: dict[str, Any] = {} if name == "refusal" else {"logprobs": part.get("logprobs") or []}
        text = part.get(name) or ""
        yield {"type": "response.content_part.added", **where, "part": {**part, name: ""}}
        for number, piece in enumerate(cut(text)):
            told = {name: [] for name in more} if number else more  # of the whole text, once
            yield {"type": f"response.{event}.delta", **where, "delta": piece, **told}
        yield {"type": f"response.{event}.done", **where, name: text, **more}
        yield {"type": "response.content_part.done", **where, "part": part}


def event_stream(response: Mapping[str, Any], *, usage: bool) -> str:
    """A response as the text of an event stream; ``usage`` is in the last event in any case."""
    return _lines(events(response))


def _lines(told: Iterable[Mapping[str, Any]]) -> str:
    return "".join(
        f"event: {event['type']}\ndata: {json_text({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(told)
    )


def begun_stream(response: Mapping[str, Any], *, pieces: int) -> str:
    """The beginning of such a text, as far as ``response`` goes, in so many events.

    Who counts them finds as many as the recorded reader did, if a text can be cut into so many.
    """
    sent = list(_begun(response, lambda text: [text]))
    texts = sum(str(event["type"]).endswith(".delta") for event in sent)
    more = pieces - len(sent)
    if texts and (more > 0 or not pieces):
        cut = (lambda t: chat.cut(t, 1 + more // texts)) if pieces else (lambda t: chat.words(t, 1))
        sent = list(_begun(response, cut))
    return _lines(sent)


def _begun(response: Mapping[str, Any], cut: Cut) -> Iterator[dict[str, Any]]:
    """The events until what came last; what is not completed has no end."""
    items = response.get("output") or []
    if "id" not in response and not items:
        return
    ended = bool(items) and items[-1].get("status") in _ENDS
    for event in events(response, cut):
        kind, last = str(event["type"]), event.get("output_index") == len(items) - 1
        if kind.removeprefix("response.") in _ENDS or (last and not ended and ".done" in kind):
            return
        yield event


def is_whole(response: JsonValue, request: Mapping[str, Any]) -> bool:
    """Whether ``response`` is all that was to come for ``request``: its status says so."""
    return isinstance(response, dict) and response.get("status") in _ENDS


def ended_columns(response: JsonValue) -> dict[str, Any]:
    """Columns of a model call that its response fills."""
    return chat.ended_columns(response, asked="input_tokens", told="output_tokens")
