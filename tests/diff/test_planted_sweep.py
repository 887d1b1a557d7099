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


def test_every_planted_difference_in_every_real_run_is_reported_as_what_it_is() -> None:
    made: Counter[str] = Counter()
    wrong = []
    for run in _real():
        for name, mutation in ALL.items():
            planted = plant(name, mutation, run)
            if planted is not None:
                made[name] += 1
                wrong += [f"{name}, {run.run_id}: {told}" for told in faults(planted)]
    assert wrong == []
    assert made.total() >= LEAST, made
    assert set(made) == set(ALL), made


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
