"""A replay under ``--map`` is compared with its record in the words of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tracekit
from replay import ReplayOptions, replay_run
from replay.diff import Comparison, diff
from replay.diff.model import Harm
from replay.matching import ArgumentMap, Policies, parse_map
from replay.matching.respelling import MAPPED
from replay.summary import summarise
from tests.replay.tape_kit import call, contract, record
from tracekit.store import open_store
from tracekit.trajectory import Call, Trajectory

MAPS = ("pay:/to=payout:/dest", "pay:/from=payout:/to")


def recorded() -> Trajectory:
    return record(call("pay", "write", "paid", to="B", **{"from": "A"}))


def compared(*calls: Call, maps: tuple[str, ...] = MAPS, of: str = "run-1") -> Comparison:
    said = {MAPPED: "\n".join(maps)} if maps else {}
    made = replace(record(*calls), run_id="run-2", replay_of=of, versions=said)
    found, back = diff(recorded(), made), diff(made, recorded())
    assert (found.distance, found.same) == (back.distance, back.same)
    return found


def paid(**arguments: str) -> Call:
    return call("payout", "write", "paid", **arguments)


def test_a_rename_that_was_mapped_is_no_difference_and_the_map_is_told() -> None:
    found = compared(paid(dest="B", to="A"))
    assert found.same
    assert (found.distance, found.divergences) == (0, ())
    assert [field.pointer for field in found.context] == ["/versions/map"]


def test_a_map_counts_for_the_replay_of_the_very_run_alone() -> None:
    for other in (compared(paid(dest="B", to="A"), maps=()), compared(paid(to="A"), of="run-3")):
        assert not other.same
        assert {d.kind for d in other.divergences} == {"missing", "added"}


def test_another_tool_that_has_the_name_now_is_not_the_recorded_one() -> None:
    """Neither where it is a recorded one of another name, nor where it is new."""
    same = call("pay", "write", "paid", to="B", **{"from": "A"})
    for maps in (("pay=refund", "refund=pay"), ("pay=refund",)):
        assert compared(replace(same, tool="refund"), maps=maps).same
        found = compared(same, maps=maps)
        assert {d.kind for d in found.divergences} == {"missing", "added"}


def test_another_value_is_told_as_that_of_the_recorded_argument() -> None:
    [changed] = compared(paid(dest="MALLORY", to="A")).divergences
    assert (changed.kind, changed.harm) == ("changed_arguments", Harm.WRITE)
    assert [(f.pointer, f.left, f.right) for f in changed.fields] == [("/to", "B", "MALLORY")]


def test_a_call_that_can_be_no_recorded_one_keeps_its_names() -> None:
    found = compared(paid(dest="B", to="MALLORY"), maps=MAPS[:1])
    assert {d.kind for d in found.divergences} == {"missing", "added"}


def test_defaults_and_keys_are_those_of_the_recorded_arguments() -> None:
    then = contract("pay", "write", "to", "key", idempotency_field="/key")
    now = contract("payout", "write", "dest", "once", defaults={"note": None})
    one = replace(call("pay", "write", to="B", key="k-1"), contract=then)
    two = call("payout", "write", dest="B", once="k-2", note=None)
    said = {MAPPED: "pay:/to=payout:/dest\npay:/key=payout:/once"}
    for key, same in (("/once", True), (None, False)):
        declared = now.model_copy(update={"idempotency_field": key})
        made = replace(record(replace(two, contract=declared)), versions=said)
        found = diff(record(one), replace(made, run_id="run-2", replay_of="run-1"))
        assert found.same is same


def test_a_map_is_written_as_it_is_read() -> None:
    for text in (*MAPS, "old=new", "a.b:/c/0=d:/e"):
        assert str(parse_map(text)) == text


def test_a_replay_tells_its_maps_to_who_compares_it_later(tmp_path: Path) -> None:
    @tracekit.tool(name="pay", effect="write")
    def pay(to: str, amount: int) -> str:
        return "paid"

    @tracekit.tool(name="payout", effect="write")
    def payout(dest: str, amount: int) -> str:
        return "paid"

    @tracekit.agent
    def old(order: str) -> str:
        return pay("B", 5)

    @tracekit.agent(name="old")
    def new(order: str) -> str:
        return payout("B", 5)

    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="run-1"):
        old("A-17")
    maps = (ArgumentMap("pay", "payout", "/to", "/dest"),)
    done = replay_run(
        "run-1",
        planner=new,
        store=tmp_path / "store",
        options=ReplayOptions(policies=Policies(maps=maps)),
    )
    assert done.passed
    assert "trajectory the same as recorded" in summarise(done)
    store = open_store(tmp_path / "store")
    assert diff(store.trajectory("run-1"), store.trajectory(done.run_id)).same
