"""Learnt aliases: what a planner made without ``conditions``, paired by place, for reads only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.matching import AskedPrompt
from tests.replay.tape_kit import asked, call, player, record, seen, value
from tracekit.trajectory import ModelCall

OLD, NEW = "0b8f0c1e-3c55-4f0e-9f1d-5a1f7c9d2e11", "c56a4180-65aa-42ec-a945-5fd21dec0538"
OTHER = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


def learning(*calls: Any, **more: Any) -> Any:
    return player(record(*calls, **more), learn=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        ("2026-01-01T10:00:00Z", "2026-11-30T09:15:00.250Z"),
        ("9f86d081884c7d659a2f", "60303ae22b998861bce3"),
        ("sess_4kQ92mXb7Lp0aZt1", "sess_Yt38sWq1Pz6mNc5D"),
        (1767261600, 1796044500),
        (1767261600.25, 1796044500.5),
        ("trace 9f86d081884c7d659a2f at 1767261600", "trace 60303ae22b998861bce3 at 1796044500"),
    ],
)
def test_made_values_at_one_place_are_paired_where_the_user_allows(old: Any, new: Any) -> None:
    tape = record(call("look", "read", "found", session=old, q="errors"))
    strict = player(tape)
    assert strict.call(asked("look", session=new, q="errors")).rung == "error"

    answer = learning(*tape.calls).call(asked("look", session=new, q="errors"))
    assert (answer.rung, answer.tainted, value(answer)) == ("normalised", False, "found")
    assert "learnt:" in answer.explanation


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ORD-1001", "ORD-1002"),
        (42, 4200),
        ("refunds", "returns"),
        (OLD, "2026-01-01T10:00:00Z"),
        (True, False),
    ],
)
def test_what_does_not_look_made_is_another_call(old: Any, new: Any) -> None:
    assert learning(call("look", x=old)).call(asked("look", x=new)).rung == "error"


def test_no_write_is_ever_found_by_a_learnt_alias() -> None:
    replay = learning(call("look", session=OLD), call("pay", "write", session=OLD, amount=1))
    assert replay.call(asked("look", session=NEW)).rung == "normalised"
    assert replay.call(asked("pay", "write", session=NEW, amount=1)).rung == "error"


def test_a_value_that_the_planner_was_given_or_saw_stands_for_nothing_else() -> None:
    observed = learning(call("list", "read", [OLD, NEW]), call("look", "read", "A", order=OLD))
    assert observed.call(asked("look", order=NEW)).rung == "error"
    assert observed.call(asked("look", order=OTHER)).rung == "error"
    given = replace(record(call("look", order=OLD)), input=seen({"order": OLD}))
    assert player(given, learn=True).call(asked("look", order=NEW)).rung == "error"


def test_each_value_stands_for_one_other() -> None:
    replay = learning(
        call("look", "read", 1, session=OLD, page=1), call("look", "read", 2, session=OLD, page=2)
    )
    assert replay.call(asked("look", session=NEW, page=1)).rung == "normalised"
    assert replay.call(asked("look", session=OTHER, page=2)).rung == "error"
    assert value(replay.call(asked("look", session=NEW, page=2))) == 2


def test_two_values_of_one_call_are_not_paired_with_the_same() -> None:
    replay = learning(call("look", a=OLD, b=OTHER))
    assert replay.call(asked("look", a=NEW, b=NEW)).rung == "error"


def test_a_prompt_is_found_though_its_time_is_another() -> None:
    def said(time: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": f"It is {time}. What now?"}]}

    known = ModelCall("m1", "s1", said("2026-01-01T10:00:00Z"), None, seen("wait"), name="plan")
    replay = learning(call("look"), prompts=[known])
    answer = replay.prompt(AskedPrompt(said("2026-11-30T09:15:00Z"), name="plan"))
    assert (answer.rung, answer.tainted) == ("normalised", False)
    other = {"messages": [{"role": "user", "content": "It is late. What now?"}]}
    assert replay.prompt(AskedPrompt(other, name="plan")) is None
