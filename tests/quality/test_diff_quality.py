"""How good a comparison is, and what it costs: planted differences in real runs, and long runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from replay.diff import diff
from tests.diff.building import TRACES, imported, kinds, read, run, with_decisions, write
from tracekit.trajectory import Call, Trajectory

REAL = [
    f"{run_.run_id}"
    for path in sorted((TRACES).rglob("*.json"))
    if path.relative_to(TRACES).parts[0] in ("agentdyn", "tau-bench")
    for run_ in imported(str(path.relative_to(TRACES)))
    if run_.calls
]


def _real(run_id: str) -> Trajectory:
    return next(
        found
        for path in sorted((TRACES).rglob("*.json"))
        if path.relative_to(TRACES).parts[0] in ("agentdyn", "tau-bench")
        for found in imported(str(path.relative_to(TRACES)))
        if found.run_id == run_id
    )


def _with_call(source: Trajectory, at: int, new: Call | None) -> Trajectory:
    """Put another call in the place of one, or none."""
    old = source.calls[at]
    decisions = []
    for decision in source.decisions:
        calls = tuple(
            c if c is not old else new for c in decision.calls if c is not old or new is not None
        )
        decisions.append(replace(decision, calls=calls))  # type: ignore[arg-type]  # no None is left
    return replace(source, decisions=tuple(decisions))


def _leaf_changed(arguments: Any) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        if isinstance(value, str) and value:
            yield f"/{name}", arguments | {name: value[:-1] + ("1" if value[-1] != "1" else "2")}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"/{name}", arguments | {name: value * 100 + 1}


@pytest.mark.parametrize("run_id", REAL)
def test_a_dropped_call_of_a_real_run_is_one_difference(run_id: str) -> None:
    source = _real(run_id)
    for at, call in enumerate(source.calls):
        found = diff(source, _with_call(source, at, None))
        assert [kind for kind, _ in kinds(found)] in (["missing"], ["retry"]), (at, kinds(found))
        assert found.divergences[0].tool == call.tool
        assert found.divergences[0].cause


@pytest.mark.parametrize("run_id", REAL)
def test_a_changed_argument_of_a_real_run_is_one_difference_at_its_place(run_id: str) -> None:
    source = _real(run_id)
    for at, call in enumerate(source.calls):
        for pointer, arguments in _leaf_changed(call.arguments):
            found = diff(source, _with_call(source, at, replace(call, arguments=arguments)))
            assert kinds(found) == [("changed_arguments", call.tool)], (at, pointer)
            (one,) = found.divergences
            assert [field.pointer for field in one.fields] == [pointer]
            assert (one.left_decision, one.right_decision) == (call.decision, call.decision)


@pytest.mark.parametrize("run_id", REAL)
def test_a_changed_observation_of_a_real_run_is_found(run_id: str) -> None:
    source = _real(run_id)
    for at, call in enumerate(source.calls):
        other = replace(call.observation, value="something else", state="captured")
        found = diff(source, _with_call(source, at, replace(call, observation=other)))
        assert kinds(found) == [("changed_observation", call.tool)], at


@pytest.mark.parametrize("run_id", REAL)
def test_harmless_changes_of_a_real_run_raise_no_alarm(run_id: str) -> None:
    source = _real(run_id)
    for at, call in enumerate(source.calls):
        assert isinstance(call.arguments, dict)
        turned = dict(reversed(call.arguments.items()))
        other = replace(call, arguments=turned, event_id="other", span_id="s2", ts_start_ns=1)
        assert diff(source, _with_call(source, at, other)).same
    swapped = [replace(d, calls=d.calls[::-1]) for d in source.decisions]
    assert diff(source, with_decisions(source, swapped)).same


def _long(length: int) -> list[Call]:
    return [
        write("put", {"key": f"k-{n}", "n": n}, "ok")
        if n % 5 == 0
        else read("get", {"key": f"item {n}"}, {"value": n * 7})
        for n in range(length)
    ]


@pytest.mark.parametrize("place", [0, 137, 499])
def test_one_insertion_in_500_steps_is_one_divergence(place: int) -> None:
    steps = _long(500)
    more = [*steps[:place], write("note", {"text": "new"}, "ok"), *steps[place:]]
    found = diff(run(*steps), run(*more))
    assert kinds(found) == [("added", "note")]
    assert found.distance == 4


def test_only_what_lies_between_the_differences_is_worked_on() -> None:
    steps = _long(1000)
    other = [*steps]
    for n in range(480, 500, 5):
        other[n] = write("put", {"key": f"k-{n}", "n": n + 1}, "ok")
    found = diff(run(*steps), run(*other))
    assert len(found.divergences) == 4
    assert found.cells <= 20 * 20


def test_2000_unrelated_steps_are_compared_whole() -> None:
    ours = [read("get", {"key": f"a-{n}"}, n) for n in range(2000)]
    theirs = [read("get", {"key": f"b-{n}"}, -n) for n in range(2000)]
    found = diff(run(*ours), run(*theirs))
    assert found.counts["changed"] == 2000
    assert found.cells <= 2000 * 2000
