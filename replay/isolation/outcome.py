"""What the isolation says of itself: the walls that stood, and how a run ended.

All of it is values. A planner that hangs, floods memory or dies is an `Exit`; only what keeps a
replay from starting at all is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["kernel", "process", "guard"]
"""How far the walls go: each level holds all walls of those after it."""

LEVELS: tuple[Level, ...] = ("kernel", "process", "guard")

Ending = Literal["done", "crashed", "timeout", "memory", "killed", "protocol", "too large"]
"""How a run ended; every one but ``done`` left without a result."""

OUTSIDE: tuple[Ending, ...] = ("killed", "too large")
"""Endings that say nothing of the planner: who ends a process from outside is not it, and a value
too large for the pipe is one that a recording takes."""


@dataclass(frozen=True)
class Wall:
    """One wall and its proof."""

    name: str
    """``kernel`` (the confined child) or ``process`` (the hook in the interpreter)."""

    held: bool
    """Every attempt of the self-test was refused, and nothing of it arrived."""

    evidence: str
    """What was tried at start and what came of it, in words."""

    unseen: tuple[str, ...] = ()
    """Kinds of attempt that this wall cannot list one by one, or does not see."""


@dataclass(frozen=True)
class Ready:
    """The walls stand and the planner is imported."""

    level: Level
    """The level that stands."""

    walls: tuple[Wall, ...]
    """Each wall that was put up, strongest first."""

    planner: dict[str, Any]
    """What the planner is, as the child describes it."""

    findings: tuple[dict[str, Any], ...] = ()
    """What the planner's modules attempted while they were imported."""

    output: str = ""
    """The end of what they printed."""

    notes: tuple[str, ...] = ()
    """What is otherwise than usual with this planner, one sentence each."""


@dataclass(frozen=True)
class Exit:
    """How one run ended."""

    kind: Ending
    """The ending."""

    detail: str
    """One sentence for a person; empty when the run is done."""

    result: dict[str, Any] | None = None
    """What the planner's side handed back, only with ``done``."""

    output: str = field(default="", repr=False)
    """The end of what the planner printed on stdout and stderr."""

    traceback: str = field(default="", repr=False)
    """The child's traceback, where an exception ended the run."""
