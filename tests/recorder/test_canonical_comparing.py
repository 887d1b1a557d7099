"""Values are compared as what they are: numbers as numbers, texts as texts."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.canonical import as_compared, canonical_text, encode


def compared(value: Any) -> str:
    kept = encode(value)
    return canonical_text(as_compared(kept.value, kept.types))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**53, float(2**53)),
        (2**60, float(2**60)),
        (Decimal(42), 42),
        (Decimal("42.0"), 42.0),
        (Decimal("42.00"), Decimal(42)),
        (Decimal("0.1"), 0.1),
        ({"a/b": [Decimal("1.50")]}, {"a/b": [1.5]}),
    ],
)
def test_equal_numbers_are_equal_however_they_are_kept(one: Any, other: Any) -> None:
    assert compared(one) == compared(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**53 + 1, str(2**53 + 1)),
        (2**53 + 1, 2**53),
        (12345678901234567890, 12345678901234567891),
        (12345678901234567168, 12345678901234567000),
        (12345678901234567890, "12345678901234567890"),
        (Decimal(42), "42"),
        (Decimal("0.10000000000000000001"), 0.1),
        (10**400, 10**400 + 1),
        (Decimal("1e500"), Decimal("1e501")),
        (Decimal("NaN"), "NaN"),
    ],
)
def test_other_numbers_and_texts_are_others(one: Any, other: Any) -> None:
    assert compared(one) != compared(other)


def test_names_of_files_that_are_no_utf8_are_told_apart() -> None:
    names = {compared(os.fsdecode(name)) for name in (b"a\x80", b"a\x81", "a\ufffd".encode())}
    assert len(names) == 3


@given(st.integers() | st.decimals(allow_nan=False), st.integers() | st.decimals(allow_nan=False))
def test_two_numbers_are_compared_as_equal_only_if_they_are(one: Any, other: Any) -> None:
    if compared(one) == compared(other):
        assert one == other
    assert compared(one) != compared(str(other))
