"""The planted-difference suite over whole data sets, and the same runs in other JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from replay.diff import diff
from tests.diff.building import runs_in
from tests.diff.plant_check import faults, plant
from tests.diff.plants import REPORTED
from tests.diff.plants_of_order import HARMLESS, MOVED, respelt
from tracekit.trajectory import Trajectory

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
FOLDERS = ("agentdyn", "tau-bench")
ALL = {**REPORTED, **MOVED, **HARMLESS}
LEAST = 2_000
"""So many mutations at least; each run offers each kind at most once."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (DATA / "agentdyn").is_dir(),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]


def _files() -> list[Path]:
    return sorted(file for folder in FOLDERS for file in (DATA / folder).rglob("*.json"))


@cache
def _real() -> tuple[Trajectory, ...]:
    return tuple(run for file in _files() for run in runs_in(file, file.read_bytes()))


@pytest.mark.parametrize("name", ALL)
def test_of_a_difference_planted_in_every_real_run_exactly_that_is_said(name: str) -> None:
    made = [planted for run in _real() if (planted := plant(name, ALL[name], run)) is not None]
    assert made, f"no run offers: {name}"
    wrong = [f"{one.before.run_id}: {told}" for one in made for told in faults(one)]
    assert wrong == []


def test_the_runs_offer_more_than_enough_mutations() -> None:
    made = Counter(
        name for run in _real() for name, mutation in ALL.items() if plant(name, mutation, run)
    )
    assert made.total() >= LEAST, made


def _pairs() -> Iterator[tuple[Trajectory, Trajectory]]:
    for file in _files():
        data = file.read_bytes()
        yield from zip(runs_in(file, data), runs_in(file, respelt(data)), strict=True)


def test_how_the_json_of_a_trace_is_spelt_is_no_difference() -> None:
    told = [
        (before.run_id, found.distance)
        for before, after in _pairs()
        if not (found := diff(before, after)).same or found.distance or found.divergences
    ]
    assert told == []
