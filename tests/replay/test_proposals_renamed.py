"""Renames of ``--map``, for planners that propose calls by name and arguments alone."""

from __future__ import annotations

import pytest

from replay.matching import parse_map
from replay.proposals import compare_decisions
from replay.tape import Tape
from tests.replay.tape_kit import asked, call, contract, player, record, value
from tracekit.canonical import JsonValue
from tracekit.trajectory import Trajectory

MAPS = (parse_map("look:/what=find:/query"),)


def recorded() -> Trajectory:
    tools = [contract("look", "read", "what", defaults={"depth": 1})]
    return record(call("look", "read", "found", what="a", depth=1), tools=tools)


def decision(tool: str, **arguments: JsonValue) -> JsonValue:
    return {"calls": [{"tool": tool, "arguments": arguments}], "message": None}


def test_a_renamed_call_of_a_planner_that_only_decides_is_found() -> None:
    answer = player(recorded(), maps=MAPS).call(asked("find", query="a"))
    assert (answer.rung, value(answer)) == ("normalised", "found")


def test_one_that_lacks_an_argument_is_still_refused_as_its_tool_would_refuse_it() -> None:
    answer = player(recorded(), maps=MAPS).call(asked("find", depth=1))
    assert (answer.rung, answer.tainted) == ("invalid", False)


@pytest.mark.parametrize(
    ("proposed", "change"),
    [
        (decision("find", query="a"), "same"),
        (decision("look", what="a"), "other tool"),  # what has the name now is not what had it
        (decision("find", query="b"), "changed arguments"),
        (decision("seek", query="a"), "other tool"),
        ("done", "other answer"),
    ],
)
def test_renamed_calls_are_compared_with_the_recorded_ones(
    proposed: JsonValue, change: str
) -> None:
    then = decision("look", what="a", depth=1)
    found = compare_decisions(1, then, proposed, Tape.of(recorded()), by="model", maps=MAPS)
    assert (found.change, found.proposed) == (change, proposed)
