"""Patterns that can take for ever are told from those that only look so."""

from __future__ import annotations

import pytest

from replay.caserun.slowness import may_hang


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        r"(\w+\s?)+$",
        "(a*)*b",
        "(?:(a|b+))*c",
        r"(\s*\w+)*!",
        "x((y)?z*){3,}",
        "(?i:a+)+?b",
        "(?=(a+)+b)",
        "(?P<n>.+)+x",
    ],
)
def test_a_repetition_of_a_repetition_may_take_for_ever(pattern: str) -> None:
    assert may_hang(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)pool",
        r"(\d+,)*\d+",
        "(ab?)+",
        "(a+b+)+",
        "(a+)?b",
        "(a+){2,5}",
        "(?>a+)+",
        "(a++)+",
        r"(\ba+\b)+x",
        "[(a+)+]",
        r"^\w+(\.\w+)*$",
        "(a|b)*",
    ],
)
def test_what_ends_each_round_with_something_else_does_not(pattern: str) -> None:
    assert not may_hang(pattern)
