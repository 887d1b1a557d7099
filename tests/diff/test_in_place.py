"""Runs that differ in few places are compared where they stand: no other result, and no search."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from replay.diff import compare as module
from replay.diff import diff
from replay.diff.inplace import aligned_in_place
from replay.diff.normal import align_runs, normal_row
from replay.diff.order import PartialOrder
from replay.diff.steps import declared, steps_of
from tests.diff.building import call, read, run
from tracekit.contract import Matchers
from tracekit.trajectory import Call, Trajectory

EFFECTS = {"look": "read", "find": "read", "pay": "write", "sum": "pure", "odd": "unknown"}


def some(chance: random.Random, values: int) -> Call:
    tool = chance.choice(sorted(EFFECTS))
    return call(
        tool,
        {name: chance.randrange(values) for name in chance.sample("xyz", chance.randrange(3))},
        chance.randrange(2),
        effect=EFFECTS[tool],
        policy=chance.choice([None, None, None, "deny"]),
        evidence=chance.choice([(), (), (), ("doc-1",)]),
    )


def pair_of(seed: int) -> tuple[Trajectory, Trajectory]:
    """Two runs of which some steps differ where they stand, be it in what came back alone."""
    chance = random.Random(seed)
    values = chance.choice([2, 3, 100])
    one: list[Call | str] = [
        chance.choice(["hi", "ho"]) if chance.random() < 0.1 else some(chance, values)
        for _ in range(chance.randrange(1, 10))
    ]
    two = list(one)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(two))
        made = two[at]
        if isinstance(made, str):
            two[at] = "hu"
            continue
        new = some(chance, values)
        part = chance.choice(("arguments", "observation", "policy_decision", "evidence"))
        two[at] = replace(made, **{part: getattr(new, part)})
    sizes = [chance.choice([1, 1, 2, 3]) for _ in one]

    def grouped(steps: list[Call | str]) -> Trajectory:
        rest, decisions, left = list(steps), [], list(sizes)
        while rest:
            taken = rest[: left.pop()] if not isinstance(rest[0], str) else rest[:1]
            calls = [step for step in taken if not isinstance(step, str)]
            taken = taken[: taken.index("hi")] if calls and "hi" in taken else taken
            taken = [s for s in taken if not isinstance(s, str)] or taken[:1]
            decisions.append(taken[0] if isinstance(taken[0], str) else taken)
            rest = rest[len(taken) :]
        return run(*decisions)  # type: ignore[arg-type]  # what is said, or calls

    return grouped(one), grouped(two)


def test_the_result_is_that_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    in_place = 0
    for seed in range(300):
        left, right = pair_of(seed)
        rules = declared(left, right)
        ours, theirs = steps_of(left, rules), steps_of(right, rules)
        in_place += aligned_in_place(ours, theirs, rules) is not None and ours != theirs
        found = diff(left, right).as_dict()
        with monkeypatch.context() as patched:
            patched.setattr(module, "aligned_in_place", lambda *_: None)
            assert diff(left, right).as_dict() == found, seed
    assert in_place > 100


def test_nothing_is_cheaper_however_the_steps_are_paired() -> None:
    for seed in range(300):
        left, right = pair_of(seed)
        rules = declared(left, right)
        ours, theirs = (PartialOrder(side, steps_of(side, rules)) for side in (left, right))
        found = aligned_in_place(ours.steps, theirs.steps, rules)
        if found is not None:
            searched = align_runs(ours, normal_row(ours), theirs, normal_row(theirs), rules)
            assert found.cost == searched.alignment.cost, seed


def _noted(looked: list[object], order: object) -> None:
    looked.append(order)


def test_no_order_is_worked_out_for_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    for name in ("flow", "_constraints"):
        monkeypatch.setattr(PartialOrder, name, property(partial(_noted, looked)))
    calls = [read("look", {"n": at, "what": "orders"}, at) for at in range(20)]
    other = [*calls[:7], read("look", {"n": 70, "what": "orders"}, 7), *calls[8:]]
    found = diff(run(*calls), run(*other))
    assert [one.kind for one in found.divergences] == ["changed_arguments"]
    assert looked == []


def test_a_tolerance_or_a_value_that_was_not_kept_leaves_it_to_the_search() -> None:
    lenient = Matchers(tolerances={"/x": 1.0})
    one, two = (read("near", {"x": at, "y": at}, 1, matchers=lenient) for at in (1, 9))
    lost = replace(one, contract=None, observation=replace(one.observation, state="reference"))
    for left, right in (
        (run(one), run(two)),
        (run(replace(one, contract=None), lost), run(replace(two, contract=None), lost)),
    ):
        rules = declared(left, right)
        assert aligned_in_place(steps_of(left, rules), steps_of(right, rules), rules) is None
