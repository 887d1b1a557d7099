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
_ANY_NUMBER = inspect.Parameter.VAR_POSITIONAL
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_RESULT = "result"
_STRANGE: tuple[tuple[Callable[[object], bool], str], ...] = (
    (inspect.isclass, "a class"),
    (lambda test: isinstance(test, staticmethod | classmethod), "a static or class method"),
    (inspect.iscoroutinefunction, "a coroutine function"),
    (inspect.isgeneratorfunction, "a generator function"),
    (inspect.isasyncgenfunction, "a generator function"),
)
"""What pytest runs in ways of its own, or not at all once it is wrapped."""


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
    the ``CaseResult`` comes on top: that is its argument ``result``, or its first one (after
    ``self``) where none is called so; the others are fixtures.

    Args:
        path: The case file.
        planner: ``MOD:OBJ``, or the planner itself; the case's own by default.
        options: Isolation, limits, and a model to use instead of the case's.
        repeat: How often it must pass, if its ``rate`` asks for no more; the last counts.

    Raises:
        CaseError: the file is no case.
        ValueError: ``repeat`` is no positive number.
        TypeError: what is decorated is no plain function or method that takes the result.
    """
    if repeat < 1:
        raise ValueError(f"repeat is {repeat}; it has to be run at least once")
    case = read_case(path)

    times = max(repeat, case.repeat)
    run = functools.partial(run_case, case, planner, options=options)
    return lambda test: _decorated(test, lambda: _passed(run, times, path))


def _decorated(test: Test, case_result: Callable[[], CaseResult]) -> Test:
    before = _before_result(test)
    named = _parameters(test)
    taken = named[0] if named[0].kind is _ANY_NUMBER else named[before]

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) < before or taken.kind is _BY_NAME:  # pytest gives fixtures by their names
            return test(*args, **kwargs, **{taken.name: case_result()})
        return test(*args[:before], case_result(), *args[before:], **kwargs)

    # pytest asks for a fixture by the name of each parameter that it sees
    shown = [one for one in named if one is not taken or one.kind is _ANY_NUMBER]
    vars(wrapper)["__signature__"] = inspect.Signature(shown)
    del vars(wrapper)["__wrapped__"]
    return wrapper


def _parameters(test: Test) -> list[inspect.Parameter]:
    return list(inspect.signature(test).parameters.values())


def _before_result(test: Test) -> int:
    """How many arguments come before the result.

    Where none is called so it is the first, after ``self`` where the test stands in a class.

    Raises:
        TypeError: it is nothing that could be given a result.
    """
    for seen, what in _STRANGE:
        if seen(test):
            raise TypeError(
                f"{getattr(test, '__name__', test)} is {what}: a case is run before a plain "
                "function or method; in this one, run it with replay.run_case"
            )
    named = _parameters(test)
    for place, one in enumerate(named):
        if one.name == _RESULT and one.kind not in (_ANY_NUMBER, inspect.Parameter.VAR_KEYWORD):
            return place
    parent = test.__qualname__.rpartition(".")[0]
    before = 1 if parent and not parent.endswith("<locals>") else 0
    many = bool(named) and named[0].kind is _ANY_NUMBER
    if not many and (len(named) <= before or named[before].kind is _BY_NAME):
        raise TypeError(f"{test.__name__} takes no result as its first argument")
    return before


def _passed(run: Callable[[], CaseResult], repeat: int, path: str | Path) -> CaseResult:
    for number in range(1, repeat + 1):
        result = run()
        if not result.passed:
            which = f"in run {number} of {repeat}: " if repeat > 1 else ""
            raise CaseNotPassed(which + describe_result(result, path=str(path)))
    return result
