"""Renames of ``--map``: all are read before any is written, and none hides another argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.matching import Answer, parse_map
from replay.matching.values import Unmatched
from replay.proposals import compare_decisions
from replay.result import LockedBy
from replay.tape import Tape
from tests.replay.tape_kit import asked, call, contract, player, record, value
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Parameter
from tracekit.events import Effect

SWAP = ("pay:/a=pay:/b", "pay:/b=pay:/a")


def answered(
    maps: tuple[str, ...], now: dict[str, Any], declared: Contract | None = None, /, **then: Any
) -> Answer:
    """Ask for ``payout``, or what is declared, of a record that has one ``pay``."""
    replay = player(record(call("pay", "write", "paid", **then)), maps=tuple(map(parse_map, maps)))
    tool = maps[0].partition("=")[2].partition(":")[0]
    return replay.call(replace(asked(tool, "write", **now), contract=declared))


@pytest.mark.parametrize("maps", [SWAP, SWAP[::-1]])
def test_names_that_were_swapped_are_swapped_back(maps: tuple[str, ...]) -> None:
    assert answered(maps, {"a": 2, "b": 1}, a=1, b=2).rung == "normalised"
    for wrong in ({"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 1}, {"a": 3, "b": 1}):
        assert answered(maps, wrong, a=1, b=2).rung == "error"


def test_names_that_moved_on_by_one_are_moved_back_in_any_order() -> None:
    chain = ["pay:/a=payout:/b", "pay:/b=payout:/c", "pay:/c=payout:/a"]
    for maps in (chain, chain[::-1]):
        assert answered(tuple(maps), {"b": 1, "c": 2, "a": 3}, a=1, b=2, c=3).rung == "normalised"
        assert answered(tuple(maps), {"a": 1, "b": 2, "c": 3}, a=1, b=2, c=3).rung == "error"


def test_places_in_a_list_are_swapped_without_moving_the_others() -> None:
    maps = ("pay:/xs/0=payout:/xs/1", "pay:/xs/1=payout:/xs/0")
    assert answered(maps, {"xs": [2, 1, 3]}, xs=[1, 2, 3]).rung == "normalised"
    assert answered(maps, {"xs": [1, 2, 3]}, xs=[1, 2, 3]).rung == "error"


def test_what_was_taken_out_of_a_list_leaves_no_gap() -> None:
    maps = ("pay:/to=payout:/xs/0",)
    assert answered(maps, {"xs": ["A", "B"]}, to="A", xs=["B"]).rung == "normalised"


@pytest.mark.parametrize(
    ("places", "now", "rung"),
    [
        (("/who/a", "/who/b"), {"who": {"a": "A", "b": "B"}}, "normalised"),
        (("/who/a", "/who/b"), {"who": {"a": "B", "b": "A"}}, "error"),
        (("/who/a", "/who/b"), {"who": {"a": "A", "b": "B", "fee": 9}}, "error"),
        (("/who/a", "/who/b"), {"who": {"a": "A", "b": "B"}, "to": {}}, "error"),
        (("/who/0", "/who/1"), {"who": ["A", "B"]}, "normalised"),
        (("/who/1", "/who/0"), {"who": ["A", "B"]}, "error"),
        (("/who/0", "/who/1"), {"who": ["A", "B", "C"]}, "error"),
        (("/p/from/id", "/p/to/id"), {"p": {"from": {"id": "A"}, "to": {"id": "B"}}}, "normalised"),
        (("/who/0/id", "/who/1/id"), {"who": [{"id": "A"}, {"id": "B"}]}, "normalised"),
        (("/who/0/id", "/who/1/id"), {"who": [{"id": "A"}, {"id": "B"}, {}]}, "error"),
        (("/who/0/id", "/to"), {"who": [{"id": "A"}], "to": "B"}, "normalised"),
        (("/who/0/id", "/to"), {"who": [], "to": "B", "a": "A"}, "error"),
    ],
)
def test_what_held_nothing_but_renamed_arguments_goes_with_them(
    places: tuple[str, str], now: dict[str, Any], rung: str
) -> None:
    maps = (f"pay:/a=payout:{places[0]}", f"pay:/b=payout:{places[1]}")
    assert answered(maps, now, a="A", b="B").rung == rung


def test_further_keywords_are_none_once_all_of_them_were_renamed() -> None:
    more = Parameter(name="more", kind="kwargs", required=False, default={})
    then = Contract(name="pay", effect="write", parameters=(Parameter(name="to"), more))
    now = Contract(name="pay", effect="write", parameters=(more,))
    paid = record(call("pay", "write", "paid", to="B", more={}), tools=[then])
    maps = (parse_map("pay:/to=pay:/more/dest"),)
    ask = replace(asked("pay", "write", more={"dest": "B"}), contract=now)
    assert player(paid, maps=maps).call(ask).rung == "normalised"
    ask = replace(ask, arguments={"more": {"dest": "B", "fee": 9}})
    assert player(paid, maps=maps).call(ask).rung == "error"


def test_an_argument_that_stands_under_the_recorded_name_already_makes_another_call() -> None:
    found = answered(("pay:/to=payout:/dest",), {"dest": "B", "to": "MALLORY"}, to="B")
    assert (found.rung, found.tainted) == ("error", True)
    assert found.explanation == (
        "payout: --map makes /dest the recorded /to, and the call has another /to as well: "
        "no recorded call is equal to both"
    )
    for told in ("B", "MALLORY"):
        assert answered(("pay:/to=payout:/dest",), {"dest": "B", "to": told}, to=told).rung == (
            "error"
        )


def test_two_arguments_that_are_renamed_to_one_are_another_call() -> None:
    maps = ("pay:/to=payout:/dest", "pay:/to=payout:/target")
    assert answered(maps, {"dest": "A", "target": "B"}, to="B").rung == "error"
    assert answered(maps, {"target": "B"}, to="B").rung == "normalised"
    assert answered(maps, {"dest": "B"}, to="B").rung == "normalised"


def test_a_name_that_is_kept_with_its_default_is_in_nobodys_way() -> None:
    kept = contract("payout", "write", "dest", defaults={"to": None})
    maps = ("pay:/to=payout:/dest",)
    assert answered(maps, {"dest": "B", "to": None}, kept, to="B").rung == "normalised"
    assert answered(maps, {"dest": "C", "to": None}, kept, to="B").rung == "error"
    assert answered(maps, {"dest": "B", "to": "C"}, kept, to="B").rung == "error"


def test_a_place_that_nothing_has_room_for_is_told() -> None:
    found = answered(("pay:/opts/depth=payout:/depth",), {"depth": 1}, opts={"depth": 1})
    assert found.rung == "error"
    assert "--map makes /depth the recorded /opts/depth, and the call has nothing that" in (
        found.explanation
    )


def test_classes_are_compared_where_the_record_has_the_argument() -> None:
    one: dict[str, JsonValue] = {"/a": ["dataclass", "m:Gold"], "/b": ["dataclass", "m:Iron"]}
    other: dict[str, JsonValue] = {"/a": one["/b"], "/b": one["/a"]}
    paid = replace(call("pay", "write", a={"x": 1}, b={"x": 1}), argument_types=one)
    replay = player(record(paid), maps=tuple(map(parse_map, SWAP)))
    ask = asked("pay", "write", a={"x": 1}, b={"x": 1})
    assert replay.call(replace(ask, types=one)).rung == "error"
    assert replay.call(replace(ask, types=other)).rung == "normalised"


def test_a_further_keyword_never_stands_in_for_a_named_argument() -> None:
    """Neither beside a rename nor beside a parameter that goes by its position alone."""
    more = Parameter(name="more", kind="kwargs", required=False)
    now = Contract(name="pay", effect="write", parameters=(Parameter(name="dest"), more))
    then = contract("pay", "write", "to")
    paid = record(call("pay", "write", "paid", to="B"), tools=[then])
    replay = player(paid, maps=(parse_map("pay:/to=pay:/dest"),))
    ask = replace(asked("pay", "write", dest="MALLORY", more={"to": "B"}), contract=now)
    found = replay.call(ask)
    assert found.rung == "error"
    assert "/to is given twice" in found.explanation

    only = Parameter(name="to", kind="positional")
    now = Contract(name="pay", effect="write", parameters=(only, more))
    ask = replace(asked("pay", "write", to="MALLORY", more={"to": "B"}), contract=now)
    found = player(paid).call(ask)
    assert found.rung == "error"
    assert "/to is given twice" in found.explanation


def test_what_does_not_matter_may_be_named_as_it_is_called_now_or_was() -> None:
    maps = (parse_map("look:/at=find:/when"),)
    ask = asked("find", q="a", when=2)
    for ignores, rung in (({"look": ("/at",)}, "normalised"), ({"find": ("/when",)}, "normalised")):
        replay = player(record(call("look", q="a", at=1)), maps=maps, ignores=ignores)
        assert replay.call(ask).rung == rung
    windows = {"find": {"/when": 60.0}}
    replay = player(record(call("look", q="a", at=1)), maps=maps, windows=windows)
    assert replay.call(ask).rung == "normalised"


def test_a_key_is_the_recorded_one_only_where_its_name_is() -> None:
    then = contract("pay", "write", "key", "memo", idempotency_field="/key")
    paid = replace(call("pay", "write", "paid", key="k-1", memo="m"), contract=then)
    maps = (parse_map("pay:/key=pay:/memo"), parse_map("pay:/memo=pay:/key"))
    for named, rung in (("/memo", "normalised"), ("/key", "error")):
        now = contract("pay", "write", "key", "memo", idempotency_field=named)
        ask = replace(asked("pay", "write", memo="k-2", key="m"), contract=now)
        assert player(record(paid), maps=maps).call(ask).rung == rung


def test_a_proposal_that_gives_an_argument_twice_is_no_recorded_one() -> None:
    tape = Tape.of(record(call("pay", "write", to="B")))
    maps = (parse_map("pay:/to=payout:/dest"),)

    def change(declared: Contract | None = None, /, **arguments: JsonValue) -> str:
        then: JsonValue = {"calls": [{"tool": "pay", "arguments": {"to": "B"}}], "message": None}
        now: JsonValue = {"calls": [{"tool": "payout", "arguments": arguments}], "message": None}
        by: LockedBy = "code" if declared else "model"
        return compare_decisions(1, then, now, tape, by=by, maps=maps, declared=declared).change

    assert change(dest="B") == "same"
    assert change(dest="B", to=None) == "other tool"
    kept = contract("payout", "write", "dest", defaults={"to": None})
    assert change(kept, dest="B", to=None) == "same"
    assert change(kept, dest="B", to="MALLORY") == "other tool"
    assert change(dest="B", to="MALLORY") == "other tool"
    assert change(dest="MALLORY", to="B") == "other tool"


SWAPPED_TOOLS = ("pay=refund", "refund=pay")


@pytest.mark.parametrize("policy", ["error", "nearest"])
@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(
    ("maps", "recorded", "tool", "served"),
    [
        (SWAPPED_TOOLS, "pay", "refund", "pay"),
        (SWAPPED_TOOLS, "pay", "pay", None),  # it is the refund of then
        (SWAPPED_TOOLS, "pay refund", "pay", "refund"),
        (SWAPPED_TOOLS[:1], "pay", "refund", "pay"),
        (SWAPPED_TOOLS[:1], "pay", "pay", None),  # it is another tool
        (SWAPPED_TOOLS[:1], "refund", "refund", None),
        (("pay:/a=refund:/a",), "pay", "pay", None),
        (("pay=refund", "refund=charge"), "pay", "charge", None),
        (("pay=refund", "refund=charge"), "refund", "refund", None),
        (("pay=refund", "refund=charge"), "pay", "refund", "pay"),
        (("pay=refund", "pay=pay"), "pay", "pay", "pay"),  # the user says that it is both
        (("pay=refund", "pay=pay"), "pay", "refund", "pay"),
        (("pay=refund", "refund=refund"), "refund", "refund", "refund"),
        (("pay:/b=pay:/c",), "pay", "pay", "pay"),
    ],
)
def test_a_name_that_maps_claim_never_means_itself(
    maps: tuple[str, ...],
    recorded: str,
    tool: str,
    served: str | None,
    effect: Effect,
    policy: Unmatched,
) -> None:
    then = record(*(call(name, effect, name, a=1) for name in recorded.split()))
    unmatched = {tool: policy} if effect == "read" else {}
    replay = player(then, maps=tuple(map(parse_map, maps)), unmatched=unmatched)
    found = replay.call(asked(tool, effect, a=1))
    assert found.recorded == (None if served is None else found.recorded)
    if served is None:
        assert (found.rung, found.tainted) == ("error", True)
        assert f"{tool}: not in the recording; --map makes " in found.explanation
    else:
        assert (found.rung in ("exact", "normalised"), value(found)) == (True, served)


def test_who_maps_a_name_away_is_told_how_it_may_mean_both() -> None:
    then = record(call("pay", "write", "paid", a=1))
    told = [
        player(then, maps=tuple(map(parse_map, maps))).call(asked("pay", "write", a=1)).explanation
        for maps in (SWAPPED_TOOLS, SWAPPED_TOOLS[:1])
    ]
    assert told == [
        "pay: not in the recording; --map makes it the recorded refund, of which the recording has "
        "no call (is it itself, too? --map pay=pay)",
        "pay: not in the recording; --map makes the recorded pay refund, so this one is new "
        "(is it itself, too? --map pay=pay)",
    ]
