"""No write is hidden: it follows only from values that explain all of it, and is listed anyway."""

from __future__ import annotations

import pytest

from replay.diff import Comparison, Divergence, diff
from replay.report import comment, page
from tests.diff.building import compare, read, run, write
from tracekit.trajectory import Trajectory


def _paid(balance: str, **arguments: object) -> Trajectory:
    return run(read("get", {"q": "acct"}, balance), write("pay", dict(arguments), "ok"))


def _pay(found: Comparison) -> Divergence:
    (pay,) = [one for one in found.divergences if one.tool == "pay"]
    return pay


def test_a_payment_to_somebody_else_does_not_follow_from_the_amount_that_was_read() -> None:
    expected = _paid("balance 4711", to="ann", amount=4711)
    found = compare(expected, _paid("balance 4712", to="mallory", amount=4712))
    assert _pay(found).cause
    follows = compare(expected, _paid("balance 4712", to="ann", amount=4712))
    assert not _pay(follows).cause


@pytest.mark.parametrize(
    ("one", "two", "cause"),
    [
        ("pay 4711 to ann", "pay 4712 to ann", False),
        ("pay 4711 to ann", "pay 4712 to mallory", True),
        ("pay 4711 to ann", "pay 4711 to mallory", True),
        ("ref-47112", "ref-47122", True),
    ],
)
def test_of_a_text_all_that_differs_must_have_been_given(one: str, two: str, cause: bool) -> None:
    found = compare(_paid("balance 4711", text=one), _paid("balance 4712", text=two))
    assert _pay(found).cause is cause


def test_a_value_that_the_other_run_was_given_but_this_one_made_up_is_a_cause() -> None:
    found = compare(_paid("balance 4711", amount=4711), _paid("balance 4712", amount=9999))
    assert _pay(found).cause


def test_a_value_of_another_type_is_more_than_another_value() -> None:
    found = compare(_paid("balance 4711", amount=4711), _paid("balance 4712", amount="4712"))
    assert _pay(found).cause


def test_a_second_payment_does_not_follow_from_the_end_of_the_other_run() -> None:
    pay = write("pay", {"to": "ann"}, "ok")
    found = compare(run(pay), run(pay, read("get", {"q": "a"}, "v"), pay))
    assert sorted((one.tool, one.cause) for one in found.divergences) == [
        ("get", True),
        ("pay", True),
    ]


def test_writes_that_one_run_adds_at_its_end_are_all_causes() -> None:
    more = [read("get", {"q": "b"}, "v"), *(write("pay", {"to": n}, "ok") for n in "xy")]
    found = compare(run(read("get", {"q": "a"})), run(read("get", {"q": "a"}), *more))
    assert [one.tool for one in found.causes] == ["pay", "pay", "get"]


def test_a_write_that_follows_is_listed_before_every_read_in_each_report() -> None:
    found = compare(_paid("balance 4711", n=4711), _paid("balance 4712", n=4712))
    assert not _pay(found).cause
    assert found.leading[0] is _pay(found)
    told = _pay(found).explanation[:40]
    text, note, html = found.as_text(), comment(found), page(found)
    assert text.index("Writes that differ") < text.index(told) < text.index("[result]")
    assert f"| **write**, follows | 2 | `{told}" in note
    assert note.index(told) < note.index("| result |")
    assert html.index("Writes that differ (1)") < html.index("Other causes, most harmful first")


def test_a_comment_lists_more_writes_than_other_causes_and_counts_what_has_no_room() -> None:
    few = comment(diff(run(), run(*(write("pay", {"to": n}) for n in range(30)))))
    assert few.count("| **write** |") == 30
    many = comment(diff(run(), run(*(write("pay", {"to": n}) for n in range(900)))))
    assert len(many) < 65_536
    assert f"**{900 - many.count('| **write** |')} more writes differ**" in many


def test_of_a_run_without_an_end_nobody_can_tell_what_it_would_have_done() -> None:
    calls = [read("get", {"q": "a"}, "v"), write("pay", {"to": "ann"}, "ok")]
    found = compare(run(*calls), run(calls[0], answer=None, status="open"))
    (told,) = found.unknown
    assert told.startswith("replayed: what it has not done yet; the run has no end")
    assert not found.causes
    assert all("the run has no end" in str(one.because) for one in found.divergences)
    assert "pay" in found.as_text().split("Side by side", maxsplit=1)[0]
    for report in (found.as_text(), comment(found), page(found), str(found.as_dict()["unknown"])):
        assert "has no end: it is under way, or was broken off" in report


def test_two_runs_without_an_end_are_not_said_to_be_the_same() -> None:
    one = run(read("get", {"q": "a"}, "v"), answer=None, status="open")
    found = compare(one, one)
    assert not found.same
    assert found.as_text().startswith("CANNOT TELL  2 things are unknown")
