"""What the user said before the first decision: shown to a planner, and in the replay's record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay import ReplayOptions
from replay.diff import diff
from replay.replayer import Replayer
from replay.tape_answers import Mode, history_of
from tests.replay.tape_kit import call, record, seen
from tracekit.canonical import JsonValue
from tracekit.trajectory import Decision, Message, Trajectory

SYSTEM = Message("system", "be brief", 1)


def said(text: JsonValue, before: int = 1) -> Message:
    return Message("user", text, before)


def talk(*messages: Message, given: JsonValue = "why") -> Trajectory:
    run = record(call("look", x=1), call("look", x=2))
    last = Decision(3, message="because", final=True)
    return replace(run, input=seen(given), messages=messages, decisions=(*run.decisions, last))


@pytest.mark.parametrize(
    ("given", "messages", "shown"),
    [
        ("why", (), ["why"]),
        ("why", (SYSTEM,), ["be brief", "why"]),
        ("why", (SYSTEM, said("and how"), said("now")), ["be brief", "why", "and how", "now"]),
        ({"question": "why"}, (said("and how"),), ["why", "and how"]),
        ({"question": "why"}, (said("why"), said("and how")), ["why", "and how"]),
        ("why", (said("why"), said("why")), ["why", "why"]),
        ({}, (said("and how"),), ["and how"]),
        ("why", (said("and how", before=2),), ["why"]),
    ],
)
def test_a_planner_is_shown_the_input_and_then_what_the_user_said_besides(
    given: JsonValue, messages: tuple[Message, ...], shown: list[str]
) -> None:
    history: list[Any] = history_of(talk(*messages, given=given))
    assert [message["content"] for message in history] == shown


@pytest.mark.parametrize(("mode", "start"), [("free", 1), ("free", 2), ("locked", 1)])
def test_a_replay_carries_the_users_turns_that_its_planner_was_shown(
    mode: Mode, start: int
) -> None:
    recorded = talk(SYSTEM, said("and how"), said("quick"), said("go on", before=3))
    histories: list[list[Any]] = []

    def follows(history: list[Any], tools: Any, script: list[Any]) -> Any:
        histories.append(history)
        return script[sum(message["role"] == "assistant" for message in history)]

    options = ReplayOptions(isolation="process", mode=mode, start=start, self_test=False)
    with Replayer(follows, options) as replayer:
        result = replayer.replay(recorded)

    shown = [m["content"] for m in histories[-1] if m["role"] in ("system", "user")]
    assert shown == ["be brief", "why", "and how", "quick", "go on"]
    made = result.trajectory
    assert made is not None
    turns = [(turn.content, turn.before_decision) for turn in made.turns]
    assert turns == [("and how", 1), ("quick", 1), ("go on", 3)]
    assert diff(recorded, made).same
