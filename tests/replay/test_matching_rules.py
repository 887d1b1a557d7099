"""Aliases, matchers, write sets, ties, policies: each rule of matching by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.matching import ArgumentMap, Policies
from tests.replay.tape_kit import (
    SECOND,
    again,
    asked,
    call,
    contract,
    player,
    record,
    seen,
    value,
)
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Matchers
from tracekit.errors import UsageError
from tracekit.events import Effect
from tracekit.trajectory import Call, Mint, Observation

OLD_ID = "6f1ed002ab5595859014ebf0951522d9"
NEW_ID = "0123456789abcdef0123456789abcdef"
MINT = Mint(kind="id", site="agent:42", occurrence=0, value=OLD_ID)


# --- aliases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: f"note-{v}.txt", lambda v: {v: [v]}])
def test_a_minted_id_stands_for_the_recorded_one_anywhere_in_the_arguments(wrap: Any) -> None:
    tape = record(call("note", "write", "kept", key=wrap(OLD_ID), text="x"), mints=[MINT])
    replay = player(tape)
    replay.note_mint("id", "agent:42", 0, NEW_ID)
    answer = replay.call(asked("note", "write", key=wrap(NEW_ID), text="x"))
    assert (answer.rung, answer.tainted, value(answer)) == ("normalised", False, "kept")


def test_an_alias_changes_nothing_else_about_a_write() -> None:
    tape = record(call("refund", "write", "paid", key=OLD_ID, amount=42), mints=[MINT])
    replay = player(tape)
    replay.note_mint("id", "agent:42", 0, NEW_ID)
    assert replay.call(asked("refund", "write", key=NEW_ID, amount=4200)).rung == "error"


def test_a_value_minted_elsewhere_is_no_alias() -> None:
    tape = record(call("note", "write", "kept", key=OLD_ID), mints=[MINT])
    replay = player(tape)
    replay.note_mint("id", "agent:42", 1, NEW_ID)
    replay.note_mint("id", "agent:77", 0, NEW_ID)
    assert replay.call(asked("note", "write", key=NEW_ID)).rung == "error"


@pytest.mark.parametrize(
    ("recorded", "new"), [(4, 7), ("ab", "cd"), (0.5, 0.25), (True, False), (999_999, 7)]
)
def test_a_minted_value_that_chance_could_repeat_is_no_alias(
    recorded: JsonValue, new: JsonValue
) -> None:
    die = Mint(kind="random", site="agent:9", occurrence=0, value=recorded)
    tape = record(call("refund", "write", "paid", amount=recorded), mints=[die])
    replay = player(tape)
    replay.note_mint("random", "agent:9", 0, new)
    assert replay.call(asked("refund", "write", amount=new)).rung == "error"


def test_minted_numbers_that_chance_does_not_repeat_are_aliases() -> None:
    mints = [
        Mint("time", "agent:1", 0, 1_796_025_600_000_000_001),
        Mint("random", "agent:2", 0, 0.8444218515250481),
    ]
    tape = record(
        call("log", "read", "ok", at=1_796_025_600_000_000_001, jitter=0.8444218515250481),
        mints=mints,
    )
    replay = player(tape)
    replay.note_mint("time", "agent:1", 0, 1_799_999_999_000_000_002)
    replay.note_mint("random", "agent:2", 0, 0.7579544029403025)
    answer = replay.call(asked("log", at=1_799_999_999_000_000_002, jitter=0.7579544029403025))
    assert answer.rung == "normalised"


def test_ids_that_changed_places_are_not_confused() -> None:
    mints = [Mint("id", "a", 0, OLD_ID), Mint("id", "b", 0, NEW_ID)]
    tape = record(
        call("note", "write", "first", key=OLD_ID + "!"),
        call("pair", "write", "both", a=OLD_ID, b=NEW_ID),
        mints=mints,
    )
    replay = player(tape)
    replay.note_mint("id", "a", 0, NEW_ID)
    replay.note_mint("id", "b", 0, OLD_ID)
    assert value(replay.call(asked("pair", "write", a=NEW_ID, b=OLD_ID))) == "both"


def test_a_slow_clock_that_gave_one_value_for_two_is_tried_both_ways() -> None:
    early, late, now = "2026-11-30T10:20:00", "2026-11-30T10:20:01", "2026-12-01T08:00:00"
    tape = record(
        call("log", "write", "late", at=late),
        mints=[Mint("now", "s", 0, early), Mint("now", "s", 1, late)],
    )
    replay = player(tape)
    replay.note_mint("now", "s", 0, now)
    replay.note_mint("now", "s", 1, now)
    assert replay.call(asked("log", "write", at=now)).rung == "normalised"


def test_a_replay_is_given_the_recorded_mints_again() -> None:
    replay = player(record(mints=[MINT]))
    assert replay.mint("id", "agent:42", 0) == OLD_ID
    assert replay.mint("id", "agent:42", 1) is None


# --- matchers -------------------------------------------------------------------------------------

MATCHED = [
    (Matchers(ignore=("/seen",)), {"seen": 1}, {"seen": 2}),
    (Matchers(ignore=("/seen",)), {"seen": 1}, {}),
    (Matchers(sets=("/tags",)), {"tags": ["a", "b"]}, {"tags": ["b", "a"]}),
    (Matchers(tolerances={"/x": 0.1}), {"x": 1.0}, {"x": 1.05}),
    (Matchers(windows={"/at": 60}), {"at": "2026-11-30T10:20:00Z"}, {"at": "2026-11-30T10:20:59"}),
    (Matchers(windows={"/at": 60}), {"at": 1000}, {"at": 1060.0}),
    (Matchers(ignore=("/deep/0/id",)), {"deep": [{"id": 1}]}, {"deep": [{"id": 2}]}),
]
NOT_MATCHED = [
    (Matchers(ignore=("/seen",)), {"seen": 1, "q": 1}, {"seen": 2, "q": 2}),
    (Matchers(sets=("/tags",)), {"tags": ["a", "b"]}, {"tags": ["a", "b", "b"]}),
    (Matchers(tolerances={"/x": 0.1}), {"x": 1.0}, {"x": 1.2}),
    (Matchers(tolerances={"/x": 0.1}), {"x": 1.0}, {"x": "1.0"}),
    (Matchers(tolerances={"/x": 0.1}), {"x": 1.0}, {}),
    (Matchers(tolerances={"/x": 2}), {"x": 1}, {"x": True}),
    (Matchers(tolerances={"/x": 0.1}), {"x": 1.0}, {"x": float("nan")}),
    (Matchers(windows={"/at": 60}), {"at": 1000}, {"at": 1061}),
    (Matchers(windows={"/at": 60}), {"at": "10:20"}, {"at": "10:21"}),
]


@pytest.mark.parametrize(("matchers", "old", "new"), MATCHED)
def test_a_read_is_normalised_by_the_matchers_of_its_tool(
    matchers: Matchers, old: dict[str, Any], new: dict[str, Any]
) -> None:
    declared = Contract(name="look", effect="read", matchers=matchers)
    tape = record(replace(call("look", "read", "found", **old), contract=declared))
    answer = player(tape).call(asked("look", **new))
    assert (answer.rung, answer.tainted, value(answer)) == ("normalised", False, "found")


@pytest.mark.parametrize(("matchers", "old", "new"), NOT_MATCHED)
def test_a_matcher_forgives_no_more_than_it_says(
    matchers: Matchers, old: dict[str, Any], new: dict[str, Any]
) -> None:
    declared = Contract(name="look", effect="read", matchers=matchers)
    tape = record(replace(call("look", "read", "found", **old), contract=declared))
    assert player(tape).call(asked("look", **new)).rung == "error"


@pytest.mark.parametrize(("matchers", "old", "new"), MATCHED)
def test_no_matcher_ever_answers_a_write(
    matchers: Matchers, old: dict[str, Any], new: dict[str, Any]
) -> None:
    declared = Contract(name="look", effect="write", matchers=matchers)
    tape = record(replace(call("look", "write", "done", **old), contract=declared))
    answer = player(tape).call(replace(asked("look", "write", **new), contract=declared))
    assert answer.rung == "error"


def test_a_read_whose_recorded_tool_wrote_is_still_a_write() -> None:
    declared = Contract(name="look", effect="write", matchers=Matchers(ignore=("/x",)))
    tape = record(replace(call("look", "write", "done", x=1), contract=declared))
    assert player(tape).call(asked("look", "read", x=2)).rung == "error"


def test_matchers_may_be_given_for_one_replay() -> None:
    tape = record(call("look", "read", "found", trace="a", at=100, q=1))
    question = asked("look", trace="b", at=130, q=1)
    assert player(tape).call(question).rung == "error"
    lenient = {"ignores": {"look": ("/trace",)}, "windows": {"look": {"/at": 30.0}}}
    assert player(tape, **lenient).call(question).rung == "normalised"


def test_matched_polls_are_given_out_in_order_too() -> None:
    declared = Contract(name="poll", effect="read", matchers=Matchers(windows={"/at": 60}))
    tape = record(
        *(replace(call("poll", "read", i, at=i * 30), contract=declared) for i in range(3))
    )
    replay = player(tape)
    assert [value(replay.call(asked("poll", at=i * 30 + 20))) for i in range(3)] == [0, 1, 2]


def test_a_write_is_known_by_all_but_its_declared_idempotency_key() -> None:
    pay = contract("pay", "write", "amount", "key", idempotency_field="/key")
    tape = record(replace(call("pay", "write", "paid", amount=42, key="k-1"), contract=pay))
    replay = player(tape)
    assert replay.call(asked("pay", "write", amount=43, key="k-1")).rung == "error"
    answer = replay.call(asked("pay", "write", amount=42, key="k-2"))
    assert (answer.rung, answer.tainted) == ("normalised", False)
    assert replay.call(asked("pay", "write", amount=42, key="k-3")).rung == "error"


def test_which_field_of_a_write_is_its_key_is_not_for_the_new_code_alone_to_say() -> None:
    plain = contract("pay", "write", "amount", "key")
    keyed = contract("pay", "write", "amount", "key", idempotency_field="/key")
    other = contract("pay", "write", "amount", "key", idempotency_field="/amount")
    paid = call("pay", "write", "paid", amount=42, key="k-1")

    def rung(then: Contract | None, now: Contract | None, **arguments: JsonValue) -> str:
        new = replace(asked("pay", "write", **arguments), contract=now)
        return player(record(replace(paid, contract=then))).call(new).rung

    for then, now in ((None, other), (plain, other), (keyed, other), (keyed, plain)):
        assert rung(then, now, amount=4200, key="k-1") == "error"
        assert rung(then, now, amount=42, key="k-2") == "error"
        assert rung(then, now, amount=42, key="k-1") == "exact"
    assert rung(keyed, keyed, amount=42, key="k-2") == "normalised"
    assert rung(keyed, None, amount=42, key="k-2") == "normalised"


def test_a_key_that_was_renamed_is_still_the_key() -> None:
    then = contract("pay", "write", "amount", "key", idempotency_field="/key")
    now = contract("pay", "write", "amount", "once", idempotency_field="/once")
    paid = replace(call("pay", "write", "paid", amount=42, key="k-1"), contract=then)
    maps = (ArgumentMap("pay", "pay", "/key", "/once"),)
    new = replace(asked("pay", "write", amount=42, once="k-2"), contract=now)
    assert player(record(paid), maps=maps).call(new).rung == "normalised"
    assert player(record(paid)).call(new).rung == "error"


def _together(*ids: str | None, effect: Effect = "read") -> list[Call]:
    made = (call("rate", effect, f"answer to {id_}", cur="EUR") for id_ in ids)
    return [replace(one, tool_call_id=id_) for one, id_ in zip(made, ids, strict=True)]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_equal_calls_of_one_decision_are_told_apart_by_the_ids_they_were_asked_under(
    effect: Effect,
) -> None:
    replay = player(record(_together("c1", "c2", effect=effect)))
    given = [
        replay.call(replace(asked("rate", effect, cur="EUR"), call_id=id_)) for id_ in ("c2", "c1")
    ]
    assert [value(answer) for answer in given] == ["answer to c2", "answer to c1"]
    assert [(a.rung, a.tainted, a.ambiguous) for a in given] == [("exact", False, False)] * 2


def test_an_id_says_nothing_where_it_is_unknown_or_given_twice_or_of_another_decision() -> None:
    def first(*decisions: list[Call], id_: str | None) -> tuple[JsonValue, bool]:
        answer = player(record(*decisions)).call(replace(asked("rate", cur="EUR"), call_id=id_))
        return value(answer), answer.tainted

    twins = _together("c1", "c2")
    assert first(twins, id_=None) == ("answer to c1", True)
    assert first(twins, id_="c9") == ("answer to c1", True)
    assert first(_together("c1", "c2", "c2"), id_="c2") == ("answer to c1", True)
    assert first(_together("c1"), _together("c2"), id_="c2") == ("answer to c1", False)


def test_an_id_stands_against_no_argument() -> None:
    usd = replace(call("rate", "read", "dollars", cur="USD"), tool_call_id="c2")
    replay = player(record([*_together("c1"), usd]))
    assert value(replay.call(replace(asked("rate", cur="EUR"), call_id="c2"))) == "answer to c1"


def test_keyword_arguments_spelt_out_are_the_same_call() -> None:
    loose = Contract.model_validate(
        {
            "name": "find",
            "effect": "write",
            "parameters": [
                {"name": "q"},
                {"name": "more", "kind": "kwargs", "required": False, "default": {}},
            ],
        }
    )
    strict = contract("find", "write", "q", defaults={"limit": 10})
    as_loose = replace(call("find", "write", "hit", q="x", more={"limit": 5}), contract=loose)
    as_strict = replace(call("find", "write", "hit", q="x", limit=5), contract=strict)

    now_strict = player(record(as_loose)).call(
        replace(asked("find", "write", q="x", limit=5), contract=strict)
    )
    now_loose = player(record(as_strict)).call(
        replace(asked("find", "write", q="x", more={"limit": 5}), contract=loose)
    )
    assert (now_strict.rung, now_loose.rung) == ("exact", "exact")


# --- write sets -----------------------------------------------------------------------------------


def test_a_write_to_another_resource_makes_nothing_stale() -> None:
    tickets = contract("tickets.add", "write", "t", touches=("tickets",))
    metrics = contract("metrics", "read", "q", touches=("metrics",))
    tape = record(
        replace(call("tickets.add", "write", t=1), contract=tickets),
        replace(call("metrics", q=1), contract=metrics),
    )
    assert player(tape).call(asked("metrics", q=1)).rung == "exact"


def test_a_write_more_makes_later_reads_stale() -> None:
    tape = record(call("metrics", q=1), call("rollback", "write", app="x"))
    replay = player(tape)
    replay.call(asked("rollback", "write", app="x"))
    answer = replay.call(asked("metrics", q=1))
    assert answer.rung == "stale"
    assert answer.explanation.endswith(
        "asked after rollback (decision 2), which it was recorded before"
    )


def test_a_write_answered_with_an_error_changes_nothing() -> None:
    failing = replace(
        call("rollback", "write", app="x"),
        observation=Observation(is_error=True, error_type="Denied"),
    )
    tape = record(call("metrics", q=1), failing)
    replay = player(tape)
    replay.call(asked("rollback", "write", app="x"))
    replay.call(asked("rollback", "write", app="unheard"))
    assert replay.call(asked("metrics", q=1)).rung == "exact"


def test_pure_calls_do_not_depend_on_writes() -> None:
    tape = record(call("rollback", "write", app="x"), call("add", "pure", 3, a=1, b=2))
    replay = player(tape)
    assert replay.call(asked("add", "pure", a=1, b=2)).rung == "exact"
    assert replay.call(asked("add", "pure", a=1, b=2)).rung == "reused"


def test_a_write_that_really_happened_in_a_sandbox_makes_later_reads_stale() -> None:
    tape = record(call("metrics", q=1), call("metrics", q=2))
    replay = player(tape, unmatched={"write": "sandbox"})
    rollback = replace(asked("rollback", "write", app="x"), span_id="s1")

    assert replay.call(asked("metrics", q=1)).rung == "exact"
    assert replay.call(rollback).rung == "sandbox"
    replay.note_result(rollback, seen("done"))
    answer = replay.call(asked("metrics", q=2))
    assert answer.rung == "stale"
    assert "a write that the recording does not have" in answer.explanation


def test_a_simulated_write_stands_for_the_recorded_one_whose_answer_was_not_kept() -> None:
    unkept = replace(call("rollback", "write", app="x"), observation=Observation(state="truncated"))
    tape = record(unkept, call("metrics", q=1))
    replay = player(tape, unmatched={"*": "simulate"})
    rollback = replace(asked("rollback", "write", app="x"), span_id="s1")
    assert replay.call(rollback).rung == "simulate"
    replay.note_result(rollback, seen("done"))
    assert replay.call(asked("metrics", q=1)).rung == "exact"


def test_a_read_beside_a_write_is_exact_whichever_is_asked_first() -> None:
    tape = record([call("rollback", "write", app="x"), call("metrics", q=1)])
    for order in ((0, 1), (1, 0)):
        replay = player(tape)
        assert [replay.call(again(tape.calls[i])).rung for i in order] == ["exact", "exact"]


def test_a_read_beside_a_write_has_its_turn_before_an_equal_one_that_followed() -> None:
    tape = record(
        [call("rollback", "write", app="x"), call("metrics", "read", "during", q=1)],
        call("metrics", "read", "after", q=1),
    )
    for order in ((0, 1, 2), (1, 0, 2)):
        replay = player(tape)
        answers = {i: replay.call(again(tape.calls[i])) for i in order}
        assert [(value(answers[i]), answers[i].rung, answers[i].tainted) for i in (1, 2)] == [
            ("during", "exact", False),
            ("after", "exact", False),
        ]


def test_a_read_that_followed_a_write_in_one_decision_is_stale_without_it() -> None:
    first, second = call("rollback", "write", app="x"), call("metrics", q=1)
    tape = record([first, second])
    decision = tape.decisions[0]
    later = replace(
        decision.calls[1],
        ts_start_ns=10 * SECOND,
        ts_end_ns=11 * SECOND,
        write_set=frozenset({"e1"}),
    )
    tape = replace(tape, decisions=(replace(decision, calls=(decision.calls[0], later)),))
    assert player(tape).call(asked("metrics", q=1)).rung == "stale"


def test_the_calls_before_a_step_can_be_taken_as_made() -> None:
    tape = record(
        call("poll", "read", 1, id=1),
        call("rollback", "write", app="x"),
        call("poll", "read", 2, id=1),
        call("poll", "read", 3, id=1),
    )
    replay = player(tape)
    replay.advance_to(4)
    answer = replay.call(asked("poll", id=1))
    assert (answer.rung, value(answer)) == ("exact", 3)
    assert replay.unconsumed() == ()


# --- ties -----------------------------------------------------------------------------------------


def on(path: str, one: Call) -> Call:
    return replace(one, path=(path,))


def test_the_causal_path_decides_between_equal_calls() -> None:
    tape = record(
        on("planner", call("search", "read", "for planner", q=1)),
        on("critic", call("search", "read", "for critic", q=1)),
    )
    replay = player(tape)
    answers = [
        replay.call(replace(asked("search", q=1), path=(path,))) for path in ("critic", "planner")
    ]
    assert [value(a) for a in answers] == ["for critic", "for planner"]
    assert [(a.ambiguous, a.tainted) for a in answers] == [(False, False)] * 2


def test_equal_calls_on_other_paths_that_differ_are_ambiguous_and_no_evidence() -> None:
    tape = record(
        on("planner", call("search", "read", "for planner", q=1)),
        on("critic", call("search", "read", "for critic", q=1)),
    )
    answer = player(tape).call(replace(asked("search", q=1), path=("judge",)))
    assert (answer.rung, answer.ambiguous, answer.tainted) == ("exact", True, True)
    assert value(answer) == "for planner"


def test_a_renamed_agent_still_gets_its_polls_in_order() -> None:
    tape = record(*(on("v1", call("poll", "read", i, id=1)) for i in range(3)))
    replay = player(tape)
    answers = [replay.call(replace(asked("poll", id=1), path=("v2",))) for _ in range(3)]
    assert [(value(a), a.rung, a.ambiguous) for a in answers] == [
        (i, "exact", False) for i in range(3)
    ]


def test_equal_calls_made_at_the_same_time_are_ambiguous_where_they_differ() -> None:
    differ = record([call("roll", "read", 1, id=1), call("roll", "read", 2, id=1)])
    agree = record([call("roll", "read", 1, id=1), call("roll", "read", 1, id=1)])
    first = player(differ).call(asked("roll", id=1))
    assert (first.rung, first.ambiguous, first.tainted) == ("exact", True, True)
    assert not player(agree).call(asked("roll", id=1)).ambiguous


def test_without_times_the_order_within_a_decision_decides() -> None:
    tape = record([call("roll", "read", 1, id=1), call("roll", "read", 2, id=1)])
    calls = tuple(replace(c, ts_start_ns=None, ts_end_ns=None) for c in tape.calls)
    tape = replace(tape, decisions=(replace(tape.decisions[0], calls=calls),))
    replay = player(tape)
    answers = [replay.call(asked("roll", id=1)) for _ in range(2)]
    assert [(value(a), a.ambiguous, a.tainted) for a in answers] == [
        (1, True, False),
        (2, False, False),
    ]


# --- what cannot be served, and policies ----------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("absent", "only a digest was kept"),
        ("truncated", "described or cut"),
        ("redacted", "redacted whole"),
        ("reference", "no longer stored"),
        ("invalid_json", "state invalid_json"),
    ],
)
def test_an_observation_that_was_not_kept_is_not_served(state: Any, said: str) -> None:
    tape = record(replace(call("look", q=1), observation=Observation(state=state)))
    replay = player(tape)
    answer = replay.call(asked("look", q=1))
    assert (answer.rung, answer.tainted, answer.recorded) == ("error", True, "e1")
    assert answer.explanation.startswith("look: recorded as decision 1, but")
    assert said in answer.explanation
    assert replay.unconsumed() == ()


def test_each_unmatched_call_follows_the_most_specific_policy() -> None:
    policies = Policies(
        unmatched={"news": "simulate", "read": "stop", "*": "sandbox"}, live=frozenset({"rates"})
    )
    wanted = {
        ("news", "read"): "simulate",
        ("rates", "read"): "live",
        ("other", "read"): "stop",
        ("other", "pure"): "sandbox",
        ("rates", "write"): "sandbox",
    }
    assert {
        at: policies.for_unmatched(at[0], at[1])  # type: ignore[arg-type]  # the effects above
        for at in wanted
    } == wanted
    assert Policies().for_unmatched("any", "unknown") == "error"


@pytest.mark.parametrize("policy", ["stop", "simulate", "sandbox"])
def test_what_others_must_answer_has_no_observation(policy: str) -> None:
    answer = player(record(call("a", x=1)), unmatched={"*": policy}).call(asked("b", x=1))
    assert (answer.rung, answer.observation, answer.tainted) == (policy, None, True)


def test_only_listed_reads_are_live() -> None:
    tape = record(call("a", x=1))
    listed = player(tape, live=frozenset({"rates"}))
    assert listed.call(asked("rates", pair="EUR")).rung == "live"
    assert listed.call(asked("rates", "write", pair="EUR")).rung == "error"
    wanted = player(tape, unmatched={"*": "live"}).call(asked("rates", pair="EUR"))
    assert wanted.rung == "error"
    assert "rates is not among the live tools" in wanted.explanation


def test_the_nearest_call_may_still_be_asked_for_exactly() -> None:
    tape = record(call("search", "read", "hit", text="database pool"))
    replay = player(tape, unmatched={"*": "nearest"}, similarity=0.5)
    assert replay.call(asked("search", text="database pools")).rung == "nearest"
    assert replay.unconsumed() == ()
    assert replay.call(asked("search", text="database pool")).rung == "exact"


@pytest.mark.parametrize(
    "wrong", [{"unmatched": {"*": "guess"}}, {"stale": "maybe"}, {"similarity": 1.5}]
)
def test_a_policy_that_does_not_exist_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Policies(**wrong)
