"""Of small runs no permitted orders can be aligned at a lower cost: asked of all of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from replay.diff import diff
from replay.diff.align import align
from replay.diff.costs import UNIT
from replay.diff.flow import Values
from replay.diff.order import PartialOrder
from replay.diff.steps import declared, steps_of
from tests.diff.building import call, read, run
from tracekit.trajectory import Call, Trajectory

EFFECTS = {"look": "read", "find": "read", "pay": "write"}
SHOWN = ("u-11", "u-22", "none", None)


def some_call(chance: random.Random) -> Call:
    tool = chance.choice(["look", "look", "find", "pay"])
    asked = {"q": chance.choice(["a", "u-11", "u-22"])}
    return call(tool, asked, chance.choice(SHOWN), effect=EFFECTS[tool])


def changed(calls: list[Call], chance: random.Random) -> list[Call]:
    """Let some calls come back with something else, and now and then another one be made."""
    found = list(calls)
    for at in chance.sample(range(len(calls)), chance.randint(1, len(calls))):
        other = some_call(chance)
        observed = replace(found[at], observation=other.observation)
        found[at] = other if chance.random() < 0.2 else observed
    return found


def orders(order: PartialOrder) -> set[tuple[int, ...]]:
    """Every order that a run permits: of each, ranking the steps by itself gives it."""
    every = permutations(range(len(order.steps)))
    return {tuple(order.linearise([(float(at), "", 0) for at in row])) for row in every}


def cheapest_of_all(left: Trajectory, right: Trajectory) -> float:
    rules, values = declared(left, right), Values()
    both = [PartialOrder(one, steps_of(one, rules), values) for one in (left, right)]
    rows = [[[one.steps[at] for at in row] for row in orders(one)] for one in both]
    return min(align(ours, theirs, rules).cost for ours in rows[0] for theirs in rows[1]) / UNIT


@pytest.mark.parametrize("seed", range(4))
def test_no_orders_of_small_runs_are_cheaper(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        made = [some_call(chance) for _ in range(chance.randint(2, 4))]
        left, right = run(*made), run(*changed(made, chance))
        assert diff(left, right).distance == cheapest_of_all(left, right)


def test_an_order_that_neither_run_alone_suggests_is_found() -> None:
    left = run(
        read("find", {"q": "a"}, "u-22"), read("look", {"q": "u-22"}, "zz"),
        read("find", {"q": "a"}, "yy"),
    )  # fmt: skip
    right = run(
        read("find", {"q": "a"}, "zz"), read("look", {"q": "u-22"}, "u-11"),
        read("find", {"q": "a"}, "u-22"),
    )  # fmt: skip
    for one, two in ((left, right), (right, left)):
        found = diff(one, two)
        assert found.distance == 1.2
        assert [line.kind for line in found.divergences] == ["changed_observation"] * 3
