"""A case covers an incident if the planner fails it today, as it fails on the incident's runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from replay.distill import Budget, DistillOptions, Grouped, Wish, distill_many
from tests.distill.distill_kit import Planner, distilled
from tests.replay.tape_kit import call, contract, record
from tracekit.store import Store
from tracekit.trajectory import Trajectory


@dataclass(frozen=True)
class _Kept:
    runs: Mapping[str, Trajectory]

    def trajectory(self, run_id: str) -> Trajectory:
        return self.runs[run_id]


def _many(planner: Planner, folder: Path, notes: Mapping[str, str], **options: Any) -> Grouped:
    runs = {name: replace(_read(note), run_id=name, task_id=name) for name, note in notes.items()}
    chosen = DistillOptions(out=folder, **options)
    return distill_many(list(runs), planner=planner, store=cast(Store, _Kept(runs)), options=chosen)


def _read(note: str) -> Trajectory:
    tools = [contract("look", "read"), contract("pay", "write", "whom")]
    return record(call("look", "read", note), call("pay", "write", "ok", whom="x"), tools=tools)


def _shown(history: list[Any]) -> list[str]:
    return [str(m["content"]) for m in history if m["role"] == "tool"]


def _pays(*notes: str) -> Planner:
    """One that pays where what it reads holds one of the notes."""

    def decide(history: list[Any], tools: list[Any]) -> Any:
        shown = _shown(history)
        if not shown:
            return {"calls": [{"tool": "look", "arguments": {}}]}
        if len(shown) == 1 and any(note in shown[0] for note in notes):
            return {"calls": [{"tool": "pay", "arguments": {"whom": "x"}}]}
        return {"answer": "done"}

    return decide


PAID = {"wish": Wish(forbid=("pay",))}


def _order(note: str) -> None:
    if "first" in note:
        raise KeyError("order")


def _customer(note: str) -> None:
    if "second" in note:
        raise KeyError("customer")


def _crashing() -> Planner:
    """One that cannot read some notes; a closure, which runs in this process."""

    def decide(history: list[Any], tools: list[Any]) -> Any:
        shown = _shown(history)
        if not shown:
            return {"calls": [{"tool": "look", "arguments": {}}]}
        _order(shown[0])
        _customer(shown[0])
        return {"answer": "done"}

    return decide


def test_a_case_that_the_planner_passes_by_now_covers_nothing(tmp_path: Path) -> None:
    (made,) = _many(_pays("one", "two"), tmp_path, {"m-1": "one"}, **PAID).groups
    assert made.result is not None
    told = _many(_pays("two"), tmp_path, {"m-2": "two"}, **PAID)
    (group,) = told.groups
    assert group.covered_by is None
    assert group.result is not None
    assert group.result.path != made.result.path
    assert any("does not show its failure any more: pass" in said for said in told.remarks)


def test_a_case_that_the_planner_still_fails_covers_its_incident(tmp_path: Path) -> None:
    (made,) = _many(_pays("one", "two"), tmp_path, {"m-1": "one"}, **PAID).groups
    told = _many(_pays("one"), tmp_path, {"m-2": "the other one"}, **PAID)
    (group,) = told.groups
    assert made.result is not None
    assert group.covered_by == made.result.path
    assert told.remarks == ()


@pytest.mark.parametrize(("note", "covered"), [("second", False), ("first again", True)])
def test_an_error_of_the_same_class_elsewhere_is_not_covered(
    tmp_path: Path, note: str, covered: bool
) -> None:
    assert _many(_crashing(), tmp_path, {"e-0": "first"}).complete
    told = _many(_crashing(), tmp_path, {"e-1": note})
    (group,) = told.groups
    assert (group.covered_by is not None) == covered
    assert group.has_case
    assert told.remarks == ()


def test_a_case_that_was_broken_off_is_said_to_be_so_until_there_is_a_minimal_one(
    tmp_path: Path,
) -> None:
    long, failing = {"m-1": "one. And two. And three."}, _pays("one")
    cut = _many(failing, tmp_path, long, **PAID, budget=Budget(calls=1))
    assert "minimal  no: stopped early, 1 candidate was allowed" in cut.as_text()
    again = _many(failing, tmp_path, long, **PAID)
    assert again.groups[0].unfinished == "m-1"
    assert "not minimal: distil it again with --run-id m-1" in again.as_text()

    record = replace(_read(long["m-1"]), run_id="m-1", task_id="m-1")
    whole = distilled(record, failing, wish=PAID["wish"], out=tmp_path)
    assert whole.minimal
    (group,) = _many(failing, tmp_path, long, **PAID).groups
    assert group.covered_by == whole.path
    assert group.unfinished is None
