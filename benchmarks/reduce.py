"""What it takes to find the parts that matter: questions counted, ours beside what is published.

Counted is every question from the first, about the whole, to the last of the proof that nothing can
be left out; drawn from seeds, so that each run of the benchmark tells the same. A ratio is ours
over what is to be reached. ``failmin`` has an environment of its own, as in ``peers``; it does not
ask whether nothing at all fails, which the others do.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Line
from benchmarks.peers import environment
from benchmarks.reduce_classics import Parts, ddmin, probdd
from benchmarks.reduce_puzzles import SUITE, Puzzle, closed, dependent, scattered
from replay.distill.noisy import reduce_in_doubt
from replay.distill.parallel import Ahead
from replay.distill.passes import SequenceLayer, reduce
from replay.distill.problem import Problem
from replay.distill.sprt import Evidence, Noise, Undecided
from tests.distill.search_kit import Guessed, Ints, Steps, reduced

_ROOT = Path(__file__).parents[1]
PLACEMENTS, DRAWN = 200, 20
SCATTERED = ((64, 1, 9), (64, 3, 25), (64, 8, 62), (256, 1, 11), (256, 3, 31), (500, 5, 55))
"""Parts, how many matter, questions allowed."""
DEPENDENT = ((2, 55, 24), (5, 110, 60))
"""How many steps matter, questions allowed without and with the dependencies."""
NOISY = ((50, 2, Noise(0.1, 0.1), 80), (500, 5, Noise(0.1, 0.1), 306), (64, 2, Noise(0.3), 155))
"""Parts, how many matter, how often an answer is wrong, runs allowed."""
WORKERS, ANSWER_S, SHARE = 4, 0.05, 0.55


def measure() -> list[Line]:
    """Measure all of it."""
    theirs = _failmin()
    return [
        *_scattered(theirs),
        *_dependent(theirs),
        *_kinds(),
        *_noisy(),
        *_parallel(),
    ]


def _scattered(theirs: dict[str, Any]) -> Iterator[Line]:
    yield Line(f"questions to a proven minimum, median of {PLACEMENTS} placements", "", None)
    for size, needed, allowed in SCATTERED:
        puzzles = [scattered(size, needed, seed) for seed in range(PLACEMENTS)]
        told = theirs.get(f"{size},{needed}", "not measured")
        ours = _median(puzzles, reduced)
        guess = statistics.median(
            reduced(p, Guessed(guess=p.least or frozenset()))[1] for p in puzzles
        )
        value = f"{ours:g}, guessed {guess:g}; {_classics(puzzles)}, failmin {told}"
        yield Line(f"  {needed} of {size} matter", value, ours / allowed, 1.0)


def _classics(puzzles: list[Puzzle]) -> str:
    sides = {"ddmin": ddmin, "ProbDD": probdd}
    found = {name: _median(puzzles, lambda p, f=f: f(p.size, p.fails)) for name, f in sides.items()}  # type: ignore[misc]  # the default binds the loop's value
    return ", ".join(f"{name} {median:g}" for name, median in found.items())


def _median(puzzles: list[Puzzle], way: Callable[[Puzzle], tuple[Parts, int]]) -> float:
    return statistics.median(way(puzzle)[1] for puzzle in puzzles)


def _dependent(theirs: dict[str, Any]) -> Iterator[Line]:
    yield Line(f"the same of 500 steps that need each other, {DRAWN} seeds", "", None)
    for needed, allowed, allowed_known in DEPENDENT:
        puzzles = [dependent(500, needed, seed) for seed in range(DRAWN)]
        told = theirs.get(f"dependent,{needed}", "not measured")
        blind = [reduced(puzzle) for puzzle in puzzles]
        known = [reduced(puzzle, Steps(wanted=puzzle.needs)) for puzzle in puzzles]
        for what, found, most, beside in (
            ("unknown", blind, allowed, f"{_classics(puzzles)}; {_false_minima(puzzles)}"),
            ("known", known, allowed_known, f"failmin {told}"),
        ):
            right = sum(set(best) == p.least for (best, _), p in zip(found, puzzles, strict=True))
            median = statistics.median(calls for _, calls in found)
            value = f"{median:g}, {right} of {DRAWN} exact; {beside}"
            yield Line(f"  {needed} matter, needs {what}", value, median / most, 1.0)


def _false_minima(puzzles: list[Puzzle]) -> str:
    """How often the classics stop too early when every candidate is closed under the needs."""
    told = []
    for name, way in (("ddmin", ddmin), ("ProbDD", probdd)):
        wrong = 0
        for puzzle in puzzles:
            needs, fails = puzzle.needs, puzzle.fails
            best, _ = way(puzzle.size, lambda parts, n=needs, f=fails: f(closed(parts, n)))  # type: ignore[misc]  # the defaults bind the loop's values
            wrong += closed(frozenset(best), needs) != puzzle.least
        told.append(f"{name} {wrong}")
    return f"closed under needs they miss the minimum: {', '.join(told)} of {len(puzzles)}"


def _kinds() -> Iterator[Line]:
    yield Line("by kind of failure, against ddmin's median", "", None)
    for name, (draw, size, needed) in SUITE.items():
        puzzles = [draw(size, needed, seed) for seed in range(PLACEMENTS)]
        ours = _median(puzzles, reduced)
        theirs = _median(puzzles, lambda p: ddmin(p.size, p.fails))
        value = f"{ours:g}; {_classics(puzzles)}"
        yield Line(f"  {name}", value, ours / theirs, 1.0)


def _noisy() -> Iterator[Line]:
    yield Line("answers that may be wrong: runs to a minimum that is right in 99 %", "", None)
    for size, needed, noise, allowed in NOISY:
        found = [_in_doubt(size, needed, noise, seed) for seed in range(PLACEMENTS)]
        right = sum(right for _, right in found) / len(found)
        median = statistics.median(calls for calls, _ in found)
        beside = _ddmin_in_doubt(size, needed, noise)
        label = f"  {needed} of {size}, missed {noise.missed:.0%}, alarmed {noise.alarmed:.0%}"
        yield Line(label, f"{median:g}, {right:.1%} right; {beside}", median / allowed, 1.0)


def unreliable(size: int, needed: int, noise: Noise, seed: int) -> tuple[Puzzle, frozenset[int]]:
    """A puzzle that answers wrongly so often, and what matters in it."""
    chance = random.Random(seed)
    least = frozenset(chance.sample(range(size), needed))

    def fails(parts: frozenset[int]) -> bool:
        return chance.random() < (1 - noise.missed if least <= parts else noise.alarmed)

    return Puzzle(size, fails, least), least


def _in_doubt(size: int, needed: int, noise: Noise, seed: int) -> tuple[int, bool]:
    puzzle, least = unreliable(size, needed, noise, seed)
    problem: Problem[Ints] = Problem(
        tuple(range(size)), fails=lambda parts: puzzle.fails(frozenset(parts)), size=len
    )
    try:
        reduce_in_doubt(problem, [SequenceLayer[int]()], noise=noise)
    except Undecided:
        return problem.calls, False
    return problem.calls, set(problem.best) == least


def _ddmin_in_doubt(size: int, needed: int, noise: Noise) -> str:
    """What ddmin takes, and how often it is right, where each answer is tested in the same way."""
    costs, right = [], 0
    for seed in range(DRAWN):
        puzzle, least = unreliable(size, needed, noise, seed)
        evidence = Evidence(noise)

        def fails(parts: frozenset[int], p: Puzzle = puzzle, e: Evidence = evidence) -> bool:
            return e.decide(parts, lambda: p.fails(parts), error=0.01 / 20)

        best, _ = ddmin(size, fails)
        costs.append(sum(evidence.counts.values()))
        right += set(best) == least
    return f"ddmin with a sequential test {statistics.median(costs):g}, {right} of {DRAWN} right"


def _parallel() -> Iterator[Line]:
    puzzle, tries = scattered(500, 5, 1), 3
    pairs = [[waited(puzzle, workers) for workers in (1, WORKERS)] for _ in range(tries)]
    assert all(one[1] == many[1] for one, many in pairs)
    # Other work of the machine is not ours: the quickest of each.
    alone, (together, _, wasted) = min(one[0] for one, _ in pairs), min(many for _, many in pairs)
    label = f"{WORKERS} workers on answers of {ANSWER_S * 1_000:.0f} ms, waited against 1"
    value = f"{together:.2f} s, 1 worker {alone:.2f} s; {wasted} answers unused"
    yield Line(label, value, together / alone, SHARE)


def waited(puzzle: Puzzle, workers: int) -> tuple[float, tuple[Ints, int], int]:
    """Reduce with so many workers: seconds, what came of it, answers that nobody wanted."""
    pause = threading.Event()

    def fails(parts: Ints) -> bool:
        pause.wait(ANSWER_S)
        return puzzle.fails(frozenset(parts))

    began = time.perf_counter()
    with Ahead([fails] * workers) as ahead:
        start = tuple(range(puzzle.size))
        problem: Problem[Ints] = Problem(start, fails=fails, size=len, ahead=ahead)
        reduce(problem, [SequenceLayer[int]()])
        seconds = time.perf_counter() - began
        return seconds, (problem.best, problem.calls), problem.wasted


def _failmin() -> dict[str, Any]:
    python, _ = environment()
    if python is None:
        return {}
    command = [str(python), "-m", "benchmarks.reduce_failmin"]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
