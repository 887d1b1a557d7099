"""Recorded runs of tau-bench that went wrong, each told by a trial of its task that went right."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replay.case import CallPattern, Case
from replay.case.schema import holds
from replay.caserun import CaseRunner
from replay.distill import DistillOptions, DistillResult, Wish, distill_record
from tests.distill.tape_player import flowed, key, player_of, values_of
from tests.replay.tape_kit import call, record
from tracekit.canonical import json_text
from tracekit.cli import main
from tracekit.errors import DistillError
from tracekit.store import RunQuery, open_store
from tracekit.trajectory import Call, Decision, Message, Observation, Trajectory

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces" / "tau-bench"


def recorded(folder: Path, logs: Path) -> list[Trajectory]:
    path = folder / "store"
    assert CliRunner().invoke(main, ["import", str(logs), "--store", str(path)]).exit_code == 0
    store = open_store(path)
    return [store.trajectory(found.run_id) for found in store.runs(RunQuery())]


def pairs(runs: Sequence[Trajectory]) -> list[tuple[Trajectory, Trajectory]]:
    """Each run that earned nothing, with the first trial of its task that earned all."""
    right: dict[str | None, Trajectory] = {}
    for run in sorted(runs, key=lambda run: run.run_id):
        if _reward(run) == 1:
            right.setdefault(run.task_id, run)
    return [(run, right[run.task_id]) for run in runs if not _reward(run) and run.task_id in right]


def _reward(run: Trajectory) -> Any:
    labels: Any = run.attributes["labels"]
    return labels["reward"]


def told(run: Trajectory, right: Trajectory, **more: Any) -> DistillResult:
    return distill_record(run, planner=player_of(run), reference=right, **more)


def check(run: Trajectory, right: Trajectory, result: DistillResult) -> None:
    """The case holds the wrong or missing write, what that rests on, and nothing else."""
    case = result.case
    assert result.minimal
    kept = [c for decision in case.script for c in decision.calls]
    writes = {c.tool for c in (*run.calls, *right.calls) if c.writes}
    wrong = [c for c in kept if c.tool in writes]
    made = [(c.tool, c.arguments) for c in right.calls]
    needed = {v for c in kept for v in flowed(run)[key(c.tool, c.arguments)]}
    if case.expected.required_tools:
        missing = _missing(right, case)
        shown = _said_and_shown(Case.model_validate(_whole(run)))
        needed |= {v for v in values_of(missing.arguments) if v in shown}
        assert {c.tool for c in wrong} <= {missing.tool}
    else:
        (only,) = wrong
        assert (only.tool, only.arguments) not in made
        assert only.tool == case.reason.tool if case.reason else False
    assert len(wrong) <= 1
    assert all(value in _said_and_shown(case) for value in needed)
    # Who makes the missing write is answered, as the run was that went right.
    answered = {key(c.tool, c.arguments) for c in right.calls if case.expected.required_tools}
    rest = [f for f in case.observations if key(f.tool, f.arguments) not in answered]
    _check_each_is_needed(run, case.model_copy(update={"observations": tuple(rest)}), needed)


def _whole(run: Trajectory) -> dict[str, Any]:
    return {
        "format": "tracekit/case/v1",
        "name": "whole",
        "turns": [m.content for m in run.messages if m.role == "user"],
        "observations": [
            {"id": c.event_id, "tool": c.tool, "returns": c.observation.value}
            for c in run.calls
            if c.observation.state == "captured" and not c.observation.is_error
        ],
        "expected": {"answer": {"required": True}},
    }


def _missing(right: Trajectory, case: Case) -> Call:
    (wanted,) = case.expected.required_tools
    pattern = CallPattern(tool=wanted) if isinstance(wanted, str) else wanted
    return next(
        c
        for c in right.calls
        if c.tool == pattern.tool
        and (pattern.arguments is None or holds(c.arguments, pattern.arguments))
    )


def _said_and_shown(case: Case) -> str:
    said = [case.input, *(m.content for m in case.history), *case.turns]
    shown = [f.error.message if f.error else f.returns for f in case.observations]
    return "\n".join(json_text(value) for value in (*said, *shown))


def _check_each_is_needed(run: Trajectory, case: Case, needed: set[str]) -> None:
    """Without any one of its observations the values are not all there, or the failure is not."""
    for fixture in case.observations:
        others = tuple(f for f in case.observations if f is not fixture)
        expected = case.expected.model_copy(update={"consumed": ()})
        less = case.model_copy(update={"observations": others, "expected": expected})
        if all(value in _said_and_shown(less) for value in needed):
            # Nothing flows: the one observation is there because a case rests on one.
            assert len(case.observations) == 1 or not _fails(run, less)


def _fails(run: Trajectory, case: Case) -> bool:
    with CaseRunner(player_of(run)) as runner:
        return any(found.signature == case.reason for found in runner.run(case).findings)


def test_the_wrong_write_of_a_recorded_run_is_kept_with_what_it_rests_on(tmp_path: Path) -> None:
    ((run, right),) = pairs(recorded(tmp_path, FIXTURES))

    result = told(run, right)

    check(run, right, result)
    calls = [c.tool for decision in result.case.script for c in decision.calls]
    assert calls == ["get_reservation_details", "cancel_reservation"]
    assert result.after.bytes <= 2


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA / "tau-bench").is_dir(),
    reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
)
def test_every_run_without_reward_that_a_rewarded_trial_can_tell(tmp_path: Path) -> None:
    tried = pairs(recorded(tmp_path, DATA / "tau-bench"))
    came: Counter[str] = Counter()
    for run, right in tried:
        if _writes(run) == _writes(right):
            with pytest.raises(DistillError, match="makes the same writes as run"):
                told(run, right)
            came["same writes"] += 1
            continue
        result = told(run, right)
        check(run, right, result)
        assert result.case.reason is not None
        came[result.case.reason.oracle] += 1
        print(run.run_id, result.failure[:80], result.calls, result.before, result.after)  # noqa: T201  # the table of the sweep
    assert came == {"forbidden_tools": 18, "required_tools": 10, "same writes": 1}


def _writes(run: Trajectory) -> set[str]:
    return {f"{c.tool} {json_text(c.arguments)}" for c in run.calls if c.writes}


# --- a write that is missing ----------------------------------------------------------------------


def asked_for(*calls: Call, said: str = "Book what is free for mia.") -> Trajectory:
    seats = {"free": ["2B", "14C"], "taken": ["1A"], "note": "Boarding at 9. Gate closes early."}
    run = record(call("seat.list", "read", seats), call("menu.get", "read", "Soup."), *calls)
    end = Decision(len(calls) + 3, message="Booked.", final=True)
    return replace(
        run,
        decisions=(*run.decisions, end),
        input=Observation({"question": said}, "captured"),
        messages=(Message("user", said, 1),),
    )


def test_what_a_missing_write_needs_stays_in_the_case() -> None:
    """Without it, and without an answer to it, no planner could do right."""
    right = asked_for(call("seat.book", "write", "ok", seat="14C", who="mia", paid=120))

    case = told(asked_for(), right).case

    shown, booked = case.observations
    assert (shown.tool, shown.returns) == ("seat.list", {"free": ["14C"]})
    assert (booked.tool, booked.returns) == ("seat.book", "ok")
    assert booked.arguments == {"seat": "14C", "who": "mia", "paid": 120}
    assert case.input == "Book what is free for mia."
    assert case.expected.required_tools == ("seat.book",)


def test_a_signature_means_what_the_run_that_went_right_shows() -> None:
    run = asked_for(call("seat.book", "write", "ok", seat="2B"))
    right = asked_for(
        call("seat.book", "write", "ok", seat="14C"), call("meal.order", "write", "ok", kind="Soup")
    )
    options = DistillOptions(Wish(failing=("require:meal.order",)))

    first = told(run, right).case
    other = told(run, right, options=options).case

    wrong = CallPattern(tool="seat.book", arguments={"seat": "2B"})
    assert first.expected.forbidden_tools == (wrong,)
    assert other.expected.required_tools == ("meal.order",)
    assert other.expected.forbidden_tools == ()
    left = [(f.tool, f.returns) for f in other.observations]
    assert left == [("menu.get", "Soup."), ("meal.order", "ok")]


def test_a_planner_that_cannot_be_run_is_told_so() -> None:
    def strange(request: str) -> str:
        return request

    with pytest.raises(DistillError, match="cannot be run on the whole run: inconclusive"):
        distill_record(asked_for(), planner=strange)
