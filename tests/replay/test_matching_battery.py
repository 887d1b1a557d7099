"""The replay battery, at the level where a call finds its observation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.matching import parse_map
from tests.replay.tape_kit import (
    again,
    asked,
    call,
    contract,
    failed,
    player,
    record,
    seen,
    value,
)
from tracekit.contract import Matchers
from tracekit.events import Effect

QUERY = contract("prometheus.query", "read", "expr", defaults={"window": "5m"})


def test_the_same_calls_are_exact_and_leave_nothing_over() -> None:
    tape = record(
        call("prometheus.query", "read", 0.4, expr="rate"),
        failed("loki.query", "read", app="checkout"),
        call("deploy.rollback", "write", "done", app="checkout"),
        call("prometheus.query", "read", 0.0, expr="rate"),
    )
    replay = player(tape)

    answers = [replay.call(again(recorded)) for recorded in tape.calls]

    assert [(a.rung, a.tainted, a.ambiguous, a.recorded) for a in answers] == [
        ("exact", False, False, event) for event in ("e1", "e2", "e3", "e4")
    ]
    assert [a.observation for a in answers] == [c.observation for c in tape.calls]
    assert replay.unconsumed() == ()
    assert replay.shares() == {"exact": 4}
    assert replay.tainted_from is None


def test_a_call_that_spells_out_a_recorded_default_is_the_same_call() -> None:
    tape = record(replace(call("prometheus.query", expr="rate", window="5m"), contract=QUERY))
    assert player(tape).call(asked("prometheus.query", expr="rate")).rung == "exact"
    assert player(tape).call(asked("prometheus.query", window="5m", expr="rate")).rung == "exact"


def test_numbers_and_key_order_do_not_make_another_call() -> None:
    tape = record(call("pay.quote", "read", "ok", a=42, b={"x": 1, "y": 2}))
    assert player(tape).call(asked("pay.quote", b={"y": 2, "x": 1}, a=42.0)).rung == "exact"


def test_a_new_optional_parameter_at_its_default_is_dropped() -> None:
    old = contract("search", "write", "text")
    new = contract("search", "write", "text", defaults={"limit": 10})
    tape = record(replace(call("search", "write", text="x"), contract=old))

    at_default = player(tape).call(
        replace(asked("search", "write", text="x", limit=10), contract=new)
    )
    changed = player(tape).call(replace(asked("search", "write", text="x", limit=99), contract=new))

    assert (at_default.rung, at_default.tainted) == ("normalised", False)
    assert changed.rung == "error"
    assert changed.explanation == (
        "search: not in the recording; nearest is decision 1: /limit: not recorded, asked 99"
    )


def test_a_new_default_value_is_another_call() -> None:
    tape = record(replace(call("prometheus.query", expr="rate", window="5m"), contract=QUERY))
    answer = player(tape).call(asked("prometheus.query", expr="rate", window="15m"))
    assert answer.explanation == (
        "prometheus.query: not in the recording; "
        'nearest is decision 1: /window: recorded "5m", asked "15m"'
    )


def test_where_the_signature_is_not_known_unrecorded_defaults_are_dropped_too() -> None:
    new = contract("search", "read", "text", defaults={"limit": 10, "lang": "en"})
    tape = record(call("search", text="x"), call("search", text="y", lang="en"))
    replay = player(tape)
    rungs = [
        replay.call(replace(asked("search", text=text, limit=10, lang="en"), contract=new)).rung
        for text in ("x", "y")
    ]
    assert rungs == ["normalised", "normalised"]


def test_a_renamed_argument_is_found_by_a_map() -> None:
    tape = record(call("search", "write", "hit", text="x"))
    replay = player(tape, maps=(parse_map("search:/text=find:/query"),))
    answer = replay.call(asked("find", "write", query="x"))
    assert (answer.rung, answer.tainted, value(answer)) == ("normalised", False, "hit")


def test_a_reworded_search_is_an_error_unless_the_nearest_is_wanted() -> None:
    tape = record(
        call("search", "read", "pool docs", text="database pool exhausted", k=3),
        call("search", "read", "dns docs", text="dns lookup failing", k=3),
    )
    reworded = asked("search", text="exhausted database pool", k=3)

    strict = player(tape).call(reworded)
    near = player(tape, unmatched={"search": "nearest"}).call(reworded)
    far = player(tape, unmatched={"*": "nearest"}).call(asked("search", text="zzz", k=9))

    assert (strict.rung, strict.tainted) == ("error", True)
    assert strict.observation is not None
    assert strict.observation.error_type == "NotInRecording"
    assert "pool docs" not in str(strict.observation)
    assert (near.rung, near.tainted, value(near)) == ("nearest", True, "pool docs")
    assert far.rung == "error"
    assert "below 0.75" in far.explanation


def test_a_call_left_out_is_reported_as_never_asked_for() -> None:
    tape = record(call("a", x=1), call("b", x=1), call("c", x=1))
    replay = player(tape)
    assert [replay.call(again(tape.calls[i])).rung for i in (0, 2)] == ["exact", "exact"]
    assert [left.event_id for left in replay.unconsumed()] == ["e2"]


def test_an_extra_call_does_not_disturb_the_others() -> None:
    tape = record(call("a", "read", 1, x=1), call("b", "read", 2, x=1))
    replay = player(tape)
    answers = [replay.call(each) for each in (asked("a", x=1), asked("news", x=1), asked("b", x=1))]
    assert [a.rung for a in answers] == ["exact", "error", "exact"]
    assert answers[1].explanation == (
        "news: not in the recording; the recording has no call of it, only of a, b"
    )
    assert replay.tainted_from == 2


def test_after_the_bad_write_is_left_out_later_reads_are_stale() -> None:
    tape = record(
        call("metrics", "read", "bad", q=1),
        call("rollback", "write", "done", app="x"),
        call("metrics", "read", "good", q=2),
    )
    replay = player(tape)
    before, after = replay.call(asked("metrics", q=1)), replay.call(asked("metrics", q=2))

    assert (before.rung, before.tainted) == ("exact", False)
    assert (after.rung, after.tainted, value(after)) == ("stale", True, "good")
    assert after.explanation == (
        "metrics: decision 3, recorded after rollback (decision 2), which this replay has not done"
    )


def test_stale_observations_can_be_refused() -> None:
    tape = record(call("rollback", "write", app="x"), call("metrics", "read", "good", q=2))
    answer = player(tape, stale="error", unmatched={"*": "nearest"}).call(asked("metrics", q=2))
    assert answer.rung == "error"
    assert answer.observation is not None
    assert answer.observation.is_error
    assert "recorded after rollback (decision 1)" in answer.explanation


def test_a_reading_is_given_again_rather_than_one_from_after_a_write_left_out() -> None:
    tape = record(
        call("metrics", "read", "bad", q=1),
        call("rollback", "write", "done", app="x"),
        call("metrics", "read", "good", q=1),
    )
    replay = player(tape)
    first, second = replay.call(asked("metrics", q=1)), replay.call(asked("metrics", q=1))

    assert (first.rung, value(first)) == ("exact", "bad")
    assert (second.rung, second.tainted, value(second)) == ("reused", True, "bad")
    # It was asked twice and recorded twice: only the write is missing.
    assert [left.event_id for left in replay.unconsumed()] == ["e2"]


@pytest.mark.parametrize("effect", ["write", "unknown"])
@pytest.mark.parametrize("policy", ["error", "nearest", "live"])
def test_a_refund_of_42_never_answers_a_refund_of_4200(effect: Effect, policy: str) -> None:
    lenient = contract(
        "refund",
        effect,
        "order",
        "amount",
        matchers=Matchers(ignore=("/amount",), tolerances={"/amount": 1e6}),
    )
    tape = record(replace(call("refund", effect, "paid", order="o-1", amount=42), contract=lenient))
    replay = player(
        tape,
        unmatched={"*": policy},
        similarity=0.0,
        live=frozenset({"refund"}),
        ignores={"refund": ("/amount",)},
        windows={"refund": {"/amount": 1e9}},
    )
    answer = replay.call(
        replace(asked("refund", effect, order="o-1", amount=4200), contract=lenient)
    )
    assert answer.rung == "error"
    assert answer.tainted
    assert answer.explanation.startswith(
        "refund: not in the recording; nearest is decision 1: /amount: recorded 42, asked 4200"
    )
    assert answer.observation is not None
    assert "42" not in str(answer.observation.value)
    assert [left.event_id for left in replay.unconsumed()] == ["e1"]


def test_a_write_asked_once_more_than_recorded_is_not_answered_again() -> None:
    tape = record(
        call("refund", "write", 1, amount=42),
        call("refund", "write", 2, amount=42),
    )
    replay = player(tape)
    answers = [replay.call(asked("refund", "write", amount=42)) for _ in range(3)]
    assert [a.rung for a in answers] == ["exact", "exact", "error"]
    assert [value(a) for a in answers[:2]] == [1, 2]
    assert "recorded twice, asked three times" in answers[2].explanation


def test_a_tool_that_calls_another_covers_it() -> None:
    inner = replace(
        call("db.write", "write", "row", id=7), event_id="c1", covered_by="e1", path=("deploy",)
    )
    tape = record(call("deploy", "write", "done", app="x"), call("status", q=1), covered=[inner])
    replay = player(tape)
    assert [replay.call(again(c)).rung for c in tape.calls] == ["exact", "exact"]
    assert replay.unconsumed() == ()

    direct = replay.call(asked("db.write", "write", id=7))
    assert direct.rung == "error"
    assert "recorded only beneath deploy, which was served whole" in direct.explanation


def test_a_covered_call_asked_directly_is_served_and_is_no_evidence() -> None:
    inner = replace(call("db.read", "read", "row", id=7), event_id="c1", covered_by="e1")
    tape = record(call("report", "read", "done", app="x"), covered=[inner])
    replay = player(tape)
    direct = replay.call(asked("db.read", id=7))
    assert (direct.rung, direct.tainted, value(direct)) == ("exact", True, "row")
    assert [left.event_id for left in replay.unconsumed()] == ["e1"]


def test_a_body_that_really_runs_again_finds_the_calls_it_made() -> None:
    inner = replace(
        call("db.read", "read", "inner", id=7), event_id="c1", covered_by="e1", path=("report",)
    )
    outer = call("db.read", "read", "outer", id=7)
    tape = record(call("report", "read", "done", app="x"), outer, covered=[inner])
    replay = player(tape)
    nested = asked("db.read", id=7)
    answer = replay.call(replace(nested, under="span-9", path=("report",)))
    assert (answer.rung, answer.tainted, value(answer)) == ("exact", False, "inner")
    assert value(replay.call(nested)) == "outer"


def test_a_reading_beneath_a_served_call_may_be_given_again() -> None:
    inner = replace(call("db.read", "read", "row", id=7), event_id="c1", covered_by="e1")
    tape = record(call("report", "read", "done", app="x"), covered=[inner])
    replay = player(tape)
    replay.call(asked("report", app="x"))
    answer = replay.call(asked("db.read", id=7))
    assert (answer.rung, answer.tainted, value(answer)) == ("reused", True, "row")


def test_an_undeclared_tool_is_a_write() -> None:
    tape = record(call("poll", "unknown", 1, id=1))
    replay = player(tape, unmatched={"*": "nearest"}, similarity=0.0)
    answers = [replay.call(asked("poll", "unknown", id=n)) for n in (1, 1, 2)]
    assert [a.rung for a in answers] == ["exact", "error", "error"]


def test_no_answer_crosses_tools() -> None:
    tape = record(call("read_a", "read", "A", id=1), call("read_b", "read", "B", id=1))
    replay = player(tape, unmatched={"*": "nearest"}, similarity=0.0)
    assert value(replay.call(asked("read_b", id=1))) == "B"
    answer = replay.call(asked("read_c", id=1))
    assert answer.rung == "error"
    assert "similar names: read_a, read_b" in answer.explanation


def test_a_recorded_error_comes_back_as_that_error_and_none_as_none() -> None:
    tape = record(failed("loki", q=1), call("loki", "read", None, q=2))
    replay = player(tape)
    error, none = replay.call(asked("loki", q=1)), replay.call(asked("loki", q=2))
    assert (error.rung, error.observation) == ("exact", tape.calls[0].observation)
    assert none.observation == seen(None)
    assert none.rung == "exact"


def test_polling_calls_get_their_own_answers_in_order() -> None:
    tape = record(*(call("poll", "read", state, id=1) for state in ("pending", "wait", "done")))
    replay = player(tape)
    answers = [replay.call(asked("poll", id=1)) for _ in range(4)]
    assert [value(a) for a in answers] == ["pending", "wait", "done", "done"]
    assert [a.rung for a in answers] == ["exact", "exact", "exact", "reused"]
    assert not any(a.ambiguous for a in answers)
    assert "recorded three times, asked four times" in answers[3].explanation
