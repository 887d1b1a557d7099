"""Asks the user's own functions whether what they check holds.

They run in this process, so nothing of them may get out of it but what they say of the planner:
whatever they raise or ask for tells nothing of it, and what they print does not stand in a report.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from replay.case import Case
from replay.planner import load
from tracekit.errors import PlannerError
from tracekit.trajectory import Trajectory


def ask_invariants(
    case: Case, trajectory: Trajectory, *, path: tuple[str, ...], clean: Callable[[str], str]
) -> tuple[dict[str, str | None], str | None]:
    """Ask the invariants of a case.

    Args:
        case: The case.
        trajectory: What the planner did.
        path: Folders to look for their modules in first.
        clean: Redacts what they print, which goes to standard error.

    Returns:
        What each says, None where it holds; and why not all could be asked, if so.
    """
    printed = io.StringIO()
    try:
        with _importing(path), redirect_stdout(printed), redirect_stderr(printed):
            return _asked(case, trajectory)
    finally:
        if text := printed.getvalue():
            sys.stderr.write(clean(text))


def _asked(case: Case, trajectory: Trajectory) -> tuple[dict[str, str | None], str | None]:
    said: dict[str, str | None] = {}
    for name in case.expected.invariants:
        try:
            check = load(name, what="the invariant")
        except PlannerError as error:
            return said, error.message
        if not callable(check):
            return said, f"the invariant {name} cannot be called"
        try:
            found = check(trajectory)
            said[name] = None if found is None or found is True else str(found or "does not hold")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a broken check, or one that ends the process, says nothing about the planner
            return said, f"the invariant {name} raised {type(error).__name__}: {error}"
    return said, None


@contextmanager
def _importing(path: tuple[str, ...]) -> Iterator[None]:
    """Let the user's own functions be found where the planner's modules are."""
    before = list(sys.path)
    sys.path[:0] = [*path, str(Path.cwd())]
    try:
        yield
    finally:
        sys.path[:] = before
