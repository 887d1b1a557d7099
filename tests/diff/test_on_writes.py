"""Whether a difference is on a write, and where nobody can tell: the same in every form."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from replay.comparing.outcome import CaseSummary, ManyComparison, outcome_of
from replay.comparing.telling import case_rows, rest_lines
from replay.diff import Comparison
from replay.diff.model import Harm
from replay.report import comment, page, suite
from tests.diff.building import call, compare, kinds, read, run, write
from tests.diff.test_partly_kept import given, gone

PAID = write("pay", {"amount": 42}, "paid")
DECLINED = write("pay", {"amount": 42}, "declined", error=True)
CHECK = read("check", {"order": "A"}, "yes")
REFUSED = write("pay", {"amount": 42}, None, policy="deny")


class _Slots:
    """An object of which only the class is kept."""

    __slots__ = ("amount",)


def _tests(found: Comparison) -> dict[str, str]:
    root = ElementTree.fromstring(suite(found))
    told = {case.get("name", ""): next(iter(case), None) for case in root.iter("testcase")}
    root = next(root.iter("testsuite"))
    tags = {name: "passed" if one is None else one.tag for name, one in told.items()}
    assert int(root.get("failures", "")) == sum(tag == "failure" for tag in tags.values())
    assert int(root.get("errors", "")) == sum(tag == "error" for tag in tags.values())
    return tags


def _is_on_a_write(found: Comparison) -> None:
    writes = len(found.writes)
    assert writes
    assert f"{writes} of them on writes" in found.as_text().splitlines()[0]
    assert f"{writes} of them on writes" in page(found)
    assert f"{writes} on writes" in comment(found)
    assert _tests(found)["no write differs"] == "failure"
    assert sum(one["on_write"] for one in found.as_dict()["divergences"]) == writes  # type: ignore[index, union-attr, misc]  # JSON
    assert outcome_of("case", "run-1", found).on_writes == writes


def test_two_writes_that_changed_places_are_on_a_write() -> None:
    first, second = write("pay", {"amount": 1}), write("pay", {"amount": 2})
    found = compare(run(first, second), run(second, first))

    assert kinds(found) == [("reordered", "pay")]
    assert found.divergences[0].harm == Harm.WRITE
    _is_on_a_write(found)


@pytest.mark.parametrize("acting", [PAID, DECLINED])
def test_acting_before_checking_is_on_a_write(acting: object) -> None:
    found = compare(run(CHECK, acting), run(acting, CHECK))  # type: ignore[arg-type]  # a call

    assert found.divergences[0].harm == Harm.WRITE
    _is_on_a_write(found)


@pytest.mark.parametrize("before", [(), (write("ship", {"to": "x"}), write("ship", {"to": "y"}))])
def test_a_payment_that_failed_on_one_side_only_is_on_a_write(before: tuple[object, ...]) -> None:
    ours, theirs = before[:1], before[1:]
    found = compare(run(*ours, PAID), run(*theirs, DECLINED))  # type: ignore[arg-type]  # calls

    changed = next(one for one in found.divergences if one.kind == "changed_observation")
    assert changed.harm == Harm.WRITE
    assert "pay failed in replayed only" in changed.explanation
    assert changed in found.leading
    _is_on_a_write(found)


def test_what_came_back_otherwise_for_what_went_through_is_a_result() -> None:
    again = write("pay", {"amount": 42}, "paid, no. 7")
    for one, two in ((PAID, again), (CHECK, read("check", {"order": "A"}, "no", error=True))):
        found = compare(run(one), run(two))
        assert found.divergences[0].harm == Harm.RESULT
        assert "none on a write" in found.as_text()
        assert _tests(found)["no write differs"] == "passed"


def test_a_write_that_a_policy_refused_on_one_side_is_on_a_write() -> None:
    found = compare(run(PAID), run(REFUSED))

    assert kinds(found) == [("changed_policy", "pay")]
    _is_on_a_write(found)
    assert _tests(found)["no policy decides otherwise"] == "failure"


def _unsure(*, effect: str = "write") -> Comparison:
    """Compare two runs with a call that nobody can compare, and with different answers."""
    kept = run(given(call("pay", effect=effect), order=_Slots()))
    other = run(given(call("pay", effect=effect), order=_Slots()), answer="done otherwise")
    return compare(kept, other)


def test_where_a_write_cannot_be_compared_no_form_says_that_none_differs() -> None:
    found = _unsure()
    headline = "cannot tell whether a write differs"

    assert headline in found.as_text().splitlines()[0]
    assert headline in page(found)
    assert headline in comment(found).splitlines()[0]
    assert "none on a write" not in found.as_text() + page(found) + comment(found)
    assert _tests(found)["no write differs"] == "error"
    assert _tests(found)["no read is changed"] == "passed"
    assert _tests(found)["nothing else comes back"] == "failure"
    assert [pair.told for pair in found.aligned] == ["unknown"]
    assert found.as_dict()["unknown_writes"] == list(found.unknown)


def test_where_only_a_read_cannot_be_compared_none_is_on_a_write() -> None:
    found = _unsure(effect="read")

    assert "none on a write" in found.as_text()
    assert _tests(found)["no write differs"] == "passed"
    assert _tests(found)["no read is changed"] == "error"


def test_of_a_run_without_an_end_and_of_a_result_that_is_gone_as_much_is_said() -> None:
    under_way = compare(run(CHECK, status="open", answer=None), run(CHECK))
    lost = compare(run(gone(PAID)), run(gone(PAID), answer="x"))

    assert _tests(under_way)["no write differs"] == "error"
    assert _tests(lost)["no write differs"] == "passed"
    assert _tests(lost)["nothing else comes back"] == "failure"


def test_many_runs_tell_of_a_write_that_cannot_be_compared() -> None:
    outcome = outcome_of("case", "run-1", _unsure())
    many = ManyComparison("a", "b", "store", (outcome,))

    assert (outcome.unknown_writes, outcome.verdict) == (2, "different")
    assert outcome.reason is not None
    assert "the arguments of pay" in outcome.reason
    assert many.cases == (CaseSummary("case", (outcome,)),)
    assert case_rows(many)[0][3] == "result, or a write"
    assert next(rest_lines(many)).startswith("cannot tell whether a write differs: run-1 and run-1")
    assert json.loads(json.dumps(many.as_dict()))["pairs"][0]["unknown_writes"] == 2


def test_a_pair_that_differs_in_nothing_that_is_named_is_listed_all_the_same() -> None:
    outcome = replace(outcome_of("case", "run-1", _unsure()), kinds=(), first=None)
    many = ManyComparison("a", "b", "store", (outcome,))

    assert case_rows(many) == [["case", "1", "1", "not named", ""]]
