"""A host of planners for the tests of isolation: a planner is a function of (request, channel)."""

from __future__ import annotations

import importlib
from typing import Any

from tracekit.errors import PlannerNotFound


def prepare() -> None:
    """Nothing: these planners call no tools."""


def load(spec: str) -> Any:
    module_name, _, name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise PlannerNotFound(f"there is no module {module_name!r}", hint="check it") from error
    if not hasattr(module, name):
        raise PlannerNotFound(f"module {module_name!r} has no {name!r}")
    return getattr(module, name)


def describe(planner: Any) -> dict[str, Any]:
    return {"kind": "function", "name": planner.__name__}


outline = describe


def run_in_child(planner: Any, request: dict[str, Any], channel: Any) -> dict[str, Any]:
    return {"value": planner(request, channel)}
