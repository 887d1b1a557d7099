"""Runs of agents: their code declares the tools, and a script answers for their model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay.caserun import run_case
from replay.distill import DistillOptions, DistillResult, distill_run
from tracekit.errors import DistillError

KEYS = iter(range(10**6))


@tracekit.tool(effect="write", idempotency_field="key")
def pay(amount: int, key: str) -> str:
    """Never come back in time."""
    raise TimeoutError("no answer in 3 s")


@tracekit.llm
def think(question: str) -> str:
    return "pay"


def paying(question: str, *, retry: bool) -> str:
    """Pay; of two attempts each has a key of its own, if there are two."""
    for _ in range(1 + retry):
        try:
            if think(question) == "pay":
                pay(5, f"key-{next(KEYS)}")
        except TimeoutError:
            continue
    return "done"


@tracekit.agent
def hasty(question: str) -> str:
    return paying(question, retry=True)


@tracekit.agent
def patient(question: str) -> str:
    return paying(question, retry=False)


def yes(request: Mapping[str, Any]) -> str:
    """Say to each question what the recorded model said."""
    return "pay"


def broken(request: Mapping[str, Any]) -> str:
    """Take from the request what is not in it."""
    return str(request["nope"])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents") / "store"
    tracekit.configure(store=path)
    with tracekit.run(run_id="paid-twice"):
        hasty("Pay the bill.")
    tracekit.configure(store=path.parent / "elsewhere")
    return path


def distilled(store: Path, script: str, fixed: object | None = None) -> DistillResult:
    def here(question: str) -> str:  # a closure runs in this process
        return hasty(question)

    options = DistillOptions(model="scripted", script=f"{__name__}:{script}")
    return distill_run("paid-twice", planner=here, fixed=fixed, store=store, options=options)


def test_decisions_that_pass_are_found_where_only_code_says_which_argument_is_the_key(
    store: Path,
) -> None:
    case = distilled(store, "yes").case

    assert str(case.reason) == "forbidden tools pay another key"
    assert (case.fix, case.tools) == ("unproven", ())
    assert [call.tool for decision in case.passes for call in decision.calls] == ["pay"]
    assert run_case(case, patient).passed


WRONG = (
    r"cannot be judged on the whole run: .*: "
    r"the script failed with KeyError: 'nope', at test_distill_agents\.py:\d+ \("
)


@pytest.mark.parametrize("fixed", [None, lambda question: patient(question)])
def test_of_a_script_that_is_broken_its_own_error_is_told(
    store: Path, fixed: object | None
) -> None:
    with pytest.raises(DistillError, match=WRONG):
        distilled(store, "broken", fixed)
