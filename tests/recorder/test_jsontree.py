from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import jsontree
from tracekit.canonical import JsonValue, canonical_text
from tracekit.errors import PointerNotFound
from tracekit.jsontree import Difference

DOCUMENT: dict[str, JsonValue] = {
    "a": [1, {"b": None}],
    "": 0,
    "x/y": 1,
    "m~n": 2,
    "e": [],
}
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", DOCUMENT),
        ("/a/0", 1),
        ("/a/1/b", None),
        ("/", 0),
        ("/x~1y", 1),
        ("/m~0n", 2),
    ],
)
def test_a_pointer_finds_its_value(pointer: str, expected: JsonValue) -> None:
    assert jsontree.get(DOCUMENT, pointer) == expected
    assert jsontree.pointer(jsontree.parts(pointer)) == pointer


@pytest.mark.parametrize("pointer", ["/b", "/a/2", "/a/-1", "/a/00", "/a/²", "/a/0/x", "/a/1/c"])
def test_a_pointer_that_leads_nowhere_says_so(pointer: str) -> None:
    for look in (jsontree.get, jsontree.remove):
        with pytest.raises(PointerNotFound) as caught:
            look(DOCUMENT, pointer)
        assert caught.value.pointer == pointer


@given(JSON_VALUES)
def test_every_leaf_is_found_by_its_pointer(value: JsonValue) -> None:
    for pointer, leaf in jsontree.walk(value):
        assert jsontree.get(value, pointer) is leaf


def test_leaves_come_in_order() -> None:
    assert list(jsontree.walk(DOCUMENT)) == [
        ("/a/0", 1),
        ("/a/1/b", None),
        ("/", 0),
        ("/x~1y", 1),
        ("/m~0n", 2),
        ("/e", []),
    ]


@given(JSON_VALUES)
def test_a_value_does_not_differ_from_itself(value: JsonValue) -> None:
    assert jsontree.differences(value, value) == ()


@given(JSON_VALUES, JSON_VALUES)
def test_differences_are_symmetric_and_agree_with_the_canonical_text(
    left: JsonValue, right: JsonValue
) -> None:
    there, back = jsontree.differences(left, right), jsontree.differences(right, left)

    assert {d.pointer for d in there} == {d.pointer for d in back}
    if not there:
        assert repr(left) == repr(right) or canonical_text(left) == canonical_text(right)


def test_each_difference_is_named_by_field() -> None:
    left: JsonValue = {"window": "5m", "n": 42, "tags": ["a", "b"], "old": 1, "flag": True}
    right: JsonValue = {"window": "15m", "n": 42.0, "tags": ["a"], "new": {}, "flag": 1}

    assert jsontree.differences(left, right) == (
        Difference("/window", "changed", "5m", "15m"),
        Difference("/tags/1", "removed", "b", None),
        Difference("/old", "removed", 1, None),
        Difference("/flag", "changed", True, 1),
        Difference("/new", "added", None, {}),
    )


def test_none_is_a_value_and_not_an_absence() -> None:
    assert jsontree.differences({"a": None}, {}) == (Difference("/a", "removed", None, None),)
    assert jsontree.differences({"a": None}, {"a": None}) == ()
    assert jsontree.differences([], {}) == (Difference("", "changed", [], {}),)
    assert jsontree.differences(float("nan"), float("nan")) == ()


def test_a_change_gives_a_new_value_and_leaves_the_old_alone() -> None:
    before = repr(DOCUMENT)

    assert jsontree.get(jsontree.replace(DOCUMENT, "/a/1/b", 5), "/a/1/b") == 5
    assert jsontree.replace({"a": [1]}, "/a/-", 2) == {"a": [1, 2]}
    assert jsontree.replace({"a": [1]}, "/a/1", 2) == {"a": [1, 2]}
    assert jsontree.replace({}, "/new", 1) == {"new": 1}
    assert jsontree.replace(DOCUMENT, "", 1) == 1
    assert jsontree.remove({"a": [1, 2, 3]}, "/a/0") == {"a": [2, 3]}
    assert jsontree.remove({"a": 1, "b": 2}, "/a") == {"b": 2}
    assert repr(DOCUMENT) == before


def test_a_change_that_has_no_place_is_refused() -> None:
    for pointer in ("/a/5", "/a/0/x", "/zzz/y", "/a/x"):
        with pytest.raises(PointerNotFound):
            jsontree.replace(DOCUMENT, pointer, 1)
    with pytest.raises(PointerNotFound):
        jsontree.remove(DOCUMENT, "")


def test_depth_is_no_danger() -> None:
    left: JsonValue = 1
    right: JsonValue = 2
    for _ in range(5_000):
        left, right = [left], [right]

    pointer = "/0" * 5_000
    assert jsontree.differences(left, right) == (Difference(pointer, "changed", 1, 2),)
    assert list(jsontree.walk(left)) == [(pointer, 1)]
    assert jsontree.differences(jsontree.replace(left, pointer, 2), right) == ()
