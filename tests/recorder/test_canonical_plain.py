"""The quick way through plain JSON gives the bytes of the careful one, or steps aside."""

from __future__ import annotations

import enum
import gc
import itertools
import math
import sys
import uuid
import weakref
from collections import ChainMap, Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

import numpy
import orjson
import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tracekit.canonical import MAX_DEPTH, MAX_ELEMENTS, canonical_bytes, encode, json_bytes, plain
from tracekit.canonical.plain import Contents, look_through, read_plain
from tracekit.canonical.text import LONG_TEXT


class Colour(enum.IntEnum):
    RED = 1


class Kind(enum.Enum):
    ONE = 1


class Name(enum.StrEnum):
    A = "a"


class Word(str):
    __slots__ = ()


class Whole(int):
    pass


class Part(float):
    pass


class Row(list[int]):
    pass


class Table(dict[str, int]):
    pass


class Pair(NamedTuple):
    one: int
    two: int


@dataclass
class Point:
    x: int = 1


class Model(BaseModel):
    x: int = 1


class _Refusing(type):
    def __getattr__(cls, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


class Raises(metaclass=_Refusing):
    """Whoever looks too closely at it runs its code."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")

    def __len__(self) -> int:
        raise AssertionError("asked for its length")


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
KEYS = st.one_of(TEXTS, st.integers(), st.none(), st.builds(Word, st.text(max_size=3)))
HOSTILE = st.sampled_from(
    [
        (),
        (1,),
        Pair(1, 2),
        [(1, 2)],
        Word("x"),
        Name.A,
        Colour.RED,
        Kind.ONE,
        Whole(1),
        Part(1.5),
        Row([1]),
        Table(a=1),
        OrderedDict(a=1),
        defaultdict(int),
        Counter("ab"),
        ChainMap({}),
        MappingProxyType({}),
        b"x",
        bytearray(b"x"),
        memoryview(b"x"),
        1j,
        {1},
        frozenset(),
        range(2),
        datetime(2026, 1, 2, tzinfo=UTC),
        date(2026, 1, 2),
        time(1),
        timedelta(1),
        uuid.UUID(int=1),
        Decimal(1),
        numpy.float64(1.5),
        numpy.int64(1),
        numpy.zeros(2),
        numpy.bool_(True),
        Point(),
        Model(),
        orjson.Fragment(b"1"),
        ormsgpack.Ext(1, b"x"),
        len,
        ...,
        NotImplemented,
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0.0,
        5e-324,
        1.7e308,
        2**53 - 1,
        2**53,
        -(2**53),
        2**64,
        -(2**70),
        "\ud800",
        "a\udfff",
        "null",
        "1e5",
        "1.0",
        "\x7f",
        "\xff\xcb",
        "{",
        "[",
        "\U0001f600",
    ]
)


def _values(atoms: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        atoms, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20
    )


def _is_plain(value: Any) -> bool:
    """The same question, asked in a walk."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(key) for key in value) and all(
            map(_is_plain, value.values())
        )
    if kind is list:
        return all(map(_is_plain, value))
    if kind is str:
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if kind is int:
        return -(2**53) < int(value) < 2**53
    if kind is float:
        return math.isfinite(value)
    return kind is bool or value is None


def _no_keys(contents: Contents) -> list[str]:
    """The texts that are no keys: of a dict that has had others, the collector tells keys too."""
    return [text for text in contents.texts if text not in contents.keys]


@settings(max_examples=200)
@given(_values(ATOMS | HOSTILE | FOREIGN, TEXTS | KEYS) | _values(ATOMS | HOSTILE, TEXTS))
def test_plain_is_what_a_walk_says_is_plain(value: Any) -> None:
    plain = read_plain(value)
    assert (plain is not None) == _is_plain(value)
    if plain is not None:
        assert plain.canonical == canonical_bytes(value)
        found, seen = plain.contents(), look_through(value)
        assert found is not None
        assert seen is not None
        assert (found.kinds | {str}, found.keys) == (seen.kinds | {str}, seen.keys)
        assert _no_keys(found) == _no_keys(seen)


def test_a_dict_that_has_had_other_keys_is_as_plain_as_a_new_one() -> None:
    value: dict[Any, Any] = {1: 2, "a": {"b": "text"}}
    del value[1]
    test_plain_is_what_a_walk_says_is_plain.hypothesis.inner_test(value)  # type: ignore[attr-defined]  # hypothesis adds it


def test_it_runs_no_code_of_the_value() -> None:
    for value in (Raises, Raises()):
        for holder in (value, [value], {"a": [1, {"b": value}]}, [*[value] * 20]):
            assert read_plain(holder) is None


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


@pytest.mark.parametrize(
    "value",
    [
        [0] * (MAX_ELEMENTS - 1),
        dict.fromkeys(map(str, range(MAX_ELEMENTS - 1))),
        [[0] * 999] * ((MAX_ELEMENTS - 1) // 1000),
        [[dict.fromkeys("abcd")] * 199] * ((MAX_ELEMENTS - 1) // 1000),
    ],
    ids=["a list", "an object", "lists", "objects"],
)
def test_what_is_just_not_too_large_is_plain(value: Any) -> None:
    assert plain._fits(value)
    assert not plain._fits([value, [0] * 10_000])


def test_depth_and_cycles_end_as_in_the_careful_walk() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert read_plain(deep) is not None
    assert read_plain([deep]) is None
    deep_object: Any = {}
    for _ in range(MAX_DEPTH - 1):
        deep_object = {"a": deep_object, "b": []}
    assert read_plain(deep_object) is not None
    assert read_plain([deep_object]) is None
    assert read_plain([[*[deep_object] * 9]]) is None
    ring: list[Any] = []
    ring.append(ring)
    assert read_plain(ring) is None


def test_a_null_beside_finite_floats_is_plain() -> None:
    assert read_plain({"a": None, "b": 1.5}) is not None


STATES = [
    ([1, "a list"], (1, "a tuple")),
    ("one text", "another text"),
    ([1.0, 2], [2, 1.0]),
    (1.0, math.nan),
    ({"\U0001f600": 1, "\uffff": 2}, {"\uffff": 1, "\U0001f600": 2}),
]


@pytest.mark.parametrize("states", STATES, ids=lambda states: str(states[0]))
def test_what_is_written_is_one_state_of_a_value_that_changes_whenever_it_can(states: Any) -> None:
    value = {"x": states[0], "b": None, "a": [*range(9)]}
    turns: Iterator[int] = iter(())
    changes = 0

    def change(_frame: FrameType | None, _event: str, _said: object) -> Any:
        nonlocal changes
        changes += 1
        value["x"] = states[next(turns)]  # between any two steps: handlers, threads
        return change

    for pace in range(1, 12):
        turns = itertools.cycle([0] * pace + [1] * pace)
        before = sys.getprofile(), sys.gettrace()
        sys.setprofile(change)
        sys.settrace(change)
        try:
            written = read_plain(value)
        finally:
            sys.settrace(before[1])
            sys.setprofile(before[0])
        if written is not None:
            assert written.canonical == canonical_bytes(orjson.loads(written.data))
            assert b"a tuple" not in written.data
            told = {"x": states[0], "b": None, "a": [*range(9)]}
            assert written.data in (json_bytes(told), json_bytes({**told, "x": states[1]}))
    assert changes > 100


def test_what_stands_in_a_value_is_what_stood_in_it_when_it_was_written() -> None:
    value = {"x": ["one text"]}
    written = read_plain(value)
    value["x"][0] = "another text"
    assert written is not None
    found = written.contents()
    assert found is not None
    assert found.texts == ["one text"]


def test_a_long_text_is_left_to_the_careful_walk_and_many_short_ones_are_not() -> None:
    assert read_plain({"x": "y" * (LONG_TEXT + 1)}) is None
    many: Any = {"x": ["y" * (LONG_TEXT // 4)] * 5}
    written = read_plain(many)
    assert written is not None
    assert written.data == json_bytes(many)


def test_a_value_that_is_not_plain_is_let_go_of_at_once() -> None:
    """An object that no JSON holds lives no longer for having been looked at."""

    class Own:
        pass

    value = [Own()]
    there = weakref.ref(value[0])
    gc.disable()
    try:
        assert read_plain(value) is None
        del value
        assert there() is None
    finally:
        gc.enable()
