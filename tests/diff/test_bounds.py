"""Cells that no cheapest alignment can pass are not filled, and what is found is the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.diff import trajectory
from benchmarks.diff_rows import Made, of_one_tool, unrelated
from replay.diff import table
from replay.diff.align import align
from replay.diff.arguments import Declared
from replay.diff.bounds import most_alone
from replay.diff.steps import Step, declared, steps_of
from replay.diff.table import solve
from tests.diff.building import run
from tests.diff.test_properties import CALLS
from tracekit.trajectory import Trajectory

_Two = tuple[tuple[Step, ...], tuple[Step, ...], dict[str, Declared]]
_SIDES = st.lists(CALLS, min_size=1, max_size=9).map(lambda calls: run(*calls))


@given(_SIDES, _SIDES)
def test_what_is_found_within_the_bounds_is_what_the_whole_table_gives(
    one: Trajectory, two: Trajectory
) -> None:
    rules = declared(one, two)
    left, right = steps_of(one, rules), steps_of(two, rules)
    whole = solve(left, right, rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "SMALL", 0)
        patch.setattr(table, "LARGE", 0)
        found = solve(left, right, rules)
    assert (found.cost, found.moves) == (whole.cost, whole.moves)
    most = most_alone(left, right, rules)
    assert most is None or sum(move != table.PAIR for move in whole.moves) <= most


def _of_one_tool(length: int) -> _Two:
    def made(seed: int) -> list[Made]:
        return of_one_tool(unrelated(length, seed))

    one, two = trajectory(made(1)), trajectory(made(2))
    rules = declared(one, two)
    return steps_of(one, rules), steps_of(two, rules), rules


def test_of_unrelated_calls_of_one_tool_a_band_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, rules = _of_one_tool(400)
    found = align(left, right, rules)
    assert found.cells < 0.25 * 400 * 400
    monkeypatch.setattr(table, "LARGE", 400 * 400)
    whole = align(left, right, rules)
    assert (found.cost, found.parts) == (whole.cost, whole.parts)
