"""A figure, how it is measured, and the table of all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    what: str
    value: str
    ratio: float | None = None
    """Against the reference of the same run."""
    target: float | None = None
    """The ratio that is to be reached; None where none is set."""


def interleaved(
    tasks: Mapping[str, Callable[[], object]], *, calls: int, repeats: int
) -> dict[str, float]:
    """Measure the caller's CPU time in µs a call: of each task the median of the repeats."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():  # imports, caches and files of the first call are not the cost
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.thread_time_ns()
            for _ in range(calls):
                task()
            times[name].append((time.thread_time_ns() - start) / calls / 1_000)
    return {name: statistics.median(found) for name, found in times.items()}


def table(lines: list[Line]) -> str:
    """Give the lines as a table of plain text."""
    rows = [("", "figure", "ratio", "target")]
    rows += [
        (
            line.what,
            line.value,
            "" if line.ratio is None else f"{line.ratio:.2f}",
            "" if line.target is None else f"<= {line.target:g}",
        )
        for line in lines
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
