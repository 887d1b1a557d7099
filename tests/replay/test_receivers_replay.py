"""Whose call it is, in a replay: no observation is given to another object's call."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.diff import diff
from replay.distill.draft import draft_of
from replay.matching import AskedCall
from replay.proposals import compare_decisions
from replay.result import LockedBy, LockedDecision
from replay.tape import Tape
from replay.toolhost import _fitted
from tests.replay.tape_kit import call, player, record, value
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Matchers, Parameter
from tracekit.trajectory import Trajectory

SELF = Parameter(name="self", kind="receiver")
PLAIN = Contract(name="pay", effect="write", parameters=(Parameter(name="x"),))


class Account:
    def __init__(self, iban: str, balance: int = 0) -> None:
        self.iban = iban
        self.calls = 0
        self.held = [balance]

    @tracekit.tool(effect="write")
    def pay(self, amount: int) -> str:
        self.calls += 1
        return f"{amount} from {self.iban}"

    @tracekit.tool(effect="read")
    def balance(self) -> int:
        return self.held[0]

    @tracekit.tool(effect="read")
    async def later(self) -> str:
        for _ in range(self.held[0]):
            await asyncio.sleep(0)
        return self.iban


class Savings(Account):
    pass


def maker(iban: str) -> Callable[[int], str]:
    @tracekit.tool(effect="write", name="settle")
    def settle(amount: int) -> str:
        return f"{amount} from {iban}"

    return settle


@tracekit.tool(effect="write")
def wire(cls: str, amount: int) -> str:
    return f"{amount} in {cls}"


Replayed = Callable[[Callable[[], object], Callable[[], object]], ReplayResult]


@pytest.fixture
def replayed(tmp_path: Path) -> Replayed:
    """Record one agent and replay another one on it."""
    ids = iter(range(100))

    def run(old: Callable[[], object], new: Callable[[], object]) -> ReplayResult:
        tracekit.configure(store=tmp_path / "store")
        name = f"r-{next(ids)}"
        with tracekit.run(run_id=name):
            came = tracekit.agent(old)()
            if asyncio.iscoroutine(came):
                asyncio.run(came)
        tracekit.configure(store=tmp_path / "elsewhere")
        options = ReplayOptions(isolation="guard")
        return replay_run(
            name, planner=tracekit.agent(new), store=tmp_path / "store", options=options
        )

    return run


def answer(result: ReplayResult) -> Any:
    assert result.trajectory is not None
    return result.trajectory.answer.value


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (lambda: Account("A").pay(10), lambda: Account("B").pay(10), "/self/iban"),
        (lambda: Account("A").pay(10), lambda: Savings("A").pay(10), "/self/class"),
        (lambda: maker("A")(10), lambda: maker("B")(10), "/nonlocal/iban"),
        (lambda: wire("bonds", 10), lambda: wire("crypto", 10), "/cls"),
    ],
)
def test_a_write_of_another_receiver_is_not_answered_and_the_field_is_named(
    replayed: Replayed, old: Any, new: Any, where: str
) -> None:
    assert replayed(old, old).verdict.kind == "pass"
    result = replayed(old, new)
    assert result.verdict.kind == "fail"
    (step,) = result.answered
    assert step.answer.rung == "error"
    assert f"{where}: recorded" in step.answer.explanation
    named = "@tool(receiver=[...])" in step.answer.explanation
    assert named == (where in ("/self/iban", "/nonlocal/iban"))


def test_reads_of_several_objects_find_their_own_observations_in_any_order(
    replayed: Replayed,
) -> None:
    def both() -> list[int]:
        return [Account("A", 100).balance(), Account("B", 5).balance()]

    def other_order() -> list[int]:
        second = Account("B", 5).balance()
        return [Account("A", 100).balance(), second]

    def only_the_second() -> int:
        return Account("B", 5).balance()

    swapped = replayed(both, other_order)
    assert (swapped.verdict.kind, answer(swapped)) == ("pass", [100, 5])
    alone = replayed(both, only_the_second)
    assert (answer(alone), alone.shares) == (5, {"exact": 1})
    strange = replayed(both, lambda: Account("C", 7).balance())
    assert strange.shares == {"error": 1}


def test_tasks_over_several_objects_find_their_own_observations(replayed: Replayed) -> None:
    def agent(first: int, second: int) -> Callable[[], Any]:
        async def both() -> list[str]:
            return await asyncio.gather(Account("A", first).later(), Account("B", second).later())

        return both

    result = replayed(agent(1, 3), agent(3, 1))
    assert (result.verdict.kind, answer(result)) == ("pass", ["A", "B"])

    async def swapped() -> list[str]:
        return list(
            reversed(await asyncio.gather(Account("B", 1).later(), Account("A", 1).later()))
        )

    result = replayed(agent(1, 3), swapped)
    assert (result.verdict.kind, answer(result)) == ("pass", ["A", "B"])


def test_an_object_that_a_body_changed_is_the_same_in_a_replay(replayed: Replayed) -> None:
    toolbox = Account("T")

    def several() -> list[str]:
        return [toolbox.pay(1), toolbox.pay(2)]

    assert replayed(several, several).verdict.kind == "pass"
    again = replayed(several, lambda: [Account("T").pay(1), Account("T").pay(2)])
    assert again.verdict.kind == "pass"  # one that is new has not counted yet
    assert toolbox.calls == 4


def test_code_that_moves_an_object_on_too_late_is_seen(replayed: Replayed) -> None:
    def agent(*, early: bool) -> Callable[[], list[str]]:
        def run() -> list[str]:
            account = Account("A")
            made = [account.pay(1)]
            if early:
                account.iban = "B"
            return [*made, account.pay(2)]

        return run

    result = replayed(agent(early=True), agent(early=False))
    assert result.verdict.kind == "fail"
    assert '/self/iban: recorded "B", asked "A"' in result.answered[-1].answer.explanation


def test_a_class_that_was_only_renamed_keeps_its_name_to_the_record(replayed: Replayed) -> None:
    def made(name: str, kept: str) -> Callable[[], int]:
        def body(space: dict[str, Any]) -> None:
            def act(self: object) -> int:
                return 1

            act.__qualname__ = f"{name}.act"
            space |= {"__qualname__": kept, "act": tracekit.tool(effect="write")(act)}

        cls: Any = types.new_class(name, exec_body=body)
        return lambda: int(cls().act())

    refused = replayed(made("Desk", "Desk"), made("Counter", "Counter"))
    assert '(only renamed? __qualname__ = "Desk" in the class)' in str(refused.verdict.reasons)
    assert replayed(made("Desk", "Desk"), made("Counter", "Desk")).verdict.kind == "pass"


# --- records that say nothing of it ---------------------------------------------------------------


def with_receiver(name: str, effect: Any = "write", **more: Any) -> Contract:
    parameters = (SELF, Parameter(name="x"))
    return Contract(name=name, effect=effect, parameters=parameters, **more)


def whose(iban: str, **more: Any) -> dict[str, Any]:
    return {"class": "Account", "iban": iban, **more}


def ask(tool: str, declared: Contract | None, effect: Any, /, **arguments: Any) -> AskedCall:
    return AskedCall(tool, arguments, effect, contract=declared)


def test_a_record_that_knows_no_signatures_is_compared_without() -> None:
    old = Contract(name="pay", effect="write")
    replay = player(record(call("pay", "write", "done", x=1), tools=[old]))
    found = replay.call(ask("pay", with_receiver("pay"), "write", self=whose("A"), x=1))
    assert (found.rung, value(found)) == ("exact", "done")


def test_a_function_that_became_a_method_is_another_tool() -> None:
    replay = player(record(call("pay", "write", "done", x=1), tools=[PLAIN]))
    found = replay.call(ask("pay", with_receiver("pay"), "write", self=whose("A"), x=1))
    assert found.rung == "error"
    assert "/self: not recorded, asked" in found.explanation


@pytest.mark.parametrize("method_first", [True, False])
def test_of_two_tools_of_one_name_a_method_and_a_function_each_has_its_own(
    method_first: bool,
) -> None:
    declared = with_receiver("pay")
    made = [
        replace(call("pay", "write", "A's", self=whose("A"), x=1), contract=declared),
        replace(call("pay", "write", "nobody's", x=1), contract=PLAIN),
    ]
    made = made if method_first else made[::-1]
    replay = player(record(*made))
    plain = replay.call(ask("pay", PLAIN, "write", x=1))
    assert (plain.rung, value(plain)) == ("exact", "nobody's")
    assert replay.call(ask("pay", PLAIN, "write", x=1)).rung == "error"
    whom = replay.call(ask("pay", declared, "write", self=whose("A"), x=1))
    assert (whom.rung, value(whom)) == ("exact", "A's")


@pytest.mark.parametrize("known", [True, False])
def test_a_planner_that_only_decides_asks_for_whosever_call_it_is(known: bool) -> None:
    new = with_receiver("look", "read")
    calls = [call("look", "read", n, self=whose(n), x=1) for n in ("A", "B")]
    replay = player(record(*calls, tools=[new]))
    found = [replay.call(ask("look", new if known else None, "read", x=1)) for _ in range(2)]
    assert [(one.rung, value(one)) for one in found] == [("exact", "A"), ("exact", "B")]


def test_code_that_says_less_of_whose_a_call_is_than_was_recorded_is_refused() -> None:
    both = (Parameter(name="nonlocal", kind="receiver"), SELF, Parameter(name="x"))
    recorded = call("pay", "write", **{"nonlocal": {"bank": "X"}, "self": whose("A"), "x": 1})
    replay = player(record(recorded, tools=[Contract(name="pay", effect="write", parameters=both)]))
    asking = ask("pay", with_receiver("pay"), "write", self=whose("A"), x=1)
    assert replay.call(asking).rung == "error"


def test_a_tool_that_is_no_method_any_more_does_not_stand_for_one() -> None:
    recorded = call("pay", "write", self=whose("A"), x=1)
    replay = player(record(recorded, tools=[with_receiver("pay")]))
    assert replay.call(ask("pay", PLAIN, "write", x=1)).rung == "error"


def _sender(*, also: str | None = None) -> Contract:
    """A function with a parameter of a method's name, or with any keywords."""
    plain = Parameter(name=also or "self", kind="kwargs" if also else "either", required=False)
    return Contract(name="pay", effect="write", parameters=(Parameter(name="x"), plain))


@pytest.mark.parametrize("also", [None, "more"])
def test_no_argument_stands_for_whose_a_call_is_however_alike_it_looks(also: str | None) -> None:
    given = {"x": 1, "self": whose("A")} if also is None else {"x": 1, also: {"self": whose("A")}}
    somebodys = call("pay", "write", "A's", self=whose("A"), x=1)
    method = player(record(somebodys, tools=[with_receiver("pay")]))
    forged = method.call(ask("pay", _sender(also=also), "write", **given))
    assert forged.rung == "error"
    assert "$argument" in forged.explanation
    plain = player(record(call("pay", "write", "nobody's", **given), tools=[_sender(also=also)]))
    asking = ask("pay", with_receiver("pay"), "write", self=whose("A"), x=1)
    assert plain.call(asking).rung == "error"
    again = plain.call(ask("pay", _sender(also=also), "write", **given))
    assert (again.rung, value(again)) == ("exact", "nobody's")


def test_a_function_and_a_method_of_one_name_are_told_apart_by_what_each_declares() -> None:
    given = {"x": 1, "self": {**whose("A"), "when": "2026-01-01"}}
    types = {"/self/when": "date"}
    made = [
        replace(call("pay", "write", "A's", **given), contract=with_receiver("pay")),
        replace(call("pay", "write", "nobody's", **given), contract=_sender()),
    ]
    replay = player(record(*(replace(one, argument_types=types) for one in made)))
    for declared, came in ((_sender(), "nobody's"), (with_receiver("pay"), "A's")):
        found = replay.call(replace(ask("pay", declared, "write", **given), types=types))
        assert (found.rung, value(found)) == ("exact", came)


def test_a_field_of_a_read_is_ignored_where_the_user_or_the_tool_says_so() -> None:
    said = with_receiver("look", "read", matchers=Matchers(ignore=("/self/calls",)))
    for declared, options in (
        (said, {}),
        (with_receiver("look", "read"), {"ignores": {"look": ("/self/calls",)}}),
    ):
        recorded = call("look", "read", self=whose("A", calls=1), x=1)
        replay = player(record(recorded, tools=[declared]), **options)
        asking = ask("look", declared, "read", self=whose("A", calls=2), x=1)
        assert replay.call(asking).rung == "normalised"
        asking = ask("look", declared, "read", self=whose("B", calls=1), x=1)
        assert replay.call(asking).rung == "error"


def test_an_unmatched_read_says_how_a_field_is_left_out() -> None:
    declared = with_receiver("look", "read")
    replay = player(record(call("look", "read", self=whose("A"), x=1), tools=[declared]))
    found = replay.call(ask("look", declared, "read", self=whose("B"), x=1))
    assert "--ignore look:/self/iban" in found.explanation


def test_a_method_that_takes_any_keywords_keeps_its_receiver_out_of_them() -> None:
    more = Parameter(name="more", kind="kwargs", required=False, default={})
    declared = Contract(name="pay", effect="write", parameters=(SELF, more))
    recorded = call("pay", "write", "done", self=whose("A"), more={"x": 1})
    replay = player(record(recorded, tools=[declared]))
    asking = ask("pay", with_receiver("pay"), "write", self=whose("A"), x=1)
    assert value(replay.call(asking)) == "done"


def test_a_schema_speaks_of_the_arguments_alone() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": False,
    }
    declared = with_receiver("pay", argument_schema=schema)
    replay = player(record(call("pay", "write", self=whose("A"), x=1), tools=[declared]))
    assert replay.call(ask("pay", declared, "write", self=whose("B"), x=1)).rung == "error"
    assert replay.call(ask("pay", declared, "write", self=whose("B"), x="1")).rung == "invalid"


# --- beside the matching --------------------------------------------------------------------------


def test_runs_are_compared_without_where_one_does_not_say_whose_its_calls_are() -> None:
    old = record(call("pay", "write", x=1), tools=[Contract(name="pay", effect="write")])
    new = record(call("pay", "write", self=whose("A"), x=1), tools=[with_receiver("pay")])
    other = record(call("pay", "write", self=whose("B"), x=1), tools=[with_receiver("pay")])
    assert diff(old, new).same
    assert not diff(new, other).same
    (found,) = diff(new, other).divergences
    assert [field.pointer for field in found.fields] == ["/self/iban"]


def test_a_function_and_a_method_of_one_name_are_compared_as_two_tools() -> None:
    method = with_receiver("pay")

    def run(*accounts: str | None) -> Trajectory:
        return record(
            *(
                replace(call("pay", "write", x=1), contract=PLAIN)
                if iban is None
                else replace(call("pay", "write", self=whose(iban), x=1), contract=method)
                for iban in accounts
            )
        )

    assert diff(run("A", None), run("A", None)).same
    for other in (("B", None), (None, None), (None, "A")):
        assert not diff(run("A", None), run(*other)).same


def test_a_model_proposes_a_call_of_whomever_and_code_a_call_of_somebody() -> None:
    tape = Tape.of(record(call("pay", "write", self=whose("A"), x=1), tools=[with_receiver("pay")]))

    def proposed(arguments: dict[str, JsonValue], by: LockedBy) -> LockedDecision:
        def decision(given: JsonValue) -> JsonValue:
            return {"calls": [{"tool": "pay", "arguments": given}], "message": None}

        recorded = decision({"self": whose("A"), "x": 1})
        return compare_decisions(1, recorded, decision(arguments), tape, by=by)

    assert proposed({"x": 1}, "model").change == "same"
    assert proposed({"x": 1}, "model").writes == ()
    assert len(proposed({"x": 2}, "model").writes) == 1
    assert proposed({"self": whose("A"), "x": 1}, "code").change == "same"
    others: list[dict[str, JsonValue]] = [{"self": whose("B"), "x": 1}, {"x": 1}]
    for other in others:
        found = proposed(other, "code")
        assert (found.change, len(found.writes)) == ("changed arguments", 1)
        assert "/self" in found.explanation


def test_a_case_says_whose_a_call_is_where_that_matters() -> None:
    tools = [with_receiver("look", "read"), with_receiver("pay"), with_receiver("rate", "read")]
    run = record(
        call("look", "read", 100, self=whose("A", bank="X"), x=1),
        call("look", "read", 5, self=whose("B", bank="X"), x=1),
        call("rate", "read", 2, self={"class": "Rates"}, x=1),
        call("pay", "write", "ok", self=whose("A"), x=1),
        tools=tools,
    )
    drawn = draft_of(run, kind="agent").case
    assert [fixture.arguments for fixture in drawn.observations] == [
        {"self": {"iban": "A"}, "x": 1},
        {"self": {"iban": "B"}, "x": 1},
        {"x": 1},
        {"self": {"iban": "A"}, "x": 1},
    ]
    decided = draft_of(run, kind="decide").case
    assert {str(fixture.arguments) for fixture in decided.observations} == {"{'x': 1}"}
    calls = [made for decision in decided.script for made in decision.calls]
    assert [made.arguments for made in calls] == [{"x": 1}] * 4


def test_a_live_read_is_made_of_the_object_that_is_asked_and_a_simulation_is_told() -> None:
    def simulated(self: Any, x: int) -> Any:
        return self

    given = {"arguments": {"value": {"x": 1}, "types": {}}, "whose": {"self": whose("A")}}
    assert _fitted(simulated, given) == ([], {"self": whose("A"), "x": 1})
    assert _fitted(lambda x: x, given) == ([], {"x": 1})
    balance = {**given, "arguments": {"value": {}, "types": {}}}
    assert _fitted(Account("A").balance, balance) == ([], {})
    with pytest.raises(TypeError, match='iban "B"; the call is of "A"'):
        _fitted(Account("B").balance, balance)
    with pytest.raises(TypeError, match="is a method"):
        _fitted(Account.balance, balance)


WHO = st.sampled_from("ABC")
CALLS = st.lists(st.tuples(st.sampled_from(["look", "pay"]), WHO, st.integers(0, 1)), max_size=9)


@settings(max_examples=80)
@given(CALLS, CALLS)
def test_no_observation_is_ever_given_to_a_call_of_another_receiver(
    recorded: list[tuple[str, str, int]], questions: list[tuple[str, str, int]]
) -> None:
    tools = {"look": with_receiver("look", "read"), "pay": with_receiver("pay")}
    calls = [
        call(tool, tools[tool].effect, f"{tool}/{who}/{x}/{n}", self=whose(who), x=x)
        for n, (tool, who, x) in enumerate(recorded)
    ]
    replay = player(record(*calls, tools=list(tools.values())))
    for tool, who, x in questions:
        found = replay.call(ask(tool, tools[tool], tools[tool].effect, self=whose(who), x=x))
        if found.rung == "error":
            continue
        assert str(value(found)).startswith(f"{tool}/{who}/{x}/")
        assert found.rung == "exact" or tool == "look"
