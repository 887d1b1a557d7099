"""How alike texts are is found at a cost that grows with their length and no faster."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.matching import explain, likeness
from tests.replay.tape_kit import asked, call, player, record

WORDS = st.text("ab ", max_size=60)


def text(seed: int, length: int) -> str:
    return "".join(random.Random(seed).choices("abcdefgh ", k=length))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs of letters were compared."""
    seen: list[int] = []
    real = likeness.fuzz.ratio

    def ratio(left: str, right: str, **given: Any) -> float:
        seen.append(len(left) * len(right))
        return real(left, right, **given)

    monkeypatch.setattr(likeness.fuzz, "ratio", ratio)
    return seen


@pytest.mark.parametrize("calls", [1, 20])
def test_the_explanation_of_a_long_text_compares_a_stretch_of_stated_length(
    compared: list[int], calls: int
) -> None:
    length = 300_000
    replay = player(record(*(call("find", text=text(i, length)) for i in range(calls))))
    answer = replay.call(asked("find", text=text(99, length)))
    assert answer.rung == "error"
    assert len(answer.explanation) < 300
    assert sum(compared) <= 5 * calls * likeness.LONG**2


def test_no_more_of_a_record_is_read_for_an_explanation_than_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain, "_READ_AT_MOST", 9_000)
    read: list[int] = []
    real = explain.canonical_text
    monkeypatch.setattr(explain, "canonical_text", lambda v: read.append(1) or real(v))
    replay = player(record(*(call("find", text=text(i, 1_000)) for i in range(50))))
    assert replay.call(asked("find", text="other")).nearest is not None
    assert len(read) <= 11


def test_the_nearest_long_text_is_the_one_that_differs_least() -> None:
    base = text(1, 50_000)
    made = [text(2, 50_000), base[:20_000] + "x" + base[20_001:], base[:40_000]]
    replay = player(record(*(call("find", text=one) for one in made)))
    nearest = replay.call(asked("find", text=base)).nearest
    assert nearest is not None
    assert (nearest.decision, nearest.similarity > 0.999) == (2, True)


@given(WORDS, WORDS, st.integers(0, 6))
def test_likeness_is_the_same_both_ways_between_nought_and_one(
    left: str, right: str, times: int
) -> None:
    shared = text(3, 700 * times)
    one, other = f"{left}{shared}{right}", f"{right}{shared}{left}"
    found = likeness.likeness(one, other)
    assert 0 <= found <= 1
    assert found == pytest.approx(likeness.likeness(other, one))
    assert (found == 1) == (one == other)
