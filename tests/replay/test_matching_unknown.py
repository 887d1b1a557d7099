"""Calls whose arguments JSON does not hold whole: what equals them, and what nobody can say."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pytest

from replay.matching import AskedCall
from replay.planner import normal_decision
from tests.replay.tape_kit import call, player, record
from tracekit.canonical import as_compared, described_parts, encode
from tracekit.events import ContentState, Effect
from tracekit.trajectory import Call


class Sealed:
    __slots__ = ("cents",)

    def __init__(self, cents: int) -> None:
        self.cents = cents


@dataclass
class Approve:
    order: str


@dataclass
class Reject:
    order: str


class Colour(Enum):
    RED = "r"


class Rating(Enum):
    RESTRICTED = "r"


def _state(value: object) -> tuple[Any, ContentState]:
    kept = encode({"body": value})
    return kept, "captured" if kept.replayable else "truncated"


def was(effect: Effect, value: object, observation: str = "ok") -> Call:
    kept, state = _state(value)
    one = call("upload", effect, observation)
    return replace(one, arguments=kept.value, argument_types=kept.types, argument_state=state)


def now(effect: Effect, value: object) -> AskedCall:
    kept, state = _state(value)
    return AskedCall(
        "upload",
        kept.value,
        effect,
        types=kept.types,
        described=described_parts(kept.value, state),
    )


UNKNOWN: list[Callable[[int], object]] = [
    lambda n: (f"A-17,{n}" for _ in range(1)),
    lambda n: map(str, [n]),
    lambda n: iter([n]),
    lambda n: functools.partial(print, n),
    lambda n: lambda: n,
    lambda n: Sealed(n),
    lambda n: [{"deep": Sealed(n)}],
]


@pytest.mark.parametrize("make", UNKNOWN)
@pytest.mark.parametrize("effect", ["write", "unknown"])
def test_a_write_of_which_only_a_description_is_known_equals_no_other(
    make: Callable[[int], object], effect: Effect
) -> None:
    replay = player(record(was(effect, make(42))))
    answer = replay.call(now(effect, make(4200)))
    assert (answer.rung, answer.recorded, answer.tainted) == ("error", None, True)
    assert "decision 1 may be another call: not compared, since not kept: /body" in (
        answer.explanation
    )


def test_a_read_of_which_only_a_description_is_known_is_served_and_proves_nothing() -> None:
    replay = player(record(was("read", Sealed(42))))
    answer = replay.call(now("read", Sealed(4200)))
    assert (answer.rung, answer.tainted) == ("exact", True)
    assert "not kept: /body (Sealed)" in answer.explanation


def test_a_write_whose_text_only_looks_like_a_description_is_known() -> None:
    look_alike = {"$unreplayable": {"type": "io:Thing"}}
    replay = player(record(was("write", look_alike)))
    assert replay.call(now("write", look_alike)).rung == "exact"


def test_an_object_of_a_class_that_cannot_be_imported_is_known_all_the_same() -> None:
    @dataclass
    class Local:
        cents: int

    assert player(record(was("write", Local(42)))).call(now("write", Local(42))).rung == "exact"
    assert player(record(was("write", Local(42)))).call(now("write", Local(4200))).rung == "error"


@pytest.mark.parametrize("effect", ["write", "read"])
def test_names_of_files_that_are_no_text_are_told_apart(effect: Effect) -> None:
    ours, theirs = os.fsdecode(b"/data/\x80"), os.fsdecode(b"/data/\x81")
    assert player(record(was(effect, ours))).call(now(effect, ours)).rung == "exact"
    answer = player(record(was(effect, ours))).call(now(effect, theirs))
    assert answer.rung == "error"
    assert r"/body/$str: recorded " in answer.explanation
    assert r"\udc80" in answer.explanation
    assert player(record(was(effect, ours))).call(now(effect, "/data/�")).rung == "error"
    assert player(record(was(effect, ours))).call(now(effect, r"/data/\udc80")).rung == "error"


def test_the_write_whose_file_is_named_is_found_among_those_that_look_the_same() -> None:
    names = [os.fsdecode(b"/data/%c" % byte) for byte in (0x80, 0x81)]
    replay = player(
        record(*(was("write", [{"a": name}], f"rm {n}") for n, name in enumerate(names)))
    )
    answer = replay.call(now("write", [{"a": names[1]}]))
    assert answer.observation is not None
    assert (answer.rung, answer.observation.value) == ("exact", "rm 1")


@pytest.mark.parametrize(
    ("old", "new"), [(Approve("A-1"), Reject("A-1")), (Colour.RED, Rating.RESTRICTED)]
)
def test_objects_of_two_classes_are_two_calls_though_their_fields_are_equal(
    old: object, new: object
) -> None:
    answer = player(record(was("write", old))).call(now("write", new))
    assert answer.rung == "error"
    assert f"of other classes: /body: {type(old).__name__}, {type(new).__name__}" in (
        answer.explanation
    )
    both = record(was("write", old, "first"), was("write", new, "second"))
    found = player(both).call(now("write", new)).observation
    assert found is not None
    assert found.value == "second"


def test_plain_data_stands_for_an_object_with_those_fields() -> None:
    assert (
        player(record(was("write", Approve("A-1")))).call(now("write", {"order": "A-1"})).rung
        == "exact"
    )
    moved = type("Approve", (), {"__annotations__": {"order": str}})
    elsewhere: Any = dataclass(moved)
    assert (
        player(record(was("write", Approve("A-1")))).call(now("write", elsewhere("A-1"))).rung
        == "exact"
    )


def test_what_a_deciding_planner_proposes_is_as_exact() -> None:
    name = os.fsdecode(b"/data/\x80")
    decided: Any = normal_decision({"tool": "upload", "arguments": {"body": name}})
    recorded = was("write", name)
    assert decided["calls"] == [
        {"tool": "upload", "arguments": as_compared(recorded.arguments, recorded.argument_types)}
    ]
    unknown: Any = normal_decision({"tool": "upload", "arguments": {"body": Sealed(4200)}})
    assert unknown["calls"][0]["described"] == ["/body (Sealed)"]


@pytest.mark.parametrize("effect", ["read", "pure"])
def test_a_tool_that_the_record_knows_to_write_counts_as_one_whatever_it_is_now(
    effect: Effect,
) -> None:
    replay = player(record(call("refund", "write", amount=42)), live=frozenset({"refund"}))
    answer = replay.call(AskedCall("refund", {"amount": 4200}, effect))
    assert (answer.rung, answer.effect) == ("error", "write")
