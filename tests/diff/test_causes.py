"""What follows from what, and which difference is said to be the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replay.diff import Comparison, Harm, diff
from tests.diff.building import compare, read, run, write
from tracekit.trajectory import Decision, Message, Trajectory


def _told(found: Comparison) -> list[tuple[str, str, bool]]:
    return [(one.kind, one.tool, one.cause) for one in found.divergences]


def test_a_value_that_only_one_input_holds_makes_a_call_follow_from_it() -> None:
    def shop(order: str) -> Trajectory:
        return run(
            read("order.get", {"order": order}, "found"),
            write("refund", {"order": order, "amount": 42}, "ok"),
            prompt=f"refund {order}, please",
        )

    found = compare(shop("o-771"), shop("o-993"))
    assert _told(found) == [
        ("changed_arguments", "refund", False),
        ("changed_arguments", "order.get", False),
        ("changed_input", "(input)", True),
    ]
    assert found.divergences[0].because == "replayed took 'o-993' from its input"


def test_a_value_that_both_inputs_hold_explains_nothing() -> None:
    def shop(order: str, polite: str) -> Trajectory:
        return run(write("refund", {"order": order}, "ok"), prompt=f"refund o-771 or o-993{polite}")

    found = compare(shop("o-771", ""), shop("o-993", ", please"))
    assert _told(found)[0] == ("changed_arguments", "refund", True)


def test_what_a_call_with_other_arguments_comes_back_with_follows_from_them() -> None:
    found = compare(
        run(read("r", {"q": "one"}, 1, evidence=("m-1",))),
        run(read("r", {"q": "two"}, 2, evidence=("m-2",))),
    )
    assert _told(found) == [
        ("changed_arguments", "r", True),
        ("changed_observation", "r", False),
        ("changed_evidence", "r", False),
    ]
    assert found.divergences[1].because == "it was called with other arguments"


def test_words_beside_a_call_that_differs_follow_from_it_and_others_do_not() -> None:
    def said(text: str, x: int) -> Trajectory:
        made = run(read("r", {"x": x}, "page"), read("s", {}, "page"))
        first = replace(made.decisions[0], message=text)
        return replace(made, decisions=(first, *made.decisions[1:]))

    assert _told(compare(said("let me look", 1), said("looking", 2)))[-1] == (
        "changed_message",
        "(said)",
        False,
    )
    assert _told(compare(said("let me look", 1), said("looking", 1))) == [
        ("changed_message", "(said)", True)
    ]


def test_a_write_to_something_else_is_no_reason_for_what_a_read_came_back_with() -> None:
    def shop(amount: int, touches: tuple[str, ...]) -> Trajectory:
        return run(
            write("pay", {"amount": amount}, "ok", touches=("bank",)),
            read("stock", {}, 100 - amount, touches=touches),
        )

    apart = compare(shop(1, ("store",)), shop(2, ("store",)))
    assert [one.cause for one in apart.divergences] == [True, True]
    shared = compare(shop(1, ("bank",)), shop(2, ("bank",)))
    assert [one.cause for one in shared.divergences] == [True, False]


def test_of_two_writes_swapped_the_first_place_is_the_same_both_ways_round() -> None:
    a, b, c = (write(name, {"x": 1}, "ok") for name in ("a", "b", "c"))
    one, two = run(read("r", {}, 1), a, b, c), run(read("r", {}, 1), b, a, c)
    for left, right in ((one, two), (two, one)):
        found = diff(left, right)
        assert [d.kind for d in found.divergences] == ["reordered"]
        assert (found.matched_prefix, found.resynchronised_at) == (1, 4)


def _talk(reply: str, *, more: bool = False) -> Trajectory:
    """An agent that asks, is told, and acts."""
    told = Message("user", reply, 2)
    calls: list[Any] = [write("refund", {"order": reply[-5:]}, "ok")]
    if more:
        calls.insert(0, read("look", {}, "page"))
    return run("which order?", *calls, messages=(told,))


def test_a_call_added_after_a_users_turn_stands_before_the_next_decision() -> None:
    found = compare(_talk("it is o-771"), _talk("it is o-771", more=True))
    assert [d.kind for d in found.divergences] == ["added"]
    assert (found.matched_prefix, found.resynchronised_at) == (1, 2)


def test_before_a_users_turn_the_planner_had_seen_what_came_before_it() -> None:
    found = compare(_talk("it is o-771"), _talk("well, o-771"))
    assert found.first is not None
    assert found.first.tool == "(user's turn)"
    assert [action.tool for action in found.first.seen] == ["(input)"]
    after = diff(_talk("it is o-771"), _talk("it is o-993"))
    (call,) = [one for one in after.divergences if one.tool == "refund"]
    assert [action.observation for action in call.seen] == ["it is o-771"]


def test_after_a_call_the_planner_had_seen_what_it_came_back_with_not_what_came_before() -> None:
    told = Message("user", "it is o-771", 2)
    made = run("which?", read("look", {}, "page"), write("w", {"x": 1}), messages=(told,))
    other = run("which?", read("look", {}, "page"), write("w", {"x": 2}), messages=(told,))
    found = diff(made, other)
    assert found.first is not None
    assert [action.observation for action in found.first.seen] == ["page"]


def test_the_first_call_that_differs_is_named_where_something_else_came_first() -> None:
    found = compare(
        run(read("r", {}, "old"), read("s", {}, 1), write("w", {"x": 1})),
        run(read("r", {}, "new"), read("s", {}, 1), write("w", {"x": 2})),
    )
    assert found.first is not None
    assert (found.first.kind, found.first.decision) == ("changed_observation", 1)
    assert found.first_call is not None
    assert (found.first_call.tool, found.first_call.decision) == ("w", 3)
    alone = compare(run(write("w", {"x": 1})), run(write("w", {"x": 2})))
    assert alone.first is not None
    assert alone.first_call is None


def test_of_the_values_that_explain_a_call_the_longest_is_named() -> None:
    def page(order: str) -> Trajectory:
        shown = {"kind": "mail", "order": order}
        return run(
            read("list", {"n": order[-3:]}, shown),
            write("send", {"kind": "mail", "order": order}, "ok"),
        )

    found = diff(page("order-771"), run(read("list", {"n": "771"}, "nothing")))
    (missing,) = [one for one in found.divergences if one.tool == "send"]
    assert missing.harm == Harm.WRITE
    assert "'order-771'" in str(missing.because)


def test_a_decision_that_only_speaks_shows_the_planner_nothing() -> None:
    made = run(read("r", {}, "page"), "let me think", write("w", {"x": 1}))
    other = replace(
        made, decisions=(*made.decisions[:2], Decision(3, (write("w", {"x": 2}, None),)))
    )
    found = diff(made, other)
    assert found.first is not None
    assert [action.observation for action in found.first.seen] == ["page"]


def test_of_two_equal_calls_the_nearer_is_the_one_that_moved() -> None:
    x, y = write("x", {"n": 1}, "ok"), write("y", {"n": 1}, "ok")
    found = compare(run(x, y, y), run(y, x, y))
    (moved,) = found.divergences
    assert (moved.tool, moved.left_decision, moved.right_decision) in (("x", 1, 2), ("y", 2, 1))
    assert found.matched_prefix == 0


def test_of_equal_calls_the_one_that_fits_the_groups_is_missing() -> None:
    look, make = read("look", {}, "page"), write("make", {"x": 1}, "ok")
    found = compare(run([make, look], look, look), run(make, look, look))
    assert [(one.kind, one.left_decision) for one in found.divergences] == [("retry", 1)]
