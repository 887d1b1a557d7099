"""A case of a run that sent values into a generator tool."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

import tracekit
from replay import distill_run, run_case
from replay.case import Case


@tracekit.tool(effect="write")
def sitting(account: str) -> Generator[str, int | None, None]:
    """Pay what is sent in."""
    said = "ready"
    while True:
        said = f"paid {(yield said)}"


def _pays(question: str, amount: int | None, *, fails: bool) -> str:
    paying = sitting("bob")
    said = next(paying)
    if amount is not None:
        said = paying.send(amount)
    if fails and said.startswith("paid"):
        raise ValueError("no receipt")
    paying.close()
    return "done"


@tracekit.agent
def hasty(question: str) -> str:
    """Send 10 in, and do not cope with what comes."""
    return _pays(question, 10, fails=True)


@tracekit.agent
def careful(question: str) -> str:
    """Send 10 in, and cope."""
    return _pays(question, 10, fails=False)


@tracekit.agent
def generous(question: str) -> str:
    """Send more in, and cope."""
    return _pays(question, 999, fails=False)


@tracekit.agent
def idle(question: str) -> str:
    """Send nothing in."""
    return _pays(question, None, fails=False)


def _here(planner: Callable[[str], str]) -> Callable[[str], str]:
    return lambda question: planner(question)  # a closure runs in this process


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("sent") / "store"
    tracekit.configure(store=path)
    with pytest.raises(ValueError, match="receipt"), tracekit.run(run_id="sent"):
        hasty("Pay the bill.")
    tracekit.configure(store=path.parent / "elsewhere")
    made = distill_run("sent", planner=_here(hasty), store=path).case
    assert made is not None
    return made


def test_a_case_keeps_what_was_sent_in(case: Case) -> None:
    (fixture,) = case.observations

    assert fixture.types[""] == ["stream", "left", {"behind": 1, "value": 10}]
    assert run_case(case, _here(hasty)).verdict.kind == "fail"
    assert run_case(case, _here(careful)).passed


@pytest.mark.parametrize("planner", [generous, idle])
def test_who_sends_something_else_does_not_pass(case: Case, planner: Callable[[str], str]) -> None:
    found = run_case(case, _here(planner))

    assert found.verdict.kind == "inconclusive"
    assert "behind item 1" in found.verdict.reasons[0]
