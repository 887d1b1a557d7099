"""Short ways to write runs for the tests of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.oracles.runs import call, outcome
from tracekit.canonical import JsonValue
from tracekit.contract import Contract
from tracekit.trajectory import Call, Trajectory


def run(
    *steps: Call | Sequence[Call],
    labels: dict[str, JsonValue] | None = None,
    answer: JsonValue = "done",
    **fields: Any,
) -> Trajectory:
    """A run of one decision for each step, and the answer."""
    made = outcome(*steps, answer=answer).trajectory
    assert made is not None
    attributes: dict[str, JsonValue] = {"labels": labels} if labels else {}
    return replace(made, attributes=attributes, **fields)


def read(tool: str, result: JsonValue = "ok", /, **given: Any) -> Call:
    return call(tool, result, **given)


def write(tool: str, result: JsonValue = "ok", /, **given: Any) -> Call:
    return replace(call(tool, result, **given), effect="write")


def failing(tool: str, /, **given: Any) -> Call:
    return call(tool, error="Timeout", **given)


def refused(one: Call) -> Call:
    return replace(one, policy_decision="deny", policy_id="no-refunds")


def declared(one: Call, **contract: Any) -> Call:
    return replace(one, contract=Contract(name=one.tool, effect=one.effect, **contract))
