"""Pairs of which nothing differs are seen as such without an alignment, mostly without a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.diff import content, diff
from replay.diff.content import content_digest, identical
from tests.diff.building import read, run
from tracekit.trajectory import Trajectory

_LEAVES = st.sampled_from([True, 1, 1.0, False, 0, -0.0, None, "1", "", 2**60, float(2**60)])
VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


def _with(value: Any) -> Trajectory:
    return run(read("get", {"q": value}, value), answer=value)


@given(VALUES, VALUES)
@example(2**60, float(2**60))
@example(2**60, str(2**60))
@example(2**60, 2**60 + 1)
def test_what_is_identical_is_the_same_and_what_differs_is_not(one: Any, two: Any) -> None:
    left, right = _with(one), _with(two)
    assert identical(left, right) == diff(left, right).same
    assert (content_digest(left) == content_digest(right)) == diff(left, right).same


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([42], [42.0], True),
        ([True], [1], False),
        (2**60, float(2**60), True),
        (2**60, str(2**60), False),
        ("ab", "".join(["a", "b"]), True),
    ],
)
def test_neither_the_order_of_names_nor_42_against_42_0_counts(
    one: Any, two: Any, same: bool
) -> None:
    assert identical(_with(one), _with(two)) is same


@pytest.mark.parametrize("depth", [900, 5_000])
@pytest.mark.parametrize(("one", "two"), [("x", "y"), (2**60, 2**60 + 1)])
def test_values_nested_deeply_are_compared_all_the_same(depth: int, one: Any, two: Any) -> None:
    def nested(innermost: Any) -> Any:
        value = innermost
        for _ in range(depth):
            value = [value]
        return value

    left, like, other = _with(nested(one)), _with(nested(one)), _with(nested(two))
    assert (identical(left, like), diff(left, like).same) == (True, True)
    assert (identical(left, other), diff(left, other).same) == (False, False)


def test_of_values_kept_alike_no_canonical_text_is_written(monkeypatch: Any) -> None:
    def never(_: object) -> str:
        raise AssertionError("a text was written")

    monkeypatch.setattr(content, "canonical_text", never)
    rows = [{"n": at, "items": ["a", {"b": None}]} for at in range(20)]
    assert identical(_with(rows), _with([{**row} for row in rows]))
    assert not identical(_with(rows), _with([*rows, {}]))
