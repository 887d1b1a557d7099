"""The quick way through plain JSON gives the bytes of the careful one, or steps aside."""

from __future__ import annotations

import enum
import math
import uuid
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.canonical import MAX_DEPTH, MAX_ELEMENTS, canonical_bytes, encode, json_bytes, plain
from tracekit.canonical.plain import read_plain


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    __slots__ = ()


NUMBERS = st.one_of(
    st.integers(),
    st.integers(2**53 - 3, 2**53 + 3),
    st.floats(),
    st.sampled_from([1.0, -0.0, 1e-5, 9.9e-6, 1e16, 2.0**53, 1e22, 5e-324, 0.1]),
)
TEXTS = st.one_of(st.text(), st.sampled_from(["null", "1.0", "\ud800", "\U0001f600", "\uffff", ""]))
ATOMS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
FOREIGN = st.one_of(
    st.tuples(ATOMS),
    st.binary(max_size=3),
    st.just(Colour.RED),
    st.builds(Word, st.text(max_size=3)),
    st.uuids(),
    st.datetimes(),
    st.builds(OrderedDict),
    st.frozensets(st.integers(), max_size=2),
)
KEYS = st.one_of(TEXTS, st.integers(), st.none())


def _values(atoms: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        atoms, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20
    )


@given(_values(ATOMS, TEXTS) | _values(ATOMS | FOREIGN, KEYS))
def test_what_is_plain_has_the_bytes_of_the_careful_walk(value: Any) -> None:
    encoded = encode(value)
    plain = read_plain(value)
    if plain is None:
        return
    assert not encoded.types
    assert encoded.replayable
    assert plain.data == json_bytes(encoded.value)
    assert plain.canonical == canonical_bytes(encoded.value)
    bare = read_plain(value, collect=False)
    assert bare is not None
    assert (bare.data, bare.canonical) == (plain.data, plain.canonical)


@given(_values(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1), st.text()))
def test_the_usual_values_are_plain(value: Any) -> None:
    try:
        json_bytes(value).decode()
    except UnicodeError:
        return
    assert read_plain(value) is not None


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {"a": (1,)},
        {1: 2},
        [math.nan],
        {"a": None, "b": math.inf},
        Colour.RED,
        {"c": [Colour.RED]},
        uuid.UUID(int=1),
        Word("x"),
        {Word("x"): 1},
        2**53,
        "\ud800",
        {"\ud800": 1},
        b"bytes",
        [[0] * 1000] * (MAX_ELEMENTS // 1000),
        [[[[0] * 1000] * 1000] * 1000] * 1000,
    ],
)
def test_what_is_not_plain_or_too_large_takes_the_careful_way(value: Any) -> None:
    assert read_plain(value) is None


def test_depth_and_cycles_end_as_in_the_careful_walk() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert read_plain(deep) is not None
    assert read_plain([deep]) is None
    ring: list[Any] = []
    ring.append(ring)
    assert read_plain(ring) is None


def test_a_null_beside_finite_floats_is_plain() -> None:
    assert read_plain({"a": None, "b": 1.5}) is not None


def test_a_value_that_another_thread_changes_meanwhile_is_left_to_the_careful_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = {"x": "one text"}
    dumps = plain.orjson.dumps

    def changed(obj: Any, *, option: int) -> bytes:
        written = dumps(obj, option=option)
        value["x"] = "another text"
        return written

    monkeypatch.setattr(plain.orjson, "dumps", changed)
    assert plain.read_plain(value) is None
