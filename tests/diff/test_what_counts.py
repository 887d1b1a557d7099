"""What is told of two runs though little differs: another message, another key, another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from replay.diff import Comparison
from replay.diff.content import identical
from tests.diff.building import compare, kinds, read, run, write
from tests.diff.test_partly_kept import given
from tracekit.canonical import encode
from tracekit.jsontree import Difference
from tracekit.trajectory import Call, Message, Observation, Trajectory

PAID = write("pay", {"amount": 42}, "ok")


def _said(*texts: str) -> Comparison:
    """Compare a run in which the user said "please" and "now" with one where they said this."""
    told = [Message(role="user", content=text, before_decision=1) for text in texts]
    known = [Message(role="user", content=text, before_decision=1) for text in ("please", "now")]
    return compare(run(PAID, messages=tuple(known)), run(PAID, messages=tuple(told)))


def test_what_the_user_says_before_the_first_decision_counts_but_for_the_input() -> None:
    assert _said("please", "now").same
    told = Message(role="user", content="now", before_decision=1)
    assert compare(run(PAID, messages=(told,)), run(PAID, messages=(told,))).same
    assert not compare(run(PAID, messages=(told,)), run(PAID)).same  # as importers keep it

    for texts in (("please",), ("please", "delete all"), ("now", "please"), ("please", "now", "!")):
        found = _said(*texts)
        assert {d.kind for d in found.divergences} == {"changed_message"}
        assert found.divergences[0].tool == "(user's turn)"


def _pay(key: str | None, amount: int = 42, **more: Any) -> Call:
    arguments = {"amount": amount} | ({} if key is None else {"key": key})
    return write("pay", arguments, "ok", idempotency_field="key", **more)


def _keys(*keys: str | None) -> Any:
    return run(*[_pay(key) for key in keys])


@pytest.mark.parametrize("together", [False, True])
def test_a_second_payment_is_no_retry(together: bool) -> None:
    retry, twice = (
        run([_pay("k1"), _pay(key)]) if together else _keys("k1", key) for key in ("k1", "k2")
    )
    found = compare(retry, twice)

    assert kinds(found) == [("changed_arguments", "pay")]
    assert found.divergences[0].is_write
    assert '/key: recorded "(the key of the call before: ' in found.as_text()
    assert 'replayed "(a new key)"' in found.as_text()


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (("a", "a", "b"), ("x", "x", "y"), True),
        (("a", "a", "b"), ("x", "y", "y"), False),
        (("a", "b", "c"), ("x", "y", None), True),  # each a payment
        (("a", "a", "b", "b"), ("a", "a", "a", "b"), False),
        (("a", "a", "a"), ("a", "a", "b"), False),
        (("", ""), ("a", "b"), True),  # an empty key is none
        (("", ""), ("a", "a"), False),
    ],
)
def test_only_which_keys_are_equal_counts(
    one: tuple[str, ...], two: tuple[str, ...], same: bool
) -> None:
    assert compare(_keys(*one), _keys(*two)).same is same


def test_a_key_used_again_counts_for_whatever_it_was_used_first() -> None:
    def third(key: str) -> Any:
        return run(_pay("a", 1), _pay("b", 2), _pay(key, 3))

    assert compare(third("a"), third("a")).same
    assert not compare(third("a"), third("b")).same
    assert not compare(third("a"), third("c")).same


def test_calls_of_one_decision_have_no_order_that_a_key_could_tell_of() -> None:
    one, two = _pay("a", 1), _pay("a", 2)

    assert compare(run([one, two]), run([two, one])).same


def test_a_call_made_again_with_its_key_is_a_retry() -> None:
    found = compare(_keys("a"), _keys("b", "b"))

    assert kinds(found) == [("retry", "pay")]


def test_a_write_that_raised_may_have_happened_so_its_order_counts() -> None:
    check = read("verify", {"order": "A"}, "yes")
    act = write("refund", {"order": "A"}, "no answer within 30 s", error=True)

    assert kinds(compare(run(check, act), run(act, check)))[0][0] == "reordered"


def test_a_write_that_was_refused_did_not_happen_so_its_order_does_not_count() -> None:
    check = read("verify", {"order": "A"}, "yes")
    refused = write("refund", {"order": "A"}, None, policy="deny")

    assert compare(run(check, refused), run(refused, check)).same


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (Decimal("42"), 42, True),
        (Decimal("42.00"), 42.0, True),
        ({"total": [Decimal("0.1")]}, {"total": [0.1]}, True),
        (Decimal("42"), "42", False),
        (Fraction(42), 42, True),
        (Fraction(1, 10), Decimal("0.1"), True),
        (Fraction(1, 2**60), 2.0**-60, True),
        (Fraction(1, 2), "1/2", False),
        (Fraction(1, 3), 1 / 3, False),
        (Fraction(1, 10**400), Fraction(1, 10**401), False),
        (9007199254740993, 9007199254740992.0, False),
        (Decimal("0.10000000000000000001"), 0.1, False),
    ],
)
def test_numbers_are_compared_as_numbers_wherever_they_stand(
    one: object, two: object, same: bool
) -> None:
    def places(value: object) -> Iterator[Trajectory]:
        kept = encode(value)
        seen = Observation(kept.value, "captured", types=kept.types)
        yield run(given(PAID, x=value))
        yield run(replace(PAID, observation=seen))
        yield replace(run(PAID), answer=seen)
        yield replace(run(PAID), input=seen)

    for ours, theirs in zip(places(one), places(two), strict=True):
        assert compare(ours, theirs).same is same
        assert identical(ours, theirs) <= same


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (1e22, 10**22, True),
        (float(2**53), 2**53, True),
        (-1e300, int(-1e300), True),
        ([{"a": 1e21}], [{"a": 10**21}], True),
        (2**53 + 1, 2**53 + 1, True),
        (float(2**53), 2**53 + 1, False),
        (2**53 + 1, 2**53 + 3, False),
        (10**23, 1e23, False),
        (10**22, str(10**22), False),
        (2**53 + 1, str(2**53 + 1), False),
        (-(10**400), 10**400, False),
    ],
)
def test_imported_numbers_of_any_size_have_one_spelling(
    one: object, two: object, same: bool
) -> None:
    def places(value: object) -> Iterator[Trajectory]:
        seen = Observation(value, "captured")  # type: ignore[arg-type]  # as an importer reads it
        yield run(write("pay", {"x": value}, "ok"))
        yield run(replace(PAID, observation=seen))
        yield replace(run(PAID), answer=seen)
        yield replace(run(PAID), input=seen)
        told = Message(role="user", content=[value], before_decision=1)  # type: ignore[list-item]  # as above
        yield run(PAID, messages=(told,))

    for ours, theirs in zip(places(one), places(two), strict=True):
        found = compare(ours, theirs)
        assert found.same is same
        assert bool(found.divergences) is not same
        assert all(divergence.fields for divergence in found.divergences)


def test_an_imported_number_equals_the_recorded_one_and_is_shown_as_a_number() -> None:
    large, other = 2**53 + 1, 2**53 + 3
    recorded = run(given(PAID, x=large))
    assert compare(run(write("pay", {"x": large}, "ok")), recorded).same
    found = compare(run(write("pay", {"x": other}, "ok")), recorded)
    assert found.divergences[0].fields == (Difference("/x", "changed", other, large),)
