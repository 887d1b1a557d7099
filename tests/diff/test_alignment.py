"""The alignment is the cheapest there is, however it is come by, and says how much work it took."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.diff import align as module
from replay.diff import diff, table
from replay.diff.align import Alignment, align
from replay.diff.arguments import Declared
from replay.diff.blocks import Prices
from replay.diff.costs import APART, change, weight
from replay.diff.rows import Row
from replay.diff.steps import Step, declared, steps_of
from replay.diff.table import ADD, REMOVE, Table, solve
from tests.diff.building import call, read, run, write
from tracekit.contract import Matchers
from tracekit.trajectory import Call

Rules = dict[str, Declared]
Pairs = Sequence[tuple[int | None, int | None]]

EFFECTS = {"look": "read", "near": "read", "pay": "write", "sum": "pure", "odd": "unknown"}
VALUES = st.sampled_from([1, 2, 42.0, "u-11", None, True, [], {"k": [1, 2]}, "ü", 2**60])


@st.composite
def calls(draw: st.DrawFn, values: st.SearchStrategy[Any] = VALUES) -> Call:
    tool = draw(st.sampled_from(sorted(EFFECTS)))
    return call(
        tool,
        draw(st.dictionaries(st.sampled_from(["x", "y", "z/~"]), values, max_size=3)),
        draw(st.sampled_from([1, 2, {"a": 1}])),
        effect=EFFECTS[tool],
        error=draw(st.booleans()),
        policy=draw(st.sampled_from([None, None, "deny"])),
        evidence=draw(st.sampled_from([(), (), ("doc-1",)])),
        matchers=Matchers(tolerances={"/x": 1.0}) if tool == "near" else None,
    )


STEPS = st.one_of(calls(), st.sampled_from(["hi", "ho"]))
ROWS = st.lists(STEPS, max_size=6)


def related(most: int = 30) -> st.SearchStrategy[tuple[list[Call], list[Call]]]:
    """Give two rows of which the second was made from the first by a few changes."""

    def make(seed: int) -> tuple[list[Call], list[Call]]:
        chance = random.Random(seed)  # drawing each call by itself takes most of a test's time
        values, keep = chance.choice([1, 5, 10_000]), chance.choice([2, 5, 20])

        def some() -> Call:
            tool = chance.choice(sorted(EFFECTS))
            arguments = {name: chance.randrange(values) for name in chance.sample("xyz", 2)}
            matchers = Matchers(tolerances={"/x": 1.0}) if tool == "near" else None
            return call(
                tool, arguments, chance.randrange(2), effect=EFFECTS[tool], matchers=matchers
            )

        one = [some() for _ in range(chance.randrange(most))]
        two: list[Call] = []
        for made in one:
            match chance.randrange(3 * keep):
                case 0:
                    continue
                case 1:
                    two.append(some())
                case 2:
                    made = replace(made, arguments={"x": chance.randrange(values)})
            two.append(made)
        if two and chance.random() < 0.3:
            two.insert(chance.randrange(len(two)), two.pop())
        return one, two

    return st.integers(0, 2**32).map(make)


def prepared(
    one: Sequence[Any], two: Sequence[Any]
) -> tuple[tuple[Step, ...], tuple[Step, ...], Rules]:
    left, right = run(*one), run(*two)
    rules = declared(left, right)
    return steps_of(left, rules), steps_of(right, rules), rules


def paid(left: Sequence[Step], right: Sequence[Step], rules: Rules, pairs: Pairs) -> int:
    """Add up what an alignment costs, and hold that it is one."""
    assert [one for one, _ in pairs if one is not None] == list(range(len(left)))
    assert [two for _, two in pairs if two is not None] == list(range(len(right)))
    total = 0
    for one, two in pairs:
        if one is None or two is None:
            total += weight(left[one] if one is not None else right[two or 0])
        else:
            total += change(left[one], right[two], rules)
    return total


def cheapest(left: Sequence[Step], right: Sequence[Step], rules: Rules) -> int:
    """Try all alignments."""

    @cache
    def rest(i: int, j: int) -> int:
        if i == len(left):
            return sum(map(weight, right[j:]))
        if j == len(right):
            return sum(map(weight, left[i:]))
        return min(
            weight(left[i]) + rest(i + 1, j),
            weight(right[j]) + rest(i, j + 1),
            change(left[i], right[j], rules) + rest(i + 1, j + 1),
        )

    return rest(0, 0)


def whole_table(left: Sequence[Step], right: Sequence[Step], rules: Rules) -> Pairs:
    """Read the alignment off the whole table, with nothing taken for granted."""
    if not left or not right:
        moves = [REMOVE] * len(left) + [ADD] * len(right)
    else:
        moves = Table(left, right, rules).solved().moves
    return Alignment(0, ((0, 0, 0, tuple(moves)),)).pairs


@given(ROWS, ROWS)
def test_nothing_is_cheaper_up_to_a_length_of_6(one: list[Any], two: list[Any]) -> None:
    left, right, rules = prepared(one, two)
    found = align(left, right, rules)
    assert found.cost == cheapest(left, right, rules) == paid(left, right, rules, found.pairs)


def agrees_with_the_whole_table(rows: tuple[list[Call], list[Call]]) -> None:
    left, right, rules = prepared(*rows)
    found = align(left, right, rules)
    assert found.pairs == whole_table(left, right, rules)
    assert found.cost == paid(left, right, rules, found.pairs)
    assert found.cells <= 2 * len(left) * len(right)


@given(related())
def test_what_is_taken_for_granted_stands_in_the_whole_table_too(
    rows: tuple[list[Call], list[Call]],
) -> None:
    agrees_with_the_whole_table(rows)


@pytest.mark.slow
@given(related(60))
@settings(max_examples=5_000)
def test_what_is_taken_for_granted_stands_in_5000_whole_tables(
    rows: tuple[list[Call], list[Call]],
) -> None:
    agrees_with_the_whole_table(rows)


@given(related(12), st.integers(1, 5), st.integers(1, 20))
def test_a_table_in_blocks_is_the_same_table(
    rows: tuple[list[Call], list[Call]], height: int, kept: int
) -> None:
    left, right, rules = prepared(*rows)
    if left and right:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "KEPT", kept)
            patch.setattr(table, "BLOCK", height)
            blocks = Table(left, right, rules).solved()
            patch.setattr(table, "SMALL", 10**6)
            by_cell = solve(left, right, rules)
        whole = Table(left, right, rules).solved()
        assert (blocks.cost, blocks.moves) == (whole.cost, whole.moves)
        assert (by_cell.cost, by_cell.moves) == (whole.cost, whole.moves)


@given(related())
def test_long_rows_are_aligned_as_short_ones_are(rows: tuple[list[Call], list[Call]]) -> None:
    left, right, rules = prepared(*rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", 1)
        patch.setattr(module, "BITS", 50)
        found = align(left, right, rules)
    assert found.pairs == align(left, right, rules).pairs


@given(related())
def test_the_script_of_difflib_is_never_cheaper(rows: tuple[list[Call], list[Call]]) -> None:
    left, right, rules = prepared(*rows)
    letters = [step.letter for step in left], [step.letter for step in right]
    total = 0
    for tag, top, bottom, start, stop in difflib.SequenceMatcher(
        None, *letters, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            both = min(bottom - top, stop - start)
            for at in range(both):
                one, two = left[top + at], right[start + at]
                total += min(change(one, two, rules), weight(one) + weight(two))
            total += sum(map(weight, left[top + both : bottom]))
            total += sum(map(weight, right[start + both : stop]))
    assert align(left, right, rules).cost <= total


@given(ROWS, ROWS)
def test_the_other_way_round_costs_the_same(one: list[Any], two: list[Any]) -> None:
    left, right, rules = prepared(one, two)
    there, back = align(left, right, rules), align(right, left, rules)
    assert there.cost == back.cost
    assert (there.cost == 0) or [s.letter for s in left] != [s.letter for s in right]


@given(ROWS, ROWS, ROWS, ROWS)
@settings(max_examples=50)
def test_rows_put_one_after_the_other_cost_no_more_than_each_for_itself(
    one: list[Any], two: list[Any], three: list[Any], four: list[Any]
) -> None:
    left, right, rules = prepared([*one, *three], [*two, *four])
    cut = len(prepared(one, [])[0]), len(prepared(two, [])[0])
    first = align(left[: cut[0]], right[: cut[1]], rules)
    second = align(left[cut[0] :], right[cut[1] :], rules)
    assert align(left, right, rules).cost <= first.cost + second.cost


@given(st.lists(calls(), min_size=1, max_size=6), st.lists(calls(), min_size=1, max_size=6))
def test_many_costs_at_once_are_the_costs_of_each(one: list[Call], two: list[Call]) -> None:
    left, right, rules = prepared(one, two)
    costs = np.full((len(left), len(right)), APART, dtype=np.int32)
    Prices(left, right, rules).fill(range(len(left)), range(len(right)), costs)
    for row, ours in enumerate(left):
        for column, theirs in enumerate(right):
            single = change(ours, theirs, rules)
            assert costs[row, column] == single == change(theirs, ours, rules)


def long(length: int, side: str) -> list[Call]:
    return [
        write(f"put{n % 3}", {"key": f"{side}-{n}", "n": n}, "ok")
        if n % 5 == 0
        else read(f"get{n % 7}", {"key": f"{side}-{n}", "of": [n, n + 1]}, {"value": n * 7})
        for n in range(length)
    ]


def test_equal_rows_fill_no_cell() -> None:
    left, right, rules = prepared(long(3000, "a"), long(3000, "a"))
    found = align(left, right, rules)
    assert (found.cost, found.cells, found.held) == (0, 0, 0)


def test_a_few_differences_in_long_rows_fill_a_few_cells() -> None:
    one = long(2000, "a")
    two = [*one]
    for n in range(0, 2000, 50):  # 40 calls with another argument, and before each a new one
        two[n] = replace(two[n], arguments={"key": "other", "n": n})
    for n in range(1975, 0, -50):
        two.insert(n, read("get1", {"key": f"new-{n}"}, n))
    left, right, rules = prepared(one, two)
    found = align(left, right, rules)
    assert found.cells <= 40 * 20
    assert sum(1 for one, two in found.pairs if one is None) == 40


def test_steps_that_repeat_are_worked_on_near_the_diagonal_only() -> None:
    poll = read("poll", {"job": 7}, "busy")
    left, right, rules = prepared(
        [poll] * 900, [*[poll] * 450, write("pay", {"n": 1}), *[poll] * 453]
    )
    found = align(left, right, rules)
    assert found.cost == 4000 + 3 * 2000
    assert found.cells <= 904 * 60


def test_unrelated_rows_are_compared_whole_in_bounded_memory() -> None:
    left, right, rules = prepared(long(1500, "a"), long(1400, "b"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "KEPT", 100_000)
        patch.setattr(table, "BLOCK", 50_000)
        patch.setattr(table, "LARGE", 1500 * 1400)
        found = align(left, right, rules)
    assert found.cells >= 1500 * 1400
    # the lines and the prices of a block of 38 rows, and one line for each of 40 blocks
    assert found.held <= (2 * 39 + 40) * 1403
    assert found.cost == align(left, right, rules).cost


def test_equal_runs_of_many_calls_are_compared_without_filling_a_cell() -> None:
    calls = [read("poll", {"job": n}, "busy") for n in range(9)] * 300
    found = diff(run(*calls), run(*calls))
    assert found.same
    assert found.cells == 0


def test_rows_in_another_order_are_what_rows_made_anew_would_be() -> None:
    left, _, _ = prepared(long(20, "a"), [])
    order = [*range(19, -1, -1)]
    made, sorted_ = Row([left[at] for at in order]), Row(left).in_order(order)
    for name in Row.__slots__:
        assert list(getattr(made, name)) == list(getattr(sorted_, name)) or name == "seen"


def test_of_equally_cheap_alignments_the_one_that_pairs_earliest_is_taken() -> None:
    same = read("a", {"n": 1}, 1)
    left, right, rules = prepared([same], [same, same])
    assert align(left, right, rules).pairs == ((0, 0), (None, 1))
