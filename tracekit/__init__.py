"""tracekit records what an agent did, so that it can be replayed, compared and distilled.

Recording needs nothing but this module; what is heavy is loaded by the commands that need it.
"""

from __future__ import annotations

from tracekit.configuration import configure
from tracekit.contract import Matchers
from tracekit.decorators import agent, llm, retrieval, step, tool
from tracekit.errors import TracekitError
from tracekit.notes import environment, evidence, policy, run, state

__all__ = [
    "Matchers",
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
