"""A case inside a test that somebody writes by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replay.case import read_case
from replay.caserun.runner import CaseResult, run_case
from replay.caserun.wording import describe_result
from replay.replayer import ReplayOptions

Test = Callable[..., Any]


class CaseNotPassed(AssertionError):
    """A case did not pass; its text is the whole report."""


def on_case(
    path: str | Path,
    *,
    planner: str | object | None = None,
    options: ReplayOptions | None = None,
    repeat: int = 1,
) -> Callable[[Test], Test]:
    """Run a case before a test, and give the test what it came to.

    The test fails where the case is not passed, also where that is inconclusive. What it asserts of
    the ``CaseResult``, its first argument, comes on top; its other arguments are fixtures.

    Args:
        path: The case file.
        planner: ``MOD:OBJ``, or the planner itself; the case's own by default.
        options: Isolation, limits, and a model to use instead of the case's.
        repeat: How often it must pass, if its ``rate`` asks for no more; the last counts.

    Raises:
        CaseError: the file is no case.
        ValueError: ``repeat`` is no positive number.
    """
    if repeat < 1:
        raise ValueError(f"repeat is {repeat}; it has to be run at least once")
    case = read_case(path)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            times = max(repeat, case.repeat)
            result = _passed(lambda: run_case(case, planner, options=options), times, path)
            return test(result, *args, **kwargs)

        named = _parameters(test)
        # pytest asks for a fixture by the name of each parameter that it sees
        vars(wrapper)["__signature__"] = inspect.Signature(named[1:])
        del vars(wrapper)["__wrapped__"]
        return wrapper

    return decorate


def _parameters(test: Test) -> list[inspect.Parameter]:
    named = list(inspect.signature(test).parameters.values())
    if not named or named[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError(f"{test.__name__} takes no result as its first argument")
    return named


def _passed(run: Callable[[], CaseResult], repeat: int, path: str | Path) -> CaseResult:
    for number in range(1, repeat + 1):
        result = run()
        if not result.passed:
            which = f"in run {number} of {repeat}: " if repeat > 1 else ""
            raise CaseNotPassed(which + describe_result(result, path=str(path)))
    return result
