"""Frames on the pipe: whole, bounded, JSON."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.isolation.protocol import (
    MAX_NOTES,
    FrameReader,
    PipeChannel,
    ProtocolError,
    encode,
    read_message,
)

LIMIT = 1 << 20
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5)


@given(messages=MESSAGES, cuts=st.lists(st.integers(1, 40)))
def test_messages_come_back_however_the_stream_is_cut(
    messages: list[dict[str, Any]], cuts: list[int]
) -> None:
    stream = b"".join(encode(message, limit=LIMIT) for message in messages)
    reader, back = FrameReader(LIMIT), []
    for size in cuts:
        back += list(reader.feed(stream[:size]))
        stream = stream[size:]
    back += list(reader.feed(stream))
    assert back == messages
    assert reader.held() == b""


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", 2**64, "\ud800"])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        encode({"x": value}, limit=LIMIT)


def test_a_message_beyond_the_limit_is_refused_at_either_end() -> None:
    frame = encode({"x": "y" * 100}, limit=LIMIT)
    with pytest.raises(ProtocolError, match="a message of 108 bytes; the limit is 50"):
        encode({"x": "y" * 100}, limit=50)
    with pytest.raises(ProtocolError, match="a message of 108 bytes; the limit is 50"):
        list(FrameReader(50).feed(frame[:4]))


@pytest.fixture
def ends() -> Any:
    """A channel, and the parent's ends of its pipes."""
    child_reads, parent_writes = os.pipe()
    parent_reads, child_writes = os.pipe()
    yield PipeChannel(child_reads, child_writes, limit=LIMIT), parent_reads, parent_writes
    for descriptor in (child_reads, parent_writes, parent_reads, child_writes):
        os.close(descriptor)


def test_a_note_waits_while_the_pipe_is_in_use_and_comes_before_what_follows(ends: Any) -> None:
    channel, reads, writes = ends
    asking = threading.Thread(target=channel.ask, args=({"a": 1},))
    asking.start()
    assert read_message(reads, limit=LIMIT) == {"q": 1, "m": {"a": 1}}
    channel.note({"noted": True})
    os.write(writes, encode({"q": 1, "m": {}}, limit=LIMIT))
    asking.join()
    channel.tell({"b": 2})
    assert [read_message(reads, limit=LIMIT) for _ in range(2)] == [
        {"m": {"noted": True}},
        {"m": {"b": 2}},
    ]


def test_notes_beyond_the_limit_are_counted(ends: Any) -> None:
    channel, reads, _ = ends
    for _ in range(MAX_NOTES + 5):
        channel.note({})
    channel.finish({"done": {}})
    for _ in range(MAX_NOTES):
        assert read_message(reads, limit=LIMIT) == {"m": {}}
    assert read_message(reads, limit=LIMIT) == {
        "m": {"finding": {"kind": "uncounted", "what": "5 more attempts"}}
    }
    assert read_message(reads, limit=LIMIT) == {"done": {}}


def test_an_answer_to_another_question_is_refused(ends: Any) -> None:
    channel, _, writes = ends
    os.write(writes, encode({"q": 7, "m": {}}, limit=LIMIT))
    with pytest.raises(ProtocolError, match="an answer to another question: 7"):
        channel.ask({})
