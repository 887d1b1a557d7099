"""Aligning two runs: ours beside ``difflib`` and the public package ``offtrack``, and long runs.

``difflib`` is given the letters of the steps and says which stretches are equal; ours is given the
steps, and says which alignment costs least, down to the arguments of each call. Neither is charged
for making them, ``offtrack`` neither. ``diff()`` is the whole of it, from two trajectories to
ranked and explained divergences. Of four differences, two are changed arguments, one a call
dropped, one a call added; one call in 25 differs in what is called related.
"""

from __future__ import annotations

import difflib
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.diff_peer import DIFFERING, LENGTH
from benchmarks.diff_rows import Made, of_one_tool, related, unrelated
from benchmarks.figures import Line, interleaved
from benchmarks.peers import environment
from replay.diff import diff
from replay.diff.align import align
from replay.diff.arguments import Declared
from replay.diff.rows import Row
from replay.diff.steps import declared, steps_of
from tests.diff.building import read, run, write
from tracekit.trajectory import Trajectory

_ROOT = Path(__file__).parents[1]
_DIFFLIB, _OFFTRACK = 0.5, 0.01
_ALONE = (
    (1_000, True, 10.0),
    (1_000, False, 150.0),
    (2_000, False, 500.0),
    (10_000, True, 1_000.0),
)
"""Length, whether the rows are related, ms allowed."""
_EQUAL, _EQUAL_S, _EQUAL_MB = 25_000, 2.0, 300.0


def measure() -> list[Line]:
    """Measure all of it."""
    return [*_short(), *_long(), *_whole(), *_equal()]


def trajectory(rows: list[Made]) -> Trajectory:
    """Make a run of calls, one a decision."""
    calls = []
    for tool, writes, arguments, back in rows:
        calls.append((write if writes else read)(tool, arguments, back))
    return run(*calls)


def _rows(left: Trajectory, right: Trajectory) -> tuple[Row, Row, dict[str, Declared]]:
    rules = declared(left, right)
    steps = steps_of(left, rules)
    return Row(steps), Row(steps_of(right, rules, steps)), rules


def _runs(length: int, *, alike: bool) -> tuple[Trajectory, Trajectory]:
    one = unrelated(length, 1)
    other = related(one, differing=max(1, length * DIFFERING // LENGTH), seed=2)
    return trajectory(one), trajectory(other if alike else unrelated(length, 3))


def _short() -> Iterator[Line]:
    left, right, rules = _rows(*_runs(LENGTH, alike=True))
    tasks = {
        "difflib": lambda: difflib.SequenceMatcher(
            None, left.letters, right.letters, autojunk=False
        ).get_opcodes(),
        "ours": lambda: align(left, right, rules),
    }
    found = interleaved(tasks, calls=100, repeats=15)
    ratio = found["ours"] / found["difflib"]
    told = f"{found['ours']:.0f} us, difflib {found['difflib']:.0f} us"
    yield Line(
        f"{LENGTH} calls, {DIFFERING} differ: aligned, against difflib", told, ratio, _DIFFLIB
    )
    python, why = environment()
    if python is None:
        yield Line("  against offtrack", why)
        return
    command = [str(python), "-m", "benchmarks.diff_peer"]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, timeout=300)
    theirs: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    slower = theirs["offtrack"] / theirs["difflib"]
    told = f"{theirs['offtrack'] / 1_000:.0f} ms, {slower:.0f} x difflib there"
    yield Line(f"  against offtrack {theirs['version']}", told, ratio / slower, _OFFTRACK)


def _long() -> Iterator[Line]:
    for length, alike, allowed in _ALONE:
        what = f"{length:,} {'related' if alike else 'unrelated'} calls aligned"
        yield _aligned(what, _runs(length, alike=alike), allowed)
        if not alike:
            one, two = (trajectory(of_one_tool(unrelated(length, seed))) for seed in (1, 3))
            yield _aligned("  all of one tool", (one, two), allowed)


def _aligned(what: str, runs: tuple[Trajectory, Trajectory], allowed: float) -> Line:
    left, right, rules = _rows(*runs)
    cells = align(left, right, rules)
    ms = _ms(partial(align, left, right, rules), repeats=5)
    told = f"{ms:.1f} ms, {cells.cells:,} cells, {cells.held:,} at once"
    return Line(what, told, ms / allowed, 1.0)


def _whole() -> Iterator[Line]:
    for length, alike in ((20, True), (100, True), (1_000, True), (1_000, False), (10_000, True)):
        left, right = _runs(length, alike=alike)
        ms = _ms(partial(diff, left, right), repeats=9 if length < 1_000 else 3)
        what = f"diff() of {length:,} {'related' if alike else 'unrelated'} calls"
        yield Line(what, f"{ms:.1f} ms")


def _ms(task: Callable[[], object], *, repeats: int) -> float:
    return interleaved({"it": task}, calls=1, repeats=repeats)["it"] / 1_000


def _equal() -> Iterator[Line]:
    """Measure two equal long runs in a process of their own, for its memory."""
    command = [sys.executable, "-m", "benchmarks.diff"]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, timeout=300)
    seconds, mb = json.loads(done.stdout.splitlines()[-1])
    yield Line(f"diff() of {_EQUAL:,} equal calls", f"{seconds:.1f} s", seconds / _EQUAL_S, 1.0)
    yield Line("  memory of the process", f"{mb:.0f} MB", mb / _EQUAL_MB, 1.0)


def main() -> None:
    """Compare two equal runs; print the seconds and the MB."""
    calls = unrelated(_EQUAL, 1)
    left, right = trajectory(calls), trajectory(calls)
    seconds = _ms(partial(diff, left, right), repeats=1) / 1_000
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024]))


if __name__ == "__main__":
    main()
