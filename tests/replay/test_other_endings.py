"""A planner that raises as recorded is none that crashed; one that raises otherwise is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.isolation import Exit
from replay.session import SessionResult
from replay.verdict import find
from tests.replay.tape_kit import record
from tracekit.trajectory import Observation

RECORDED = Observation(
    is_error=True, error_type="agents.desk.Error", error_message="no order at 0x7f03 after 0.21 s"
)


def findings(kind: str, message: str, recorded: Observation = RECORDED) -> list[str]:
    run = replace(record(), status="error", answer=recorded)
    came = Exit("done", "", {"error": {"type": kind, "message": message, "own": False}})
    done = SessionResult(came, None, (), (), (), {})
    return [found.text for found in find(done, run)]


@pytest.mark.parametrize(
    "message", ["no order at 0x7f03 after 0.21 s", "no order at 0x11 after 1.5 s"]
)
def test_the_recorded_error_is_no_finding_where_only_addresses_and_times_differ(
    message: str,
) -> None:
    assert findings("Error", message) == []


def test_an_error_of_another_class_is_a_finding_also_where_the_name_ends_alike() -> None:
    value_error = Observation(is_error=True, error_type="ValueError", error_message="no")
    assert findings("Error", "no", value_error) == ["the planner raised Error: no"]
    assert (
        findings("ValueError", "no", replace(value_error, error_type="agents.MyValueError")) != []
    )
    assert findings("", "no", value_error) != []


def test_the_same_class_with_another_text_is_a_finding_that_shows_both() -> None:
    assert findings("Error", "no customer") == [
        "the planner raised Error: no customer; recorded was Error: no order at 0x7f03 after 0.21 s"
    ]


def test_an_error_recorded_without_its_text_is_compared_by_class() -> None:
    assert findings("Error", "whatever", replace(RECORDED, error_message=None)) == []
