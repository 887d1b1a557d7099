"""Policies as they are written on a command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replay.matching import (
    ArgumentMap,
    parse_ignore,
    parse_map,
    parse_unmatched,
    parse_window,
)
from tracekit.errors import UsageError


def test_a_map_renames_a_tool_and_an_argument() -> None:
    assert parse_map("old.tool:/arg=new.tool:/arg/0") == ArgumentMap(
        "old.tool", "new.tool", "/arg", "/arg/0"
    )
    assert parse_map("old=new") == ArgumentMap("old", "new")


def test_a_place_is_a_tool_and_a_pointer() -> None:
    assert parse_ignore("svc:tool:/a/b~1c") == ("svc:tool", "/a/b~1c")


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("90", 90), ("1.5m", 90), ("2h", 7200), ("250ms", 0.25)]
)
def test_a_window_has_a_unit(text: str, seconds: float) -> None:
    assert parse_window(f"loki.query:/from={text}") == ("loki.query", "/from", seconds)


def test_a_policy_is_for_all_calls_or_for_a_tool_or_an_effect() -> None:
    assert parse_unmatched("stop") == ("*", "stop")
    assert parse_unmatched("read=nearest") == ("read", "nearest")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_map, "old"),
        (parse_map, "old:/a=new"),
        (parse_map, "=new"),
        (parse_ignore, "tool"),
        (parse_ignore, ":/a"),
        (parse_window, "tool:/a"),
        (parse_window, "tool:/a=soon"),
        (parse_window, "tool=5s"),
        (parse_unmatched, "read=guess"),
        (parse_unmatched, ""),
    ],
)
def test_what_is_not_understood_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
