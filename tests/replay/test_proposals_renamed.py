"""Renames of ``--map``, for planners that propose calls by name and arguments alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay import ReplayOptions
from replay.matching import Policies, parse_map
from replay.proposals import compare_decisions
from replay.replayer import Replayer
from replay.tape import Tape
from tests.replay.tape_kit import asked, call, contract, player, record, value
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Parameter
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
    ("maps", "calls", "kind", "rungs"),
    [
        ("look:/what=look:/query", [("look", {"query": "a"})], "pass", ["normalised"]),
        ("look:/what=find:/query", [("find", {"query": "a"})], "pass", ["normalised"]),
        ("look=find", [("find", {"what": "a"})] * 2, "fail", ["normalised", "error"]),
        ("look:/what=find:/query", [("find", {})], "pass", ["invalid"]),
        ("look=pay pay=look", [("pay", {"what": "a"})], "pass", ["normalised"]),
        ("look=pay pay=look", [("look", {"what": "a"})], "fail", ["error"]),
        ("look=pay", [("look", {"what": "a"})], "fail", ["error"]),
    ],
)
def test_a_mapped_call_of_who_only_decides_is_held_against_the_recorded_tool(
    maps: str, calls: list[tuple[str, JsonValue]], kind: str, rungs: list[str]
) -> None:
    tools = [contract("look", "read", "what"), contract("pay", "write", "what")]

    def decides(history: list[dict[str, object]], tools: object) -> dict[str, object]:
        done = sum(message["role"] == "tool" for message in history)
        if done == len(calls):
            return {"answer": "because"}
        return {"tool": calls[done][0], "arguments": calls[done][1]}

    policies = Policies(maps=tuple(map(parse_map, maps.split())))
    options = ReplayOptions(isolation="process", self_test=False, policies=policies)
    with Replayer(decides, options) as replayer:
        result = replayer.replay(record(call("look", "read", "found", what="a"), tools=tools))
    assert (result.verdict.kind, [one.answer.rung for one in result.answered]) == (kind, rungs)


def test_who_only_decides_says_neither_whose_a_mapped_call_is_nor_what_its_key_is() -> None:
    bare = Contract(name="payout", effect="write")
    maps = (parse_map("pay=payout"),)
    keyed = contract("pay", "write", "to", "key", idempotency_field="/key")
    paid = replace(call("pay", "write", to="B", key="k-1"), contract=keyed)
    ask = replace(asked("payout", "write", to="B", key="k-2"), contract=bare, key=None)
    assert player(record(paid), maps=maps).call(ask).rung == "normalised"

    whose = (Parameter(name="self", kind="receiver"), Parameter(name="to"))
    paid = replace(
        call("pay", "write", self={"iban": "1"}, to="B"),
        contract=Contract(name="pay", effect="write", parameters=whose),
    )
    ask = replace(ask, arguments={"to": "B"})
    assert player(record(paid), maps=maps).call(ask).rung == "normalised"


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
