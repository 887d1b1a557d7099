"""Data in memory that is read like a file is kept as data, and reading it takes nothing out."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit.canonical import decode, encode
from tracekit.redact import KeyedTagger, Redactor, Rules


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


@pytest.mark.parametrize("newline", ["\n", "", "\r\n", "\r", None])
def test_a_text_buffer_comes_back_with_what_it_takes_for_the_end_of_a_line(newline: Any) -> None:
    buffer = io.StringIO("a\rb\r\nc\n", newline=newline)
    buffer.write("x\n")
    again: Any = decode(encode(buffer))
    for one in (buffer, again):
        one.write("y\n")
        one.seek(0)
    assert again.readlines() == buffer.readlines()
    assert again.getvalue() == buffer.getvalue()


@pytest.mark.parametrize("make", [io.BytesIO, io.StringIO])
def test_a_buffer_comes_back_with_the_attributes_that_it_was_given(make: Any) -> None:
    buffer = make()
    buffer.name, buffer.pages = "report.csv", (1, 2)
    again: Any = decode(encode({"file": buffer}))
    assert vars(again["file"]) == {"name": "report.csv", "pages": (1, 2)}
    buffer.itself = buffer
    assert not encode(buffer).replayable


def test_a_place_behind_the_end_and_a_place_in_what_is_redacted_come_back() -> None:
    buffer = io.BytesIO(b"a secret")
    buffer.seek(99)
    again: Any = decode(encode(buffer))
    assert again.tell() == 99
    buffer.seek(4)
    own = Redactor(Rules.from_user(["customer"]), KeyedTagger(b"k" * 20))
    kept = encode({"customer": buffer})
    hidden = replace(kept, value=own.redact(kept.value).value)
    found: Any = decode(hidden)
    assert found["customer"].tell() == 4
    assert b"secret" not in found["customer"].getvalue().removeprefix(b"redacted-secret-")


def test_a_view_of_bytes_comes_back_and_can_be_written_to_where_it_could() -> None:
    assert decode(encode(memoryview(b"abcdef")[1::2])) == memoryview(b"bdf")
    for content in (b"abc", bytearray(b"abc")):
        again: Any = decode(encode([memoryview(content)]))
        assert again[0] == memoryview(content)
        assert again[0].readonly == memoryview(content).readonly


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
