"""Where a planner runs, and what it is called: a child process for all that can be imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Protocol

from replay.isolation import InProcess, Isolate, Level, Limits
from replay.planner import outline
from tracekit.decorators import MARK
from tracekit.settings import REDACT

_DUMMY_ENVIRONMENT = {"OPENAI_API_KEY": "not-needed-in-a-replay"}
"""Clients insist on a key when they are made; no request of theirs ever leaves the process."""


class Place(Protocol):
    """What is chosen about the place where a planner runs; see ``ReplayOptions``."""

    @property
    def isolation(self) -> Level | None:
        """The walls; None takes the strongest that can stand here."""

    @property
    def limits(self) -> Limits:
        """Time, memory and sizes."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables beside the few that pass by themselves."""

    @property
    def path(self) -> tuple[str, ...]:
        """Folders to look for modules in first."""


def isolate(planner: str | object, options: Place) -> Isolate | InProcess:
    """Choose where the planner runs: a child process if it can be imported, else this process."""
    spec = planner if isinstance(planner, str) else importable(planner)
    if spec is None:
        return InProcess(planner, level=options.isolation)
    return Isolate(
        spec,
        level=options.isolation,
        limits=options.limits,
        path=options.path,
        env={**_DUMMY_ENVIRONMENT, **_rules_of_operators(), **options.environment},
    )


def _rules_of_operators() -> dict[str, str]:
    """What the planner redacts has to be what was redacted when it was recorded."""
    return {REDACT: os.environ[REDACT]} if REDACT in os.environ else {}


def importable(planner: object) -> str | None:
    """``MOD:OBJ`` of a planner that a fresh process can import; None for a closure."""
    module = getattr(planner, "__module__", None)
    name = getattr(planner, "__qualname__", None)
    if not module or not name or module == "__main__" or "<locals>" in name:
        return None
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is planner else None


def importable_name(planner: str | object) -> str | object:
    """``MOD:OBJ`` of a planner, or the planner itself where nothing can import it."""
    return planner if isinstance(planner, str) else importable(planner) or planner


def name_of(planner: object) -> str:
    """What a planner that was given as an object is called in the record."""
    mark = getattr(planner, MARK, None)
    name: str = mark.name if mark is not None else outline(planner)["name"]
    return f"{getattr(planner, '__module__', '?')}:{name}"
