"""What a reduction may cost: several workers, answers of earlier sittings, budgets, and a kill."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reduce import SHARE, WORKERS, waited
from benchmarks.reduce_puzzles import SUITE, Puzzle, scattered
from replay.distill.judge import Judge
from replay.distill.parallel import Ahead
from replay.distill.passes import SequenceLayer, reduce
from replay.distill.problem import Budget, Spent
from replay.distill.remembering import AnswerFile, JudgeAnswers
from tests.distill.search_kit import Ints, problem_of
from tracekit.errors import DistillError

LAYERS = [SequenceLayer[int]()]


@pytest.mark.parametrize("kind", ["3 of 64 matter", "parity, 3 of 63", "erratic, 2 of 64"])
def test_several_workers_come_to_the_same_with_the_same_count(kind: str) -> None:
    draw, size, needed = SUITE[kind]
    for seed in range(5):
        puzzle = draw(size, needed, seed)
        alone = problem_of(puzzle)
        reduce(alone, LAYERS)

        def fails(parts: Ints, puzzle=puzzle) -> bool:  # type: ignore[no-untyped-def]  # the default binds the loop's value
            return puzzle.fails(frozenset(parts))

        with Ahead([fails] * WORKERS) as ahead:
            together = problem_of(puzzle, ahead=ahead)
            reduce(together, LAYERS)
        assert (together.best, together.calls) == (alone.best, alone.calls)
        assert together.wasted > 0
        assert alone.wasted == 0


class _Virtual:
    """Workers whose answers take one unit of a time that is only counted."""

    def __init__(self, puzzle: Puzzle, workers: int) -> None:
        self.workers, self.now = workers, 0
        self._puzzle = puzzle
        self._waiting: dict[Hashable, Ints] = {}
        self._done: dict[Hashable, bool] = {}

    @property
    def unused(self) -> int:
        return len(self._done) + len(self._waiting)

    def known(self, key: Hashable) -> bool | None:
        return self._done.get(key)

    def plan(self, questions: Mapping[Hashable, Ints]) -> None:
        self._waiting = {k: parts for k, parts in questions.items() if k not in self._done}

    def answer(self, key: Hashable, candidate: Ints) -> bool:
        while key not in self._done:
            self._waiting.setdefault(key, candidate)
            self.now += 1
            for at_once in list(self._waiting)[: self.workers]:
                parts = frozenset(self._waiting.pop(at_once))
                self._done[at_once] = self._puzzle.fails(parts)
        return self._done.pop(key)


@pytest.mark.parametrize(("size", "needed"), [(64, 1), (64, 3), (500, 5), (64, 8)])
def test_four_workers_take_at_most_55_hundredths_of_the_rounds_of_one(
    size: int, needed: int
) -> None:
    shares = []
    for seed in range(20):
        puzzle = scattered(size, needed, seed)
        rounds = []
        for workers in (1, WORKERS):
            virtual: Any = _Virtual(puzzle, workers)
            problem = problem_of(puzzle, ahead=virtual)
            reduce(problem, LAYERS)
            rounds.append(virtual.now)
            assert set(problem.best) == puzzle.least
        shares.append(rounds[1] / rounds[0])
    assert statistics.median(shares) <= SHARE


def test_what_goes_wrong_ahead_is_told_only_where_it_is_asked_for() -> None:
    puzzle = scattered(64, 1, 0)
    whole = frozenset(range(64))

    def fails(parts: Ints) -> bool:
        if not parts:
            raise ZeroDivisionError
        return puzzle.fails(frozenset(parts))

    with Ahead([fails] * 2) as ahead:
        problem = problem_of(puzzle, ahead=ahead)
        with pytest.raises(ZeroDivisionError):
            reduce(problem, LAYERS)
    assert frozenset(problem.best) == whole


def test_workers_end_where_one_would_when_the_budget_is_used_up() -> None:
    puzzle = scattered(64, 3, 1)
    alone = problem_of(puzzle, budget=Budget(calls=9))
    with pytest.raises(Spent):
        reduce(alone, LAYERS)
    with Ahead([lambda parts: puzzle.fails(frozenset(parts))] * WORKERS) as ahead:
        problem = problem_of(puzzle, ahead=ahead, budget=Budget(calls=9))
        with pytest.raises(Spent):
            reduce(problem, LAYERS)
    assert (problem.best, problem.calls) == (alone.best, 9)


@pytest.mark.slow
def test_four_workers_wait_at_most_55_hundredths_of_one() -> None:
    """The best of five, since other work of the machine is not ours."""
    shares = []
    for seed in range(5):
        puzzle = scattered(500, 5, seed)
        (alone, one, _), (together, many, _) = (waited(puzzle, n) for n in (1, WORKERS))
        assert one == many
        shares.append(together / alone)
    assert min(shares) <= SHARE


def test_money_ends_a_reduction_as_calls_do() -> None:
    spent = [0.0]

    def cost() -> float:
        spent[0] += 0.1
        return spent[0]

    problem = problem_of(scattered(64, 3, 1), budget=Budget(usd=0.55), spent=cost)
    with pytest.raises(Spent, match=r"0\.55 USD were allowed"):
        reduce(problem, LAYERS)
    assert problem.calls == 5


class _Plain:
    """Answers to sets of numbers, in a file."""

    def __init__(self, file: AnswerFile) -> None:
        self.file = file

    def get(self, key: object, *, asked: int = 0) -> bool | None:
        found = self.file.get(repr(key), asked)
        return None if found is None else found["fails"] is True

    def keep(self, key: object, *, asked: int = 0, fails: bool) -> None:
        self.file.keep(repr(key), asked, {"fails": fails})


def test_answers_of_an_earlier_sitting_are_not_asked_for_again(tmp_path: Path) -> None:
    puzzle = scattered(256, 3, 4)
    with AnswerFile(tmp_path / "answers", "sha256:1") as file:
        first = problem_of(puzzle, answers=_Plain(file), budget=Budget(calls=10))
        with pytest.raises(Spent):
            reduce(first, LAYERS)
    with AnswerFile(tmp_path / "answers", "sha256:1") as file:
        assert file.remembered == 10
        second = problem_of(puzzle, answers=_Plain(file))
        reduce(second, LAYERS)
    alone = problem_of(puzzle)
    reduce(alone, LAYERS)
    assert second.best == alone.best
    assert first.calls + second.calls == alone.calls


def test_answers_to_another_question_are_refused(tmp_path: Path) -> None:
    AnswerFile(tmp_path / "answers", "sha256:1").close()
    with pytest.raises(DistillError, match="another question"):
        AnswerFile(tmp_path / "answers", "sha256:2")
    (tmp_path / "answers").write_text("no JSON\n")
    with pytest.raises(DistillError, match="no file of answers"):
        AnswerFile(tmp_path / "answers", "sha256:1")


def test_two_sittings_at_once_do_not_share_a_file(tmp_path: Path) -> None:
    file = AnswerFile(tmp_path / "answers", "sha256:1")
    with pytest.raises(DistillError, match="in use"):
        AnswerFile(tmp_path / "answers", "sha256:1")
    file.close()
    AnswerFile(tmp_path / "answers", "sha256:1").close()


def test_a_line_that_was_cut_short_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    with AnswerFile(path, "sha256:1") as file:
        file.keep("a", 0, {"fails": True})
        file.keep("b", 0, {"fails": False})
    path.write_bytes(path.read_bytes()[:-5])
    with AnswerFile(path, "sha256:1") as file:
        assert file.get("a") is not None
        assert file.get("b") is None
        file.keep("b", 0, {"fails": True})
    with AnswerFile(path, "sha256:1") as file:
        assert file.remembered == 2


_SITTING = """
import sys
from pathlib import Path
from benchmarks.reduce_puzzles import scattered
from replay.distill.passes import SequenceLayer, reduce
from replay.distill.problem import Problem
from replay.distill.remembering import AnswerFile
from tests.distill.test_search_cost import _Plain

path, puzzle = Path(sys.argv[1]), scattered(500, 5, int(sys.argv[2]))

def fails(parts):
    print("asked", hash(parts), flush=True)
    return puzzle.fails(frozenset(parts))

with AnswerFile(path, "sha256:1") as file:
    problem = Problem(tuple(range(500)), fails=fails, size=len, answers=_Plain(file))
    reduce(problem, [SequenceLayer()])
print(sorted(problem.best), flush=True)
"""


def _sitting(path: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SITTING, str(path), str(seed)]
    return subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
    )


def _killed_and_resumed(path: Path, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    asked: list[str] = []
    for _ in range(kills):
        with _sitting(path, seed) as child:
            assert child.stdout is not None
            asked += [child.stdout.readline() for _ in range(chance.randrange(1, 20))]
            child.send_signal(signal.SIGKILL)
            asked += child.stdout.readlines()
    with _sitting(path, seed) as child:
        told, _ = child.communicate(timeout=60)
    *rest, best = told.splitlines(keepends=True)
    asked = [line for line in asked + rest if line.startswith("asked")]  # one may have ended first
    assert best.strip() == str(sorted(scattered(500, 5, seed).least or ()))
    assert len(asked) <= len(set(asked)) + kills  # the one that was being asked for, each time


def test_a_kill_at_any_moment_loses_at_most_the_answer_under_way(tmp_path: Path) -> None:
    _killed_and_resumed(tmp_path / "answers", 1, kills=1)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    for seed in range(10):
        _killed_and_resumed(tmp_path / str(seed), seed, kills=2)


def test_a_judge_knows_again_what_it_said(tmp_path: Path) -> None:
    nobody: Any = None
    judge = Judge(nobody, None, nobody, {"a": "passes"}, {"b": ("page.get",)})
    with AnswerFile(tmp_path / "answers", "sha256:1") as file:
        JudgeAnswers(file, judge).keep("a", fails=False)
        JudgeAnswers(file, judge).keep("b", fails=True)
    judge = Judge(nobody, None, nobody)
    with AnswerFile(tmp_path / "answers", "sha256:1") as file:
        again = JudgeAnswers(file, judge)
        assert (again.get("a"), again.get("b"), again.get("c")) == (False, True, None)
    assert judge.notes == {"a": "passes"}
    assert judge.consumed == {"b": ("page.get",)}
