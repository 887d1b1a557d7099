"""A case inside a test that is written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import replay
from tests.distill.case_kit import INJECTION, planners

__all__ = ["planners"]

TESTS = """
import unittest

import pytest
import replay

CASE = "injection.case.yaml"


@pytest.fixture
def seven() -> int:
    return 7


@replay.on_case(CASE, planner="planners:careful", repeat=2)
def test_the_fix_holds(result: replay.CaseResult, seven: int) -> None:
    assert seven == 7
    assert result.passed
    assert result.consumed


@replay.on_case(CASE, planner="planners:obedient")
def test_it_still_fails(result):
    raise ValueError("never reached")


@replay.on_case(CASE, planner="planners:careful")
def test_more_is_asserted(result):
    assert result.planner == "another"


class TestOfAClass:
    @replay.on_case(CASE, planner="planners:careful")
    def test_in_a_class(self, result, seven):
        assert result.passed and seven == 7 and isinstance(self, TestOfAClass)

    @pytest.mark.parametrize("number", [7])
    @replay.on_case(CASE, planner="planners:careful")
    def test_after_fixtures_of_a_class(self, number, seven, result):
        assert result.passed and number == seven and isinstance(self, TestOfAClass)

    @replay.on_case(CASE, planner="planners:careful")
    def test_any_number(*args):
        assert [type(one).__name__ for one in args] == ["TestOfAClass", "CaseResult"]


class TestCase(unittest.TestCase):
    @replay.on_case(CASE, planner="planners:careful")
    def test_of_unittest(self, result):
        self.assertTrue(result.passed)


@replay.on_case(CASE, planner="planners:careful")
def test_after_a_fixture(seven, result):
    assert result.passed and seven == 7


@replay.on_case(CASE, planner="planners:careful")
def test_by_its_name(seven, *, result):
    assert result.passed and seven == 7


@replay.on_case(CASE, planner="planners:careful")
@replay.on_case(CASE, planner="planners:first_call_only", repeat=1)
def test_two(first, second):
    raise ValueError("never reached")
"""


def test_a_decorated_test_runs_its_case_first(planners: Path) -> None:
    (planners / "injection.case.yaml").write_text(INJECTION, encoding="utf-8")
    (planners / "test_hand.py").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hand.py"],
        cwd=planners,
        env={**os.environ, "PYTHONPATH": str(planners)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "7 passed" in done.stdout
    assert "3 failed" in done.stdout, done.stdout
    assert "never reached" not in done.stdout.replace(TESTS, "").split("short test summary")[1]
    assert "which is forbidden" in done.stdout
    assert "Open it: tracekit case show injection.case.yaml" in done.stdout


def test_a_decorator_that_would_run_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_text(INJECTION, encoding="utf-8")
    with pytest.raises(ValueError, match="repeat is 0"):
        replay.on_case(path, repeat=0)
    with pytest.raises(TypeError, match="takes no result"):

        @replay.on_case(path)
        def test() -> None: ...


def test_a_test_that_is_no_plain_function_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_text(INJECTION, encoding="utf-8")

    async def coroutine(result: object) -> None: ...

    def generator(result: object) -> Iterator[None]:
        yield

    class Class: ...

    for test, what in (
        (coroutine, "a coroutine function"),
        (generator, "a generator function"),
        (Class, "a class"),
        (staticmethod(lambda result: None), "a static or class method"),
    ):
        with pytest.raises(TypeError, match=f"is {what}: .* replay.run_case"):
            replay.on_case(path)(test)  # type: ignore[arg-type]  # refused as what it is


def test_a_case_is_loaded_by_its_public_name(tmp_path: Path) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_text(INJECTION, encoding="utf-8")
    assert replay.load_case(path).name
