"""What the partial order allows is no difference; what it does not allow is one."""

from __future__ import annotations

import pytest

from replay.diff import Harm
from tests.diff.building import call, compare, kinds, read, run, write

A = read("a", {"q": "one"}, "alpha")
B = read("b", {"q": "two"}, "beta")
C = read("c", {"q": "three"}, "gamma")
V = write("v", {"x": 1}, "ok")
W = write("w", {"x": 2}, "ok")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([[A, B, C]], [[C, A, B]]),
        ([[V, W]], [[W, V]]),
        ([A, B, C], [C, B, A]),
        ([[A, B], C], [A, [C, B]]),
        ([V, A, B, W], [V, B, A, W]),
    ],
    ids=["parallel", "parallel writes", "independent reads", "grouping of reads", "between writes"],
)
def test_what_is_unordered_may_come_in_any_order(left: list, right: list) -> None:  # type: ignore[type-arg]  # mixed on purpose
    found = compare(run(*left), run(*right))
    assert found.same
    assert found.distance == 0
    assert found.divergences == ()


def test_two_writes_swapped_differ() -> None:
    found = compare(run(V, W), run(W, V))
    assert [(one.kind, one.harm) for one in found.divergences] == [("reordered", Harm.WRITE)]


def test_two_writes_of_one_tool_swapped_are_one_move_not_two_changes() -> None:
    one, two = write("pay", {"to": "ann"}, "ok"), write("pay", {"to": "bob"}, "ok")
    found = compare(run(one, two), run(two, one))
    assert kinds(found) == [("reordered", "pay")]


def test_writes_issued_together_or_one_after_the_other_differ() -> None:
    for apart in ([V, W], [W, V]):
        found = compare(run([V, W]), run(*apart))
        assert [one.kind for one in found.divergences] == ["reordered"]


def test_a_read_does_not_pass_a_write_that_it_could_see() -> None:
    found = compare(run(A, W), run(W, A))
    assert [one.kind for one in found.divergences] == ["reordered"]


def test_a_read_passes_a_write_of_another_resource() -> None:
    mail = write("mail", {"to": "x"}, "ok", touches=("mail",))
    disk = read("disk", {"p": "/"}, "full", touches=("disk",))
    assert compare(run(mail, disk), run(disk, mail)).same


@pytest.mark.parametrize("how", ["pure", "refused"])
def test_a_read_passes_what_changed_nothing(how: str) -> None:
    other = {
        "pure": call("sum", {"x": 1}, 2, effect="pure"),
        "refused": write("w", {"x": 2}, "no", policy="deny", error=True),
    }[how]
    assert compare(run(other, A), run(A, other)).same


def test_a_read_that_uses_what_another_showed_does_not_pass_it() -> None:
    find = read("find", {"name": "ann"}, {"id": "u-77"})
    load = read("load", {"id": "u-77"}, "profile")
    found = compare(run(find, load), run(load, find))
    assert [one.kind for one in found.divergences] == ["reordered"]


def test_a_value_in_running_text_counts_too() -> None:
    find = read("find", {"name": "ann"}, "Her home town is New York, they say.")
    load = read("weather", {"city": "New York"}, "rain")
    assert not compare(run(find, load), run(load, find)).same


def test_a_value_that_the_user_gave_was_not_first_seen_in_an_observation() -> None:
    find = read("find", {"name": "ann"}, {"id": "u-77"})
    load = read("load", {"id": "u-77"}, "profile")
    left, right = run(find, load, prompt="see u-77"), run(load, find, prompt="see u-77")
    assert compare(left, right).same


def test_any_observation_that_shows_a_value_will_do() -> None:
    one, two = (read(name, {}, "see u-77") for name in ("one", "two"))
    load = read("load", {"id": "u-77"}, "profile")
    assert compare(run(one, two, load), run(two, load, one)).same
    assert compare(run(one, load, two), run(two, load, one)).same
    assert not compare(run(one, two, load), run(load, one, two)).same


def test_an_argument_that_comes_back_as_an_echo_orders_nothing() -> None:
    one = read("q", {"window": "15m", "expr": "cpu"}, {"window": "15m", "v": 1})
    two = read("q", {"window": "15m", "expr": "mem"}, {"window": "15m", "v": 2})
    assert compare(run(one, two), run(two, one)).same


def test_nothing_passes_what_was_said_to_the_user() -> None:
    found = compare(run(A, "shall I?", B), run(B, "shall I?", A))
    assert not found.same


def test_a_change_between_independent_reads_stays_one_change() -> None:
    other = read("b", {"q": "zwei"}, "beta")
    for row in ([A, other, C], [C, other, A], [other, C, A]):
        assert kinds(compare(run(A, B, C), run(*row))) == [("changed_arguments", "b")]


def test_two_reads_that_came_back_with_something_else_are_no_move() -> None:
    left = run(read("find", {"who": "ann"}, "acct-771"), read("find", {"id": "acct-771"}, "7 EUR"))
    first, second = (
        read("find", {"who": "ann"}, "nobody"),
        read("find", {"id": "acct-771"}, "8 EUR"),
    )
    for row in ([first, second], [second, first]):
        found = compare(left, run(*row))
        assert kinds(found) == [("changed_observation", "find")] * 2
        assert found.distance == 0.8


def test_a_write_among_reordered_reads_is_one_addition() -> None:
    reads = [read(f"r{n}", {"n": n}, n) for n in range(5)]
    found = compare(run(*reads), run(reads[4], reads[3], W, *reads[:3]))
    assert kinds(found) == [("added", "w")]
