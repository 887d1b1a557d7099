"""What is a difference, of which kind, how harmful, and which one is named first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.diff import Harm
from tests.diff.building import call, compare, imported, kinds, read, run, write
from tracekit.contract import Contract, Matchers, Parameter
from tracekit.trajectory import Decision, Message, Observation

ATTACKED = "github/user_task_0/important_instructions/injection_task_0.json"


def test_a_refund_of_42_changed_to_4200_is_reported_first() -> None:
    def shop(amount: float, tail: str) -> Any:
        return run(
            read("order.search", {"customer": "ann"}, {"order": "o-771"}),
            write("refund", {"order": "o-771", "amount": amount}, "ok"),
            answer=tail,
        )

    found = compare(shop(42, "refunded"), shop(4200, "refunded a lot"))
    assert found.first is not None
    assert found.divergences[0] is found.first
    assert (found.first.kind, found.first.harm, found.first.decision) == (
        "changed_arguments",
        Harm.WRITE,
        2,
    )
    assert [(f.pointer, f.left, f.right) for f in found.first.fields] == [("/amount", 42, 4200)]
    assert "recorded 42, replayed 4200" in found.first.explanation
    assert found.matched_prefix == 1
    assert kinds(found) == [("changed_arguments", "refund"), ("changed_answer", "(final answer)")]
    assert not found.divergences[1].cause


def test_the_attacked_run_and_the_one_behind_a_policy_part_at_decision_1() -> None:
    attacked = imported(f"agentdyn/gpt-4o-2024-08-06/{ATTACKED}")[0]
    guarded = imported(f"agentdyn/gpt-4o-2024-08-06-progent/{ATTACKED}")[0]
    found = compare(attacked, guarded)
    assert found.first is not None
    assert found.first.decision == 1
    assert [field.pointer for field in found.first.fields] == ["/url"]
    assert found.counts == {"same": 0, "changed": 1, "added": 0, "missing": 6, "moved": 0}
    (star,) = [one for one in found.divergences if one.tool == "git_star"]
    assert (star.kind, star.harm, star.effect) == ("missing", Harm.WRITE, "write")
    assert star.because == (
        "recorded took 'trustme/awesome_literature' from the observation of browse_webpage "
        "(decision 1), which differs"
    )
    # of these, not all values came from what only one run was shown
    lacking = ["download_file_through_url", "git_clone", "move_node"]
    assert [one.tool for one in found.causes] == ["browse_webpage", *lacking, "browse_webpage"]
    assert [one.kind for one in found.causes if one.tool not in lacking] == [
        "changed_arguments",
        "changed_policy",
    ]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"amount": 42}, {"amount": 42.0}),
        ({"q": ["x", {"k": 1}]}, {"q": ["x", {"k": 1.0}]}),
    ],
)
def test_spelling_is_no_difference(one: dict[str, Any], two: dict[str, Any]) -> None:
    found = compare(run(write("w", one)), run(write("w", two)))
    assert found.same
    assert found.divergences == ()


def test_a_default_spelt_out_is_no_difference() -> None:
    contract = Contract(
        name="q",
        effect="read",
        parameters=(
            Parameter(name="expr"),
            Parameter(name="window", required=False, default="5m"),
        ),
    )
    short = replace(read("q", {"expr": "up"}), contract=contract)
    spelt = replace(read("q", {"window": "5m", "expr": "up"}), contract=contract)
    assert compare(run(short), run(spelt)).same


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("42", 42),
        (42, 4200),
        ("DE89370400440532013000", "DE89370400440532013001"),
        ("/srv/data/a.txt", "/srv/data/b.txt"),
        ("paypal", "pаypal"),
        (True, 1),
        (None, ""),
    ],
)
def test_no_similarity_makes_two_writes_the_same(left: Any, right: Any) -> None:
    found = compare(run(write("w", {"to": left})), run(write("w", {"to": right})))
    assert kinds(found) == [("changed_arguments", "w")]
    assert found.divergences[0].harm == Harm.WRITE


MATCHERS = Matchers(
    ignore=("/request_id",), sets=("/ids",), tolerances={"/limit": 5}, windows={"/at": 60}
)
ONE = {"request_id": "a", "ids": [1, 2], "limit": 10, "at": "2026-11-30T10:00:00Z"}
TWO = {"request_id": "b", "ids": [2, 1], "limit": 14, "at": "2026-11-30T10:00:59Z"}


def test_what_the_matchers_of_a_read_tolerate_is_no_difference() -> None:
    assert compare(
        run(read("r", ONE, matchers=MATCHERS)), run(read("r", TWO, matchers=MATCHERS))
    ).same


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"limit": 16}, "/limit"),
        ({"at": "2026-11-30T10:01:01Z"}, "/at"),
        ({"ids": [2, 3]}, "/ids/0"),
    ],
)
def test_a_matcher_tolerates_no_more_than_it_says(changed: dict[str, Any], pointer: str) -> None:
    found = compare(
        run(read("r", ONE, matchers=MATCHERS)), run(read("r", TWO | changed, matchers=MATCHERS))
    )
    assert kinds(found) == [("changed_arguments", "r")]
    assert found.divergences[0].harm == Harm.CHANGED_READ
    assert pointer in [field.pointer for field in found.divergences[0].fields]


def test_matchers_never_apply_to_a_write() -> None:
    found = compare(
        run(write("w", ONE, matchers=MATCHERS)), run(write("w", TWO, matchers=MATCHERS))
    )
    assert len(found.divergences[0].fields) == 5


def test_a_declared_idempotency_key_of_a_write_does_not_count() -> None:
    def pay(key: str) -> Any:
        return run(write("pay", {"to": "x", "key": key}, idempotency_field="/key"))

    assert compare(pay("k1"), pay("k2")).same


def test_a_tool_declared_otherwise_is_no_difference_but_named_and_compared_as_the_worse() -> None:
    old, new = call("t", {"x": 1}, effect="unknown"), read("t", {"x": 1})
    found = compare(run(old), run(new))
    assert found.same
    assert [(f.pointer, f.left, f.right) for f in found.context] == [
        ("/effects/t", "unknown", "read")
    ]
    changed = compare(run(old), run(read("t", {"x": 2})))
    assert changed.divergences[0].harm == Harm.WRITE


def test_an_unknown_effect_is_taken_for_a_write() -> None:
    found = compare(run(call("t", {"x": 1}, effect="unknown")), run())
    assert found.divergences[0].harm == Harm.WRITE


@pytest.mark.parametrize("place", range(5))
def test_an_inserted_step_is_one_difference(place: int) -> None:
    steps = [read("search", {"q": f"topic {n}"}, f"page-{n}") for n in range(4)]
    more = [*steps[:place], write("note", {"text": "hm"}), *steps[place:]]
    found = compare(run(*steps), run(*more))
    assert kinds(found) == [("added", "note")]
    assert found.first is not None
    assert found.first.right_decision == place + 1
    assert found.matched_prefix == place


def test_a_fork_in_one_argument_is_named_with_where_the_runs_meet_again() -> None:
    steps = [read(f"t{n}", {"n": n}, n) for n in range(1, 8)]
    other = [*steps[:4], read("t5", {"n": 50}, 5), *steps[5:]]
    found = compare(run(*steps), run(*other))
    assert kinds(found) == [("changed_arguments", "t5")]
    assert (found.matched_prefix, found.resynchronised_at) == (4, 6)


def test_another_tool_is_missing_and_added_never_changed() -> None:
    found = compare(run(read("a", {"x": 1})), run(read("b", {"x": 1})))
    assert sorted(kinds(found)) == [("added", "b"), ("missing", "a")]


def test_an_observation_may_differ_at_equal_calls() -> None:
    found = compare(run(read("r", {"x": 1}, {"v": 1})), run(read("r", {"x": 1}, {"v": 2})))
    assert kinds(found) == [("changed_observation", "r")]
    assert [field.pointer for field in found.divergences[0].fields] == ["/v"]


def test_a_null_an_error_and_nothing_at_all_are_three_observations() -> None:
    null, failed = read("r", back=None), read("r", back=None, error=True)
    nothing = replace(null, observation=Observation(state="absent"))
    for one, two in ((null, failed), (null, nothing), (failed, nothing)):
        assert kinds(compare(run(one), run(two))) == [("changed_observation", "r")]


def test_a_denied_call_is_a_difference_of_policy() -> None:
    found = compare(
        run(write("w", {"x": 1}, "ok")), run(write("w", {"x": 1}, "no", policy="deny", error=True))
    )
    assert kinds(found) == [("changed_policy", "w")]
    (one,) = found.divergences
    assert one.harm == Harm.REFUSAL
    assert [(f.left, f.right) for f in one.fields] == [("allow", "deny")]


def test_a_refused_write_that_came_new_ranks_below_one_that_happened() -> None:
    refused = write("w", {"x": 1}, "no", policy="deny", error=True)
    found = compare(run(), run(refused, write("v", {"x": 2})))
    assert [(one.tool, one.harm) for one in found.divergences] == [
        ("v", Harm.WRITE),
        ("w", Harm.REFUSAL),
    ]


def test_evidence_counts_and_its_order_does_not() -> None:
    one = read("r", evidence=("m-1", "m-2"))
    assert compare(run(one), run(read("r", evidence=("m-2", "m-1")))).same
    assert kinds(compare(run(one), run(read("r", evidence=("m-2",))))) == [
        ("changed_evidence", "r")
    ]


def test_the_answer_the_status_and_the_input_count() -> None:
    assert kinds(compare(run(answer="a"), run(answer="b"))) == [
        ("changed_answer", "(final answer)")
    ]
    (ended,) = compare(run(status="ok"), run(status="error")).divergences
    assert [field.pointer for field in ended.fields] == ["/status"]
    assert kinds(compare(run(prompt="a"), run(prompt="b"))) == [("changed_input", "(input)")]


def test_a_system_prompt_is_named_but_is_no_difference() -> None:
    def told(text: str) -> Any:
        return run(read("r"), messages=(Message("system", text, 1),))

    found = compare(told("be good"), told("be careful"))
    assert found.same
    assert [field.pointer for field in found.context] == ["/system_prompt/0"]


def test_words_beside_calls_rank_last() -> None:
    def said(text: str, x: int) -> Any:
        made = run(read("r", {"x": x}))
        return replace(
            made, decisions=(Decision(index=1, calls=made.decisions[0].calls, message=text),)
        )

    found = compare(said("let me look", 1), said("looking", 2))
    assert [one.kind for one in found.divergences] == ["changed_arguments", "changed_message"]
    assert found.first is found.divergences[0]


def test_a_users_turn_after_other_words_is_a_consequence() -> None:
    def talk(question: str, reply: str) -> Any:
        return run(question, read("r"), messages=(Message("user", reply, 2),))

    found = compare(talk("which order?", "o-1"), talk("what name?", "ann"))
    assert [(one.tool, one.cause) for one in found.divergences] == [
        ("(user's turn)", False),
        ("(said)", True),
    ]


def test_a_call_made_again_is_a_retry() -> None:
    once = [read("a", {"x": 1}, 1), write("w", {"y": 1}, "ok")]
    again = [read("a", {"x": 1}, 1), write("w", {"y": 1}, "busy", error=True), once[1]]
    found = compare(run(*once), run(*again))
    assert kinds(found) == [("retry", "w")]
    assert found.divergences[0].harm == Harm.WRITE


def test_a_changed_read_makes_the_steps_fed_by_it_consequences() -> None:
    def look(host: str, pod: str) -> Any:
        return run(
            read("hosts", {"env": host}, {"pod": pod}),
            read("clock", {}, "noon"),
            write("restart", {"pod": pod}, "ok"),
        )

    found = compare(look("prod", "pod-a1"), look("test", "pod-b2"))
    assert [(one.kind, one.tool, one.cause) for one in found.divergences] == [
        ("changed_arguments", "restart", False),
        ("changed_arguments", "hosts", True),
        ("changed_observation", "hosts", False),
    ]
    assert "from the observation of hosts (decision 1)" in str(found.divergences[0].because)


def test_a_value_that_both_sides_were_given_explains_nothing() -> None:
    def look(stamp: int, pod: str) -> Any:
        return run(
            read("hosts", {}, {"pods": ["pod-a1", "pod-b2"], "stamp": stamp}),
            write("restart", {"pod": pod}, "ok"),
        )

    found = compare(look(1000, "pod-a1"), look(2000, "pod-b2"))
    assert [(one.tool, one.cause) for one in found.divergences] == [
        ("restart", True),
        ("hosts", True),
    ]


def test_a_read_that_saw_another_write_came_back_otherwise_as_a_consequence() -> None:
    def bank(amount: int) -> Any:
        return run(write("pay", {"amount": amount}, "ok"), read("balance", {}, 100 - amount))

    found = compare(bank(10), bank(20))
    assert [(one.kind, one.cause) for one in found.divergences] == [
        ("changed_arguments", True),
        ("changed_observation", False),
    ]


def test_the_planner_had_just_seen_what_came_before() -> None:
    found = compare(
        run(read("a", {}, "first page"), write("w", {"x": 1})),
        run(read("a", {}, "first page"), write("w", {"x": 2})),
    )
    assert found.first is not None
    assert [(one.tool, one.observation) for one in found.first.seen] == [("a", "first page")]
    assert found.first.seen_right is None
    at_start = compare(run(write("w", {"x": 1})), run(write("w", {"x": 2})))
    assert at_start.first is not None
    assert [(one.tool, one.observation) for one in at_start.first.seen] == [
        ("(input)", {"prompt": "please"})
    ]


def test_what_was_not_kept_cannot_be_called_the_same() -> None:
    gone = replace(read("r"), observation=Observation(state="reference"))
    found = compare(run(gone), run(gone))
    assert found.distance == 0
    assert not found.same
    assert found.unknown == (
        "recorded: the observation of r in decision 1 was not kept",
        "replayed: the observation of r in decision 1 was not kept",
    )


def test_a_run_that_stops_early_has_one_cause() -> None:
    steps = [read(f"t{n}", {}, n) for n in range(4)]
    found = compare(run(*steps), run(*steps[:2]))
    assert [(one.tool, one.cause) for one in found.divergences] == [("t2", True), ("t3", False)]
    assert found.divergences[1].because == "replayed had ended after decision 2"
