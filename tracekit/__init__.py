"""tracekit records what an agent did, so that it can be replayed, compared and distilled.

Recording needs nothing but this module; what is heavy is loaded by the commands that need it. The
names here are loaded when they are first used, so that a program which only may record, and a
command line which only shows its help, pay for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracekit import conditions as conditions
    from tracekit.configuration import configure
    from tracekit.contract import Matchers
    from tracekit.decorators import agent, llm, retrieval, step, tool
    from tracekit.errors import TracekitError
    from tracekit.limits import Limits
    from tracekit.notes import environment, evidence, policy, run, state
    from tracekit.sampling import Sampling

__all__ = [
    "Limits",
    "Matchers",
    "Sampling",
    "TracekitError",
    "agent",
    "configure",
    "environment",
    "evidence",
    "llm",
    "policy",
    "retrieval",
    "run",
    "state",
    "step",
    "tool",
]

_HOMES = {
    "configuration": ("configure",),
    "contract": ("Matchers",),
    "decorators": ("agent", "llm", "retrieval", "step", "tool"),
    "errors": ("TracekitError",),
    "limits": ("Limits",),
    "notes": ("environment", "evidence", "policy", "run", "state"),
    "sampling": ("Sampling",),
}
"""Module → the public names that it defines."""


def __getattr__(name: str) -> Any:
    """Load a public name, or ``conditions``, the moment it is asked for."""
    if name == "conditions":
        return importlib.import_module("tracekit.conditions")
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(f"tracekit.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
