"""What a planner's code declares: the shape of each of its tools, and the versions it was given.

A case remembers both from the run that it was made of, so that it can be told when the code has
outgrown it. Only the planner's own package is looked at; nothing is called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import digest
from tracekit.configuration import recorder
from tracekit.contract import Contract
from tracekit.decorators import MARK

VERSIONS = ("prompt", "tool_schema")
"""Of the version set, what decides whether a case still speaks of the code."""
_SHORT = 12


@dataclass(frozen=True)
class Declared:
    """What code declares now."""

    tools: Mapping[str, str] = field(default_factory=dict)
    """Tool → its shape."""
    versions: Mapping[str, str] = field(default_factory=dict)


def shape_of(contract: Contract) -> str | None:
    """Name what a tool takes, so that another name means other arguments; None where unknown."""
    if contract.parameters is None and contract.argument_schema is None:
        return None
    own = [p for p in contract.parameters or () if p.kind != "receiver"]
    said = contract.model_dump(mode="json", include={"parameters", "argument_schema"})
    if contract.parameters is not None:  # whose it is, is nothing that it takes
        said["parameters"] = [parameter.model_dump(mode="json") for parameter in own]
    return digest(said).partition(":")[2][:_SHORT]


def declared_by(planner: object) -> dict[str, Any]:
    """List the tools of the package that ``planner`` stands in, and the versions given in it.

    Returns:
        ``{"tools": {name: shape}, "versions": {name: version}}``.
    """
    owner = planner if inspect.isclass(planner) or inspect.isroutine(planner) else type(planner)
    root = str(getattr(owner, "__module__", "")).partition(".")[0]
    tools: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        if name != root and not name.startswith(f"{root}."):
            continue
        for value in list(vars(module).values()):
            contract = _contract(value)
            if contract is not None and (shape := shape_of(contract)) is not None:
                tools[contract.name] = shape
    return {"tools": tools, "versions": relevant(recorder().versions)}


def relevant(versions: Mapping[str, str]) -> dict[str, str]:
    """Give the versions by which a case can be outgrown."""
    return {name: versions[name] for name in VERSIONS if name in versions}


def _contract(value: object) -> Contract | None:
    if not callable(value):
        return None
    mark = inspect.getattr_static(value, MARK, None)
    found = getattr(mark, "contract", None)
    return found if isinstance(found, Contract) else None
