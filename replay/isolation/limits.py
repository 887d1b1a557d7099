"""What a replayed planner may use up, and how the child is held to it.

Memory is bounded twice: by RLIMIT_DATA, which turns a flood into a `MemoryError` at the line that
causes it and, unlike RLIMIT_AS, does not count address space that libraries only reserve; and by
the resident size, which the child's keeper looks at, for memory that the first does not count.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from replay.isolation.hook import let_through
from tracekit.errors import UsageError

_MB = 1024 * 1024
# Between the signal that tells what was used up and the one that only kills.
_CPU_MARGIN_S = 5
_SHORTEST_S, _LONGEST_S = 0.1, 86_400


@dataclass(frozen=True)
class Limits:
    """Bounds on one run, and on getting ready for the first."""

    wall_s: float = 120.0
    """Seconds from start to end, the answers of the parent included."""

    start_s: float = 60.0
    """Seconds that the planner's modules may take to be imported."""

    cpu_s: int | None = None
    """Seconds of processor time, where it is to be bounded apart from ``wall_s``."""

    memory_mb: int = 2048
    """Memory of the planner's process."""

    max_message_mb: int = 64
    """The largest message over the pipe, either way."""

    max_messages: int = 1_000_000
    """Messages of one run."""

    max_file_mb: int = 256
    """The largest file in scratch."""

    max_output_kb: int = 64
    """How much of the end of the planner's output is kept."""

    def __post_init__(self) -> None:
        for name in ("wall_s", "start_s"):
            if not _SHORTEST_S <= (seconds := getattr(self, name)) <= _LONGEST_S:
                raise UsageError(
                    f"a limit of {seconds:g} s is no time", hint=f"{name}: 0.1 to a day"
                )

    @property
    def max_message(self) -> int:
        """Return the largest message in bytes."""
        return self.max_message_mb * _MB

    def as_dict(self) -> dict[str, Any]:
        """Return the limits as they go over the pipe."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Limits:
        """Read the limits as they came over the pipe."""
        return cls(**values)


def apply_to_child(limits: Limits) -> None:
    """Bound this process and its children: files, no core dump."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, limits.max_file_mb * _MB)


def apply_to_run(limits: Limits) -> None:
    """Bound this process, one run: memory and processor time."""
    _lower(resource.RLIMIT_DATA, limits.memory_mb * _MB)
    if limits.cpu_s is not None:
        _lower(resource.RLIMIT_CPU, limits.cpu_s, above=_CPU_MARGIN_S)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MB
    return 0.0


def _lower(kind: int, value: int, *, above: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    soft, top = value, value + above
    if hard != resource.RLIM_INFINITY:
        soft, top = min(soft, hard), min(top, hard)
    with contextlib.suppress(OSError, ValueError):  # a system without this limit has the others
        let_through("resource.setrlimit")
        resource.setrlimit(kind, (soft, top))
