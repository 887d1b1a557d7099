"""The text of an error holds addresses of objects, which are ids and no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.diff.content import identical
from tests.diff.building import compare, kinds, read, run, write
from tracekit.canonical import JsonValue
from tracekit.errortexts import without_addresses
from tracekit.trajectory import Observation, Trajectory

RETRIES = (
    "Max retries exceeded (Caused by NewConnectionError('<urllib3.Conn object at {}>: refused'))"
)


def failed(text: str, value: JsonValue = None) -> Observation:
    kept: JsonValue = {"type": "ConnectionError", "message": text, "args": [text], "seen": value}
    return Observation(kept, "captured", {}, True, "ConnectionError", text)


def failing(text: str) -> Trajectory:
    """Write a run in which a read, a write and the whole fail with one text."""
    calls = [replace(call, observation=failed(text)) for call in (read("get"), write("pay"))]
    return replace(run(*calls, status="error"), answer=failed(text, [{"trace": text}]))


def test_the_same_agent_recorded_twice_is_the_same_though_its_errors_name_addresses() -> None:
    one, two = (failing(RETRIES.format(at)) for at in ("0x7f126b276ad0", "0x7f126b296B90"))
    assert compare(one, two).same
    assert identical(one, two)
    assert failed(RETRIES.format("0x7f12")).error_message == RETRIES.format("0x7f12")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (RETRIES.format("0x7f12"), RETRIES.format("0x7f13").replace("refused", "timed out")),
        (RETRIES.format("0x7f12"), RETRIES.format("0x7f13").replace("Conn ", "Pool ")),
        ("segmentation fault at 0x7f12", "segmentation fault at 0x7f13"),
        ("write at 0x40021000 -> reset", "write at 0x40021004 -> reset"),
        ("<a> failed at 0x7f12 in <b>", "<a> failed at 0x7f13 in <b>"),
    ],
)
def test_another_text_is_a_difference(one: str, two: str) -> None:
    assert kinds(compare(failing(one), failing(two)))[:1] == [("changed_observation", "get")]


def test_what_came_back_is_compared_with_its_addresses() -> None:
    one, two = (run(read("get", {}, f"<Conn object at {at}>")) for at in ("0x7f12", "0x7f13"))
    assert not compare(one, two).same


@pytest.mark.parametrize(
    "text",
    [
        "<a.C object at 0x{}>",
        "<function C.f.<locals>.<lambda> at 0x{}> took 2",
        "<bound method C.m of <C object at 0x{}>>",
        "<partial of <bound method C.m of <C object at 0x{}>>>",
        "<cell at 0x{}: int object at 0x{}>",
        "<Future at 0x{} state=pending>",
        '<code object <module> at 0x{}, file "<string>", line 1>',
        "x < y: <C at 0x{}> and <C at 0x{}>",
    ],
)
def test_addresses_are_found_in_whatever_way_an_object_is_named(text: str) -> None:
    assert without_addresses(text.replace("{}", "000001F2aB")) == text.replace("{}", "…")


def test_a_hostile_text_is_looked_through_once() -> None:
    for text in ("<a" * 50_000, "<a at 0x1 " * 20_000, "<" * 100_000, "<a" + "<b>" * 50_000):
        assert without_addresses(f" at 0x1{text}") == f" at 0x1{text}"
