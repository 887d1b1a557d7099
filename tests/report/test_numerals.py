"""Numbers of things in words: one of them is never several."""

from __future__ import annotations

import pytest

from replay.gates.estimating import _few
from replay.report import comment
from tests.diff.building import compare, run, write
from tracekit.numerals import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1234, "1,234 runs")]
)
def test_one_thing_is_not_several(number: int, said: str) -> None:
    assert counted(number, "run") == said


def test_a_plural_of_its_own_is_given() -> None:
    assert counted(2, "trajectory", plural="trajectories") == "2 trajectories"
    assert counted(1, "trajectory", plural="trajectories") == "1 trajectory"


def test_the_verb_goes_with_the_number() -> None:
    assert _few(1, 6, "run") == "1 run is too few for an interval; 6 are needed"
    assert _few(2, 6, "pair") == "2 pairs are too few for an interval; 6 are needed"
    assert _few(6, 6, "run") is None

    one, other = run(write("pay", {"amount": 1})), run(write("pay", {"amount": 2}))
    assert "different, 1 cause, 1 on writes" in comment(compare(one, other))
