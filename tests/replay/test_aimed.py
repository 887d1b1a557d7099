"""Options that name tools and arguments: what is misspelt or can never apply is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, replay_run
from replay.aimed import check_fault_names, check_faults, check_names, check_policies, never_met
from replay.faults import PlacedFault
from replay.isolation import Limits
from replay.matching import ArgumentMap, Policies
from replay.planner import load
from replay.tape import Tape
from replay.workers import Bindings
from tests.replay.tape_kit import call, record, seen
from tracekit.canonical import JsonValue
from tracekit.errors import PlannerNotFound, UsageError
from tracekit.trajectory import ModelCall

KNOWN = {"search", "refund", "find_order"}


@pytest.mark.parametrize(
    ("policies", "bindings", "said"),
    [
        ({"ignores": {"serach": ("/q",)}}, {}, "--ignore names the tool 'serach'"),
        ({"windows": {"serach": {"/at": 1.0}}}, {}, "--window names the tool 'serach'"),
        ({"unmatched": {"serach": "stop"}}, {}, "--unmatched names the tool 'serach'"),
        ({"maps": (ArgumentMap("serach", "refund"),)}, {}, "--map names the tool 'serach'"),
        ({"maps": (ArgumentMap("refund", "serach"),)}, {}, "--map names the tool 'serach'"),
        ({"live": frozenset({"serach"})}, {}, "--live names the tool 'serach'"),
        ({}, {"simulate": {"serach": "m:f"}}, "--simulate names the tool 'serach'"),
        ({}, {"sandbox": {"serach": "m:f"}}, "--sandbox names the tool 'serach'"),
    ],
)
def test_an_option_for_a_tool_that_nobody_knows_names_the_nearest(
    policies: dict[str, Any], bindings: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        check_names(Policies(**policies), Bindings(functions=bindings), KNOWN)
    assert "the nearest is search" in str(caught.value)


def test_known_tools_effects_and_all_of_them_may_be_named() -> None:
    policies = Policies(
        unmatched={"*": "stop", "read": "nearest", "write": "stop", "search": "nearest"},
        ignores={"find_order": ("/at",)},
    )
    check_names(policies, Bindings(functions={"simulate": {"*": "m:f"}}), KNOWN)


def test_an_effect_that_is_misspelt_is_told() -> None:
    with pytest.raises(UsageError, match="'wirte'") as caught:
        check_names(Policies(unmatched={"wirte": "stop"}), Bindings(), KNOWN)
    assert "the nearest is write" in str(caught.value)


@pytest.mark.parametrize("policy", ["nearest", "live"])
def test_a_policy_that_no_write_may_have_is_refused_where_the_effect_is_known(policy: Any) -> None:
    with pytest.raises(UsageError, match="is for reads"):
        Policies(unmatched={"write": policy})
    tape = Tape.of(record(call("refund", "write"), call("search")))
    check_policies(Policies(unmatched={"search": policy}), tape)
    with pytest.raises(UsageError, match="it is a write in this recording"):
        check_policies(Policies(unmatched={"refund": policy}), tape)


def test_an_argument_of_a_write_cannot_be_left_out_and_that_is_told() -> None:
    tape = Tape.of(record(call("refund", "write", amount=1), call("put", "unknown", at=1)))
    for policies in (
        Policies(ignores={"refund": ("/amount",)}),
        Policies(windows={"refund": {"/at": 1.0}}),
    ):
        with pytest.raises(UsageError, match="of a write every argument counts"):
            check_policies(policies, tape)
    undeclared = Policies(ignores={"put": ("/at",)})
    check_policies(undeclared, tape)  # what the new code declares replaces nothing
    calls: list[tuple[str, JsonValue]] = [("put", {"at": 1})]
    assert never_met(undeclared, calls, {"put"}) == ()
    assert never_met(undeclared, calls, ()) == (
        "--ignore put:/at was in vain: it is for reads, and no call of put counts as one",
    )


def test_a_fault_is_refused_at_what_it_does_not_happen_to() -> None:
    asked = ModelCall("m1", "", {"prompt": "hi"}, None, seen("hello"), name="plan")
    tape = Tape.of(record(call("put", "write"), prompts=[asked]))

    def check(*faults: str) -> None:
        check_faults(map(PlacedFault.parse, faults), tape, {"tools": {"look": ""}})

    check("put=timeout", "plan=429", "plan#2=503", "other=429", "1=429", "look#1=error:x")
    for fault in ("put=429", "put#1=truncated", "look=503"):
        with pytest.raises(UsageError, match=r"does not happen to a tool, which (put|look) is"):
            check(fault)
    with pytest.raises(UsageError, match="does not happen to a model, which plan is"):
        check("plan=refused")


@pytest.mark.parametrize(
    ("fault", "hint"),
    [("serach=empty", "search"), ("serach#2=error:x", "search"), ("planr=429", "planer")],
)
def test_a_fault_of_what_nobody_knows_names_the_nearest(fault: str, hint: str) -> None:
    placed = PlacedFault.parse(fault)
    with pytest.raises(UsageError, match=f"--fault {fault}: .* is no tool or model") as caught:
        check_fault_names([placed], {*KNOWN, "planer", ""})
    assert f"the nearest is {hint}" in str(caught.value)
    known = [PlacedFault.parse(text) for text in ("search=empty", "planer#2=429", "1=timeout")]
    check_fault_names(known, {"search", "planer"})


def test_a_place_that_is_no_pointer_is_refused() -> None:
    with pytest.raises(UsageError, match="'q' is no JSON pointer"):
        Policies(ignores={"search": ("q",)})


def test_a_place_that_no_call_has_is_noted() -> None:
    policies = Policies(
        ignores={"search": ("/at", "/tiem")},
        windows={"refund": {"/at": 1.0}},
        maps=(ArgumentMap("search", "search", "/at", "/when"),),
    )
    calls: list[tuple[str, JsonValue]] = [
        ("search", {"at": 1}),
        ("search", {"when": 1}),
        ("refund", {}),
    ]
    assert never_met(policies, calls, {"search"}) == (
        "--ignore search:/tiem was in vain: no call of search has that argument",
        "--window refund:/at was in vain: no call of refund has that argument",
    )


def test_a_replay_says_which_option_was_misspelt_and_which_was_in_vain(tmp_path: Path) -> None:
    @tracekit.tool(effect="read", name="search")
    def search(query: str) -> int:
        return 42

    @tracekit.agent
    def desk(order: str) -> int:
        return search(order)

    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="run-1"):
        desk("A-17")
    tool = "search"
    noted = replay_run(
        "run-1",
        planner=desk,
        store=tmp_path / "store",
        options=ReplayOptions(policies=Policies(ignores={tool: ("/when",)})),
    )
    assert noted.notes == (
        f"--ignore {tool}:/when was in vain: no call of {tool} has that argument",
    )
    with pytest.raises(UsageError, match=r"--ignore names the tool 'serach'"):
        replay_run(
            "run-1",
            planner=desk,
            store=tmp_path / "store",
            options=ReplayOptions(policies=Policies(ignores={"serach": ("/q",)})),
        )
    with pytest.raises(UsageError, match=r"--fault serach=empty: 'serach' is no tool or model"):
        replay_run(
            "run-1",
            planner=desk,
            store=tmp_path / "store",
            options=ReplayOptions(faults=(PlacedFault.parse("serach=empty"),)),
        )


@pytest.mark.parametrize("name", ["./ag.py", "ag.py", "agents/ag", ".ag", "/agents/ag.py"])
def test_a_path_is_no_name_of_a_planner_and_the_name_is_told(name: str) -> None:
    with pytest.raises(PlannerNotFound, match="is no name of a module") as caught:
        load(f"{name}:desk")
    assert "for example ag:desk" in str(caught.value) or name == ".ag"


@pytest.mark.parametrize("seconds", [0, -1, 0.0001, float("nan"), 1e9])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match=r"0\.1 to a day"):
        Limits(wall_s=seconds)
