"""Data in memory that is read like a file is kept as data, and reading it takes nothing out."""

from __future__ import annotations

import io
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit.canonical import decode, encode


@pytest.mark.parametrize(
    "make",
    [
        lambda: io.BytesIO(b"A-17,42"),
        lambda: io.StringIO("A-17,42\r\nÄ\n"),
        lambda: io.BytesIO(),
    ],
)
@pytest.mark.parametrize("read", [0, 3])
def test_a_buffer_comes_back_with_its_content_and_its_place(make: Any, read: int) -> None:
    buffer = make()
    buffer.read(read)
    place = buffer.tell()
    kept = encode({"body": buffer})
    assert kept.replayable
    assert buffer.tell() == place
    again: Any = decode(kept)
    assert type(again["body"]) is type(buffer)
    assert again["body"].tell() == place
    assert again["body"].getvalue() == buffer.getvalue()


def test_what_is_left_to_read_tells_buffers_apart() -> None:
    whole, partly, other = io.BytesIO(b"ab"), io.BytesIO(b"ab"), io.BytesIO(b"cd")
    partly.read(1)
    assert len({str(encode(buffer).value) for buffer in (whole, partly, other)}) == 3


def test_a_view_of_bytes_comes_back() -> None:
    kept = encode(memoryview(b"abcdef")[1::2])
    assert decode(kept) == memoryview(b"bdf")


def test_a_buffer_that_is_closed_or_more_than_one_is_described() -> None:
    class Log(io.StringIO):
        pass

    closed = io.BytesIO(b"x")
    closed.close()
    assert not encode(closed).replayable
    assert not encode(Log("x")).replayable


def test_a_view_that_was_released_is_described_wherever_it_stands() -> None:
    def released() -> memoryview:
        with memoryview(b"abc") as view:
            return view

    for value in (released(), [released()], {"a": (released(),)}):
        assert not encode(value).replayable
    give = tracekit.tool(effect="write", name="give")(released)
    each = tracekit.tool(effect="write", name="each")(lambda: iter([released()]))
    with recording() as recorded, tracekit.run():
        give()
        list(each())
    assert [row.observation_state for row in recorded.rows("tool_call")] == ["truncated"] * 2
    assert recorded.recorder.lost == 0
