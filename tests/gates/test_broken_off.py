"""A run that broke off did less, and is no better for it: gates by what it did cannot pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.gates import Evidence, MeasuredPair
from replay.metrics import DEFINITIONS, measure
from tests.gates.measured import measured, runs, verdict, with_pairs
from tests.metrics.made import failing, read, run

CRASHED = "it ended with an error"
LITTLE: dict[str, Any] = {
    "steps": 1.0, "calls": 1.0, "tokens": 9.0, "cost": 0.01, "latency_p50": 5.0,
    "latency_p95": 5.0, "loop_rate": False, "budget_violation_rate": False,
    "error_rate": (0.0, 1.0), "excess_step_ratio": (0.0, 4.0), "valid_action_rate": (1.0, 1.0),
    "tool_precision": (1.0, 1.0), "argument_accuracy": (1.0, 1.0),
}  # fmt: skip
"""What a run comes to that broke off after its first call."""
GOOD = {"%": "40%", "ms": "9s", "USD": "1USD", "tokens": "99", "steps": "9", "calls": "9"}


def check_of(name: str) -> str:
    """A gate that whoever did little keeps."""
    one = DEFINITIONS[name]
    return f"{name} {'<=' if one.better == 'lower' else '>='} {GOOD[one.unit]}"


def test_what_flatters_a_run_that_broke_off_is_what_these_tests_look_at() -> None:
    assert set(LITTLE) == {name for name, one in DEFINITIONS.items() if one.to_the_end}


@pytest.mark.parametrize("name", sorted(LITTLE))
def test_runs_that_all_broke_off_pass_no_gate_by_what_they_did(name: str) -> None:
    crashed = [measured(f"r{n}", broken_off=CRASHED, **{name: LITTLE[name]}) for n in range(100)]
    found = verdict(check_of(name), runs(*crashed), inconclusive="pass")
    assert (found.verdict, found.n, found.of) == ("fail", 0, 100)
    assert found.reason == f"none of 100 runs is evaluated; r0: {CRASHED}"
    whole = [measured(f"r{n}", **{name: LITTLE[name]}) for n in range(100)]
    assert verdict(check_of(name), runs(*whole)).verdict == "pass"


@pytest.mark.parametrize("name", sorted(LITTLE))
def test_one_run_that_broke_off_among_many_keeps_a_gate_from_passing(name: str) -> None:
    many = [measured(f"r{n}", **{name: LITTLE[name]}) for n in range(100)]
    hung = measured("hung", broken_off="it has not ended", **{name: LITTLE[name]})
    found = verdict(check_of(name), runs(*many, hung))
    assert (found.verdict, found.runs, found.n, found.of) == ("inconclusive", ("hung",), 100, 101)
    assert "1 of 101 not evaluated: hung: it has not ended" in found.reason


def pairs(before: float, after: float, count: int = 30, *, broken: int = 0) -> Evidence:
    return with_pairs([
        MeasuredPair(
            f"T-{n}",
            measured(f"old-{n}", tags=["all"], steps=before + n % 2),
            measured(
                f"new-{n}", tags=["all"], steps=after, broken_off=CRASHED if n < broken else None
            ),
        )
        for n in range(count)
    ])  # fmt: skip


@pytest.mark.parametrize(
    "check", ["steps_delta <= 10%", "no bucket regresses more than 1% in steps"]
)
def test_a_candidate_that_breaks_off_has_not_got_quicker(check: str) -> None:
    assert verdict(check, pairs(3, 1)).verdict == "pass"
    assert verdict(check, pairs(3, 1, broken=1)).verdict == "inconclusive"
    found = verdict(check, pairs(3, 1, broken=30), inconclusive="pass")
    assert (found.verdict, found.failed) == ("fail", True)


def test_a_baseline_that_broke_off_does_not_make_the_candidate_look_slow() -> None:
    slow = pairs(1, 9)
    short = [replace(p, baseline=replace(p.baseline, broken_off=CRASHED)) for p in slow.pairs]
    assert verdict("steps_delta <= 10%", slow).verdict == "fail"
    found = verdict("steps_delta <= 10%", with_pairs([*short[:10], *pairs(3, 3, 20).pairs]))
    assert (found.verdict, found.n, found.of) == ("inconclusive", 20, 30)


@pytest.mark.parametrize("check", ["steps <= 4", "steps == 2", "steps_delta <= 10%"])
def test_what_speaks_against_a_run_counts_though_it_broke_off(check: str) -> None:
    found = verdict(check, pairs(3, 9, broken=29))
    assert (found.verdict, found.of) == ("fail", 30)
    assert verdict(check, pairs(3, 9, broken=30), inconclusive="pass").verdict == "fail"


def test_equal_to_zero_is_kept_by_no_run_that_broke_off_and_broken_by_one_that_did() -> None:
    calm = measured("calm", error_rate=(0.0, 3.0))
    for errors, said in ((0.0, "inconclusive"), (1.0, "fail")):
        hung = measured("hung", broken_off="it has not ended", error_rate=(errors, 3.0))
        found = verdict("error_rate == 0", runs(calm, hung))
        assert (found.verdict, found.runs) == (said, ("hung",))


def test_how_many_runs_end_with_an_error_is_a_gate_of_its_own() -> None:
    ended = [measure(run(failing("a"), read("a"), status="ok", run_id=f"r{n}")) for n in range(99)]
    crashed = measure(run(read("a"), status="error", run_id="crashed"))
    hung = measure(run(read("a"), status="open", run_id="hung"))
    found = verdict("run_error_rate == 0", runs(*ended, crashed))
    assert (found.verdict, found.runs, found.value) == ("fail", ("crashed",), 0.01)
    assert verdict("run_error_rate <= 6%", runs(*ended, crashed)).verdict == "pass"
    assert verdict("run_error_rate == 0", runs(*ended, hung)).verdict == "inconclusive"


def test_a_run_that_cannot_be_read_keeps_any_gate_from_passing() -> None:
    damaged = replace(measured("damaged"), broken_off="it cannot be read: gone")
    many = [measured(f"r{n}", recovery_rate=(1.0, 1.0)) for n in range(30)]
    found = verdict("recovery_rate >= 50%", runs(*many, damaged))
    assert (found.verdict, found.runs) == ("inconclusive", ("damaged",))
