"""Replies of chat completions are taken apart into streams and put together again, whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.errors import NotReplayable
from tracekit.integrations.chat import (
    Accumulator,
    EventLines,
    as_response,
    as_sent,
    chunks,
    ended_columns,
    event_stream,
)

_TEXT = st.text(max_size=12)
_CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": _TEXT,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": _TEXT, "arguments": _TEXT}),
        }
    ),
    min_size=1,
    max_size=3,
)
_MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | _TEXT},
    optional={"tool_calls": _CALLS, "reasoning_content": _TEXT},
)
_REASONS = st.none() | st.sampled_from(["stop", "length", "tool_calls"])


@st.composite
def _responses(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "id": draw(_TEXT),
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": place, "message": draw(_MESSAGES), "finish_reason": draw(_REASONS)}
            for place in range(draw(st.integers(1, 3)))
        ],
        "usage": {"prompt_tokens": draw(st.integers(0, 9))},
    }


@given(_responses())
def test_a_response_survives_being_streamed(response: dict[str, Any]) -> None:
    seen = Accumulator()
    for chunk in chunks(response, usage=True):
        seen.add(chunk)
    assert seen.response() == response


@given(_responses(), st.integers(1, 40))
def test_an_event_stream_is_read_however_its_bytes_are_cut(
    response: dict[str, Any], size: int
) -> None:
    data = event_stream(response, usage=True).encode()
    lines, seen = EventLines(), Accumulator()
    for start in range(0, len(data), size):
        for chunk in lines.feed(data[start : start + size]):
            seen.add(chunk)
    assert seen.response() == response


def test_arguments_of_parallel_calls_are_joined_by_their_index() -> None:
    seen = Accumulator()
    for index, text in ((0, '{"a"'), (1, '{"b"'), (0, ":1}"), (1, ":2}")):
        call = {"index": index, "function": {"arguments": text}}
        seen.add({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    message: Any = seen.response()["choices"]
    calls = message[0]["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"a":1}', '{"b":2}']


def test_a_line_of_a_stream_that_is_no_json_says_nothing() -> None:
    assert list(EventLines().feed(b'data: {"a"\n\ndata: 3\n: ping\ndata: {}\n')) == [{}]


@pytest.mark.parametrize("reply", [None, 3, [], {}, {"role": "assistant"}])
def test_what_is_no_reply_is_refused(reply: object) -> None:
    with pytest.raises(NotReplayable):
        as_response(reply, model="m")


def test_what_the_client_derives_is_left_out() -> None:
    parsed: Any = {"content": "{}", "parsed": {"a": 1}, "tool_calls": None}
    assert as_sent([parsed, {"tool_calls": None}]) == [{"content": "{}"}, {"tool_calls": None}]


def test_usage_fills_its_columns_where_it_fits_them() -> None:
    usage: Any = {
        "prompt_tokens": 5,
        "completion_tokens": "many",
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
        "completion_tokens_details": ["none"],
    }
    assert ended_columns({"model": "m", "usage": usage}) == {
        "model": "m",
        "usage_input": 5,
        "usage_cache_read": 3,
        "usage_cache_write": 1,
        "usage_raw": usage,
    }
    assert ended_columns({"usage": None}) == ended_columns("no response") == {}
