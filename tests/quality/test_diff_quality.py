"""What a comparison of long runs costs, and that nothing of them is cut.

What is said of differences planted in real runs: tests/diff/test_planted.py.
"""

from __future__ import annotations

import pytest

from replay.diff import diff
from tests.diff.building import kinds, read, run, write
from tracekit.trajectory import Call


def _long(length: int) -> list[Call]:
    return [
        write("put", {"key": f"k-{n}", "n": n}, "ok")
        if n % 5 == 0
        else read("get", {"key": f"item {n}"}, {"value": n * 7})
        for n in range(length)
    ]


@pytest.mark.parametrize("place", [0, 137, 499])
def test_one_insertion_in_500_steps_is_one_divergence(place: int) -> None:
    steps = _long(500)
    more = [*steps[:place], write("note", {"text": "new"}, "ok"), *steps[place:]]
    found = diff(run(*steps), run(*more))
    assert kinds(found) == [("added", "note")]
    assert found.distance == 4


def test_only_what_lies_between_the_differences_is_worked_on() -> None:
    steps = _long(1000)
    other = [*steps]
    for n in range(480, 500, 5):
        other[n] = write("put", {"key": f"k-{n}", "n": n + 1}, "ok")
    found = diff(run(*steps), run(*other))
    assert len(found.divergences) == 4
    assert found.cells <= 20 * 20


def test_2000_unrelated_steps_are_compared_whole() -> None:
    ours = [read("get", {"key": f"a-{n}"}, n) for n in range(2000)]
    theirs = [read("get", {"key": f"b-{n}"}, -n) for n in range(2000)]
    found = diff(run(*ours), run(*theirs))
    assert found.counts["changed"] == 2000
    assert found.cells <= 2001 * 2001
