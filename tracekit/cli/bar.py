"""The progress bar of commands that go through many runs."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class Bar:
    """A progress bar on a terminal's stderr; nothing anywhere else."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TimeRemainingColumn

            self._progress = Progress(
                self._what, BarColumn(), "{task.completed:,.0f}/{task.total:,.0f}",
                "{task.fields[told]}", TimeRemainingColumn(), console=Console(stderr=True),
                transient=True,
            )  # fmt: skip
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, done: int, total: int, told: str = "") -> None:
        """Take note of how many are done, and what else is to be told."""
        if self._progress is None:
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=total, told="")
        self._progress.update(self._task, completed=done, told=told)
