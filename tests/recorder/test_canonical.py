from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tracekit.canonical import (
    JsonValue,
    both_bytes,
    canonical_bytes,
    canonical_text,
    digest,
    digest_bytes,
    digest_raw_text,
    encode,
    json_bytes,
    json_text,
    parse_json,
    parse_json_noting,
)
from tracekit.canonical.plain import read_plain
from tracekit.canonical.text import LONG_TEXT, SAFE_INT, _write_carefully
from tracekit.errors import InvalidJson

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE_INT, SAFE_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_both_writers_give_the_bytes_of_rfc_8785(value: JsonValue) -> None:
    expected = rfc8785.dumps(value)

    assert canonical_bytes(value) == expected
    assert _write_carefully(value) == expected


def test_floats_of_every_size_are_written_as_rfc_8785_writes_them() -> None:
    chance = random.Random(8785)
    bits = [struct.pack("<Q", chance.getrandbits(64)) for _ in range(5_000)]
    floats = [struct.unpack("<d", eight)[0] for eight in bits]
    floats += [10 ** chance.uniform(-8, 22) for _ in range(5_000)]
    floats += [round(chance.uniform(-1e6, 1e6), chance.randint(0, 6)) for _ in range(5_000)]

    finite = [number for number in floats if math.isfinite(number)]

    assert canonical_bytes(finite) == rfc8785.dumps(finite)
    assert [n for n in finite if canonical_bytes([n]) != rfc8785.dumps([n])] == []


@given(st.dictionaries(TEXT, JSON_VALUES, max_size=6), st.randoms(use_true_random=False))
def test_a_digest_ignores_key_order(value: dict[str, JsonValue], chance: random.Random) -> None:
    names = list(value)
    chance.shuffle(names)

    assert digest({name: value[name] for name in names}) == digest(value)


@given(JSON_VALUES)
def test_stored_text_keeps_order_and_whole_floats(value: JsonValue) -> None:
    back = parse_json(json_bytes(value))

    assert repr(back) == repr(value)
    assert json_text(value).encode() == json_bytes(value)


def test_a_whole_float_and_its_integer_are_one_value() -> None:
    assert digest({"window": 42}) == digest({"window": 42.0})
    assert digest(0.0) == digest(-0.0) == digest(0)
    assert digest(1) != digest(True)
    assert digest(None) != digest("")


def test_integer_keys_digest_as_their_json_round_trip() -> None:
    keyed = encode({1: "a", 2: "b", 10: "c"}).value

    assert digest(keyed) == digest(json.loads(json.dumps({1: "a", 2: "b", 10: "c"})))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, '"9007199254740992"'),
        (-(2**70), '"-1180591620717411303424"'),
        (math.nan, '{"$float":"nan"}'),
        (-math.inf, '{"$float":"-inf"}'),
        ("a\ud800", '"a\ufffd"'),
        ({"\ud800": 1}, '{"\ufffd":1}'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ([1e21, 1e-7, 1e-6, 5e-324], "[1e+21,1e-7,0.000001,5e-324]"),
        ("\x00\x1f\x7f/", '"\\u0000\\u001f\x7f/"'),
    ],
)
def test_what_json_cannot_carry_has_one_stated_form(value: JsonValue, expected: str) -> None:
    assert canonical_text(value) == expected


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, {1, 2}, b"x", object()])
def test_a_value_that_is_no_json_has_no_canonical_text(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_bytes(value)


def test_depth_is_no_danger_to_canonical_text() -> None:
    value: JsonValue = []
    for _ in range(20_000):
        value = [value]

    assert canonical_bytes(value) == b"[" * 20_001 + b"]" * 20_001


def test_canonical_text_changes_nothing_in_the_value() -> None:
    value: JsonValue = {"b": [1.0, {"z": 2.0, "a": math.nan}], "a": 1}
    before = repr(value)

    canonical_bytes(value)
    json_bytes(value)

    assert repr(value) == before


def test_a_digest_names_its_algorithm_and_is_whole() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    assert digest_bytes(b"") == f"sha256:{empty}"
    assert digest_raw_text("") == f"sha256-raw:{empty}"
    assert digest({}) == digest_bytes(b"{}")
    assert digest_raw_text("\ud800") == digest_raw_text("\ufffd")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ('{"a": 1,\n "b": }', 2, 7),
        ("[1, 2", 1, 6),
        ('{"a": 1} x', 1, 10),
        ("{'a': 1}", 1, 2),
        (b'["\xff"]', 1, 3),
        ("[" * 100_000, 1, 1),
    ],
)
def test_malformed_json_is_refused_with_its_place(
    text: str | bytes, line: int, column: int
) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_json(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_integers_of_any_size_are_read_exactly() -> None:
    assert parse_json("[123456789012345678901234567890, 9007199254740993]") == [
        123456789012345678901234567890,
        9007199254740993,
    ]


def test_not_a_number_and_infinity_are_tolerated() -> None:
    value = parse_json('{"a": NaN, "b": -Infinity}')

    assert canonical_text(value) == '{"a":{"$float":"nan"},"b":{"$float":"-inf"}}'


def test_of_duplicate_keys_the_last_wins_and_they_are_named() -> None:
    parsed = parse_json_noting('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3, "a": 4}')

    assert parsed.value == {"a": 4, "b": {"c": 2}}
    assert set(parsed.duplicate_keys) == {"a", "c"}
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}
    assert parse_json_noting('{"a": 1}').duplicate_keys == ()


def test_a_very_long_text_is_written_alike_without_a_writer_that_a_full_memory_ends() -> None:
    long = 'é"\n\x01 \U0001f600' + "x" * LONG_TEXT
    value = {"b": long, "a": 42.0}
    assert read_plain(value) is None
    assert encode(value).value == value
    assert canonical_bytes(value) == rfc8785.dumps({"a": 42, "b": long})
    assert both_bytes(value) == (json_bytes(value), canonical_bytes(value))
    assert parse_json(json_bytes(value)) == value
    assert json_bytes({"b": long + "\ud800"}).isascii()
    assert encode({long: 1}).value == {long: 1}


def test_a_program_that_records_a_very_long_text_lives_though_memory_is_short() -> None:
    program = (
        "import resource, tracekit.canonical as c\n"
        "text = 'x' * 70_000_000\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (700 << 20, 700 << 20))\n"
        "print(len(c.both_bytes(c.encode({'x': text}).value)[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "70000008\n"), done.stderr
