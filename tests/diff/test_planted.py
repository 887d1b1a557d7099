"""The planted-difference suite: one thing changed in a real run, and exactly that is reported.

The mutations stand in ``plants`` and ``plants_of_order``; what must be said of each follows from
the run by rules written down there anew, never from the code under test.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from replay.diff import diff
from tests.diff.building import TRACES, read, run, runs_in, write
from tests.diff.plant_check import faults, plant
from tests.diff.planting import Planted, one
from tests.diff.plants import REPORTED
from tests.diff.plants_of_order import HARMLESS, MOVED, respelt
from tracekit.trajectory import Trajectory

ALL = {**REPORTED, **MOVED, **HARMLESS}
ROOTS = (TRACES, TRACES.parent / "planted")
SEEDS = 2


def _files() -> list[Path]:
    """The committed copies of real runs."""
    folders = [root / name for root in ROOTS for name in ("agentdyn", "tau-bench")]
    return sorted(file for folder in folders for file in folder.rglob("*.json"))


@cache
def _real() -> tuple[Trajectory, ...]:
    return tuple(found for file in _files() for found in runs_in(file, file.read_bytes()))


def _planted(name: str) -> list[Planted]:
    made = [plant(name, ALL[name], run_, seed) for run_ in _real() for seed in range(SEEDS)]
    return [planted for planted in made if planted is not None]


@pytest.mark.parametrize("name", ALL)
def test_of_one_planted_difference_exactly_that_is_said(name: str) -> None:
    planted = _planted(name)
    assert planted, f"no committed run offers: {name}"
    wrong = [f"{one_.before.run_id}: {told}" for one_ in planted for told in faults(one_)]
    assert wrong == []


def test_how_the_json_of_a_trace_is_spelt_is_no_difference() -> None:
    for file in _files():
        data = file.read_bytes()
        for before, after in zip(runs_in(file, data), runs_in(file, respelt(data)), strict=True):
            found = diff(before, after)
            assert (found.same, found.distance, found.divergences) == (True, 0, ()), before.run_id


def test_the_kinds_of_mutations_are_those_that_were_promised() -> None:
    counted = Counter(bool(planted.expected) for name in ALL for planted in _planted(name))
    assert counted[True] > 300
    assert counted[False] > 30
    assert all(not planted.expected for name in HARMLESS for planted in _planted(name))
    assert all(planted.expected for name in (*REPORTED, *MOVED) for planted in _planted(name))


def test_a_mutation_is_the_same_each_time() -> None:
    for name, mutation in ALL.items():
        for run_ in _real()[:4]:
            assert plant(name, mutation, run_) == plant(name, mutation, run_)


def test_the_suite_notices_what_is_not_said_and_what_is_said_too_much() -> None:
    before = run(write("w", {"to": "x"}), read("r", {}))
    after = run(write("w", {"to": "y"}), read("r", {}), write("v", {}))
    changed = one("changed_arguments", "write", "w", 1, 1, {"/to": ("x", "y")})
    added = one("added", "write", "v", None, 3)
    both = Planted(before, after, ((changed,), (added,)), prefix=frozenset({0}))
    assert faults(both) == []
    for wrong in (
        (),
        ((changed,),),
        ((changed,), (added,), (added,)),
        ((one("changed_arguments", "read", "w", 1, 1),), (added,)),
        ((one("changed_arguments", "write", "w", 1, 1, {"/to": ("x", "z")}),), (added,)),
        ((changed,), (one("added", "write", "v", None, 3, cause=False),)),
        ((changed,), (one("added", "write", "v", None, 4),)),
    ):
        assert faults(Planted(before, after, wrong, prefix=frozenset({0}))), wrong
    assert faults(Planted(before, after, both.expected, prefix=frozenset({1})))
    assert faults(Planted(before, before, both.expected, prefix=frozenset({0})))
    assert diff(before, before).same
