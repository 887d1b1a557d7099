"""The list that grows is found wherever a request has it, and hashed as the whole request is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.test_chains import JSON, STEP, TOOLS, Kept, same, turn
from tracekit.canonical import canonical_bytes, json_bytes, parse_json
from tracekit.chains import MEDIA_TYPE, read_link
from tracekit.events import Blob
from tracekit.growing import alone, find_list, frame, with_list, written
from tracekit.redact import Redactor, Rules, UnkeyedTagger

Spell = Callable[[list[Any]], dict[str, Any]]


def chat(messages: list[Any]) -> dict[str, Any]:
    return {"model": "m", "messages": messages, "tools": TOOLS}


def responses(messages: list[Any]) -> dict[str, Any]:
    items = [{"type": "message", **m} if isinstance(m, dict) else m for m in messages]
    return {"input": items, "instructions": "Be brief.", "model": "m", "tools": TOOLS}


def responses_of_the_end(messages: list[Any]) -> dict[str, Any]:
    return {**responses(messages), "previous_response_id": "resp_1"}


def anthropic(messages: list[Any]) -> dict[str, Any]:
    spelt = [_in_parts(m) for m in messages]
    return {"system": [{"type": "text", "text": "Be brief."}], "messages": spelt, "max_tokens": 9}


def _in_parts(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    return {**message, "content": [{"type": "text", "text": message.get("content")}]}


def gemini(messages: list[Any]) -> dict[str, Any]:
    said = [
        {"role": m.get("role"), "parts": [{"text": m.get("content")}]} if type(m) is dict else m
        for m in messages
    ]
    return {"model": "m", "contents": said, "tools": [{"functionDeclarations": TOOLS}]}


def a_function_of_the_users(messages: list[Any]) -> dict[str, Any]:
    return {"question": "why?", "the history": messages, "tools": TOOLS}


def an_object_inside(messages: list[Any]) -> dict[str, Any]:
    return {"request": {"z": 1, "messages": messages, "a": [1], "é": TOOLS}, "b": None}


SPELLINGS = [
    chat, responses, responses_of_the_end, anthropic, gemini, a_function_of_the_users,
    an_object_inside,
]  # fmt: skip


@pytest.mark.parametrize("spell", SPELLINGS)
@settings(max_examples=60)
@given(steps=st.lists(STEP, max_size=12))
def test_any_sequence_of_requests_of_any_shape_comes_back_exactly(
    spell: Spell, steps: list[Any]
) -> None:
    kept = Kept(Redactor(Rules(builtin=False), UnkeyedTagger()))
    messages: list[Any] = []
    said = []
    for step in steps:
        match step:
            case "add", more:
                messages += more
            case "edit", at, message if messages:
                messages[at % len(messages)] = message
            case "cut", at if messages:
                del messages[at % len(messages)]
            case "change", at, value if messages and isinstance(messages[at % len(messages)], dict):
                messages[at % len(messages)]["content"] = value
        request = copy.deepcopy(spell(messages))
        if find_list(request) is not None:
            said.append((kept.say(request), copy.deepcopy(request)))
    for prompt, request in said:
        same(kept, prompt, request)


@pytest.mark.parametrize("spell", SPELLINGS)
def test_only_what_is_new_is_written_whatever_the_shape(spell: Spell) -> None:
    kept = Kept()
    messages: list[Any] = []
    for number in range(200):
        messages += turn(number)
        request = spell(messages)
        said = kept.say(request)
        if number % 40 == 39:
            same(kept, said, request)
    assert max(kept.written[1:20]) * 1.2 >= max(kept.written[180:])


ITEMS = st.sampled_from(
    [
        {"role": "user", "content": "hello"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x" * 300},
        {"type": "reasoning", "id": "r", "summary": []},
        {"role": "system", "content": "be brief"},
        "odd",
    ]
)


@settings(max_examples=150)
@given(st.lists(st.lists(ITEMS, min_size=1, max_size=3), max_size=8), st.booleans())
def test_the_turns_of_a_responses_conversation_hash_as_the_whole_does(
    turns: list[list[Any]], instructed: bool
) -> None:
    kept = Kept()
    items: list[Any] = []
    for more in turns:
        items += copy.deepcopy(more)
        request = {"model": "m", "input": items}
        if instructed:
            request["instructions"] = "You are brief. " * 30
        same(kept, kept.say(request), request)


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        ({"messages": [], "history": [{"role": "user"}]}, ("messages",)),
        ({"model": "m", "input": [], "include": ["a", "b"]}, ("input",)),
        ({"model": "m", "input": "text", "include": ["a", "b"]}, None),
        ({"tools": [{"name": "t"}], "chat": [{"role": "user"}]}, ("chat",)),
        ({"few": [{"a": 1}], "chat": [{"role": "user"}]}, ("chat",)),
        ({"a": ["x"], "b": ["x", "y"]}, ("b",)),
        ({"vector": [1.0, 2.0]}, None),
        ({"body": {"contents": [{"parts": []}]}}, ("body", "contents")),
        ({"a": {"b": {"c": {"d": [{"role": "user"}]}}}}, None),
        ({"broad": {str(n): [{"role": "user"}] for n in range(99)}}, None),
        ({"question": "why"}, None),
    ],
)
def test_the_list_that_grows_is_told_from_those_that_do_not(
    request_: dict[str, Any], path: tuple[str, ...] | None
) -> None:
    assert find_list(request_) == path


@given(
    st.dictionaries(st.text(max_size=3), JSON, max_size=4),
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
    st.lists(JSON, max_size=3),
)
def test_a_request_is_its_frame_and_its_items(
    around: dict[str, Any], names: list[str], items: list[Any]
) -> None:
    path, inner = tuple(names), alone(tuple(names), items)
    request = {**around, path[0]: inner[path[0]]}
    rest = with_list(request, path, None)
    before, after = frame(request, path)
    middle = b",".join(canonical_bytes(item) for item in items)
    assert before + middle + after == canonical_bytes(request)
    assert json_bytes(parse_json(written(rest, path, json_bytes(items)))) == json_bytes(request)
    assert json_bytes(with_list(rest, path, items)) == json_bytes(request)


def test_a_link_that_says_no_place_is_damaged() -> None:
    for at in (b"[]", b"[1]", b'"messages"', b"null"):
        data = b'{"append": [], "rest": {"messages": null}, "at": ' + at + b"}"
        assert read_link(Blob(digest="sha256:1", media_type=MEDIA_TYPE, data=data)) is None
