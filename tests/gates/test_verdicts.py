"""What a gate comes to: pass, fail, inconclusive, each with its evidence."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from replay.gates import MeasuredPair
from tests.gates.measured import NO_PART, measured, pairs_of, runs, verdict, with_pairs

SUCCESS_OF_25 = [True] * 7 + [False] * 18


# --- change of success ----------------------------------------------------------------------------


def test_the_loss_of_all_successes_fails() -> None:
    found = verdict(
        "task_success_delta >= 0pp", pairs_of("task_success", SUCCESS_OF_25, [False] * 25)
    )
    assert (found.verdict, found.n, found.of) == ("fail", 25, 25)
    assert found.value == pytest.approx(-0.28)
    assert found.interval is not None
    assert found.interval.high < 0
    assert found.reason == "28.0% → 0.0% (7 lost, 0 gained)"


def test_a_loss_of_20_points_on_25_pairs_is_inconclusive_and_says_how_many_decide() -> None:
    before = [True] * 10 + [False] * 15
    after = [True] * 5 + [False] * 20
    found = verdict("task_success_delta >= 0pp", pairs_of("task_success", before, after))
    assert (found.verdict, found.failed) == ("inconclusive", True)
    assert found.needed is not None
    assert found.needed > 25
    assert f"{found.needed} pairs like these may decide" in found.reason


def test_a_change_passes_only_where_the_whole_interval_keeps_the_bound() -> None:
    same = pairs_of("task_success", [True] * 400, [True] * 400)
    assert verdict("task_success_delta >= -3pp", same).verdict == "pass"
    assert verdict("task_success_delta >= 0pp", same).verdict == "inconclusive"
    few = pairs_of("task_success", [True] * 25, [True] * 25)
    found = verdict("task_success_delta >= -3pp", few)
    assert (found.verdict, found.needed) == ("inconclusive", 122)
    better = pairs_of("task_success", [False] * 60, [True] * 60)
    assert verdict("task_success_delta >= +2pp", better).verdict == "pass"
    assert verdict("task_success_delta >= +2pp", same).verdict == "fail"


def test_inconclusive_fails_unless_the_file_says_otherwise() -> None:
    few = pairs_of("task_success", [True] * 25, [True] * 25)
    found = {
        said: verdict("task_success_delta >= -3pp", few, inconclusive=said)
        for said in ("fail", "warn", "pass")
    }
    assert {said: (one.verdict, one.failed, one.warned) for said, one in found.items()} == {
        "fail": ("inconclusive", True, False),
        "warn": ("inconclusive", False, True),
        "pass": ("inconclusive", False, False),
    }


# --- safety ---------------------------------------------------------------------------------------


def test_one_unsafe_run_among_a_thousand_fails_and_is_named() -> None:
    safe = [measured(f"run-{n}", unsafe_action_rate=False) for n in range(999)]
    found = verdict(
        "unsafe_action_rate == 0", runs(*safe, measured("bad", unsafe_action_rate=True))
    )
    assert (found.verdict, found.runs, found.n) == ("fail", ("bad",), 1000)
    assert found.reason == "1 run unsafe: bad"


def test_a_repeat_is_no_sample_but_an_unsafe_one_still_fails() -> None:
    evidence = runs(measured("a", unsafe_action_rate=False), measured("b", unsafe_action_rate=True))
    only_a = type(evidence)(evidence.candidate, frozenset({"a"}))
    assert verdict("unsafe_action_rate == 0", only_a).runs == ("b",)


def test_none_unsafe_passes_and_says_what_that_many_runs_can_show() -> None:
    safe = [measured(f"run-{n}", unsafe_action_rate=False) for n in range(60)]
    found = verdict("unsafe_action_rate == 0", runs(*safe))
    assert (found.verdict, found.value) == ("pass", 0.0)
    assert found.reason == "none of 60 runs; a true rate up to 6.0 % would look like this"


def test_a_run_of_which_it_is_not_known_whether_it_was_safe_does_not_pass() -> None:
    known = [measured(f"run-{n}", unsafe_action_rate=False) for n in range(9)]
    found = verdict(
        "unsafe_action_rate == 0", runs(*known, measured("dark", unsafe_action_rate=None))
    )
    assert (found.verdict, found.failed, found.runs) == ("inconclusive", True, ("dark",))
    assert "1 of 10 not evaluated: dark: nobody said" in found.reason


@pytest.mark.parametrize("said", ["warn", "pass"])
def test_a_safety_gate_of_which_most_is_unknown_stops_the_release_whatever_the_file_says(
    said: str,
) -> None:
    attacked = [measured(f"dark-{n}", tags=["attacked"], unsafe_action_rate=None) for n in range(9)]
    looked_at = measured("safe", tags=["attacked"], unsafe_action_rate=False)
    check = "unsafe_action_rate == 0 on attacked"
    found = verdict(check, runs(looked_at, *attacked), inconclusive=said)
    assert (found.verdict, found.failed, found.n, found.of) == ("inconclusive", True, 1, 10)


def test_an_empty_and_an_unevaluated_set_fail_even_where_inconclusive_passes() -> None:
    clean = measured("run", tags=["clean"], unsafe_action_rate=None)
    empty = verdict("unsafe_action_rate == 0 on attacked", runs(clean), inconclusive="pass")
    assert (empty.verdict, empty.failed, empty.reason) == (
        "fail", True, "no run has the tag 'attacked'; there are: clean",
    )  # fmt: skip
    dark = verdict("unsafe_action_rate == 0 on clean", runs(clean), inconclusive="pass")
    assert (dark.verdict, dark.reason) == ("fail", "none of 1 run is evaluated; run: nobody said")
    nothing = verdict("task_success_delta >= 0pp", runs(clean), inconclusive="pass")
    assert (nothing.verdict, nothing.reason) == ("fail", "there is no pair to compare")


def test_what_is_known_of_a_part_only_does_not_pass_where_the_rest_may_have_gone_wrong() -> None:
    known = [measured(f"run-{n}", task_success=True) for n in range(100)]
    found = verdict("task_success >= 80%", runs(*known, measured("crashed", task_success=None)))
    assert (found.verdict, found.runs) == ("inconclusive", ("crashed",))
    assert "1 of 101 not evaluated: crashed: nobody said" in found.reason
    calm = verdict("recovery_rate >= 50%", runs(*(
        measured(f"run-{n}", recovery_rate=(1.0, 1.0) if n else NO_PART) for n in range(20)
    )))  # fmt: skip
    assert calm.verdict == "pass", "where nothing failed there was nothing to recover from"


def test_equal_means_every_run_and_every_pair_by_itself() -> None:
    same = pairs_of("steps", [3, 4], [3, 4])
    assert verdict("steps_delta == 0", same).verdict == "pass"
    swapped = verdict("steps_delta == 0", pairs_of("steps", [3, 4], [4, 3]))
    assert (swapped.verdict, swapped.value, swapped.runs) == ("fail", 0.0, ("new-0", "new-1"))


# --- quantities and levels ------------------------------------------------------------------------


def test_a_latency_that_doubles_fails_and_one_that_stays_passes() -> None:
    before = [100.0 + n % 7 for n in range(200)]
    slow = pairs_of("latency_p50", before, [2 * one for one in before])
    found = verdict("p95_latency_delta <= 10%", slow)
    assert (found.verdict, found.unit) == ("fail", "relative")
    assert found.value == pytest.approx(1.0)
    assert found.reason == "106ms → 212ms"
    same = pairs_of("latency_p50", before, [one + n % 2 for n, one in enumerate(before)])
    assert verdict("p95_latency_delta <= 10%", same).verdict == "pass"


@pytest.mark.parametrize(
    ("check", "before", "after", "said"),
    [
        ("p50_latency_delta <= 100%", 0.25, 0.3, "0.25ms → 0.3ms"),
        ("latency_p50_delta <= 9s", 20.0, 12_345.0, "20ms → 12.3s"),
        ("p90_tokens_delta <= 900%", 1200.0, 45_678.0, "1,200 → 45,678"),
        ("cost_delta <= 5%", 0.25, 0.5, "0.25USD → 0.5USD"),
        ("error_rate_delta <= 5pp", (1.0, 4.0), (2.0, 4.0), "25.0% → 50.0%"),
    ],
)
def test_both_sides_of_a_change_are_told_in_the_unit_of_the_metric(
    check: str, before: object, after: object, said: str
) -> None:
    name = check.split()[0].removesuffix("_delta")
    name = {"p50_latency": "latency_p50", "p90_tokens": "tokens"}.get(name, name)
    assert said in verdict(check, pairs_of(name, [before] * 80, [after] * 80)).reason


def test_too_few_pairs_for_a_quantile_are_said_to_be_too_few() -> None:
    evidence = pairs_of("latency_p50", [100.0] * 40, [900.0] * 40)
    found = verdict("p95_latency_delta <= 10%", evidence)
    assert found.verdict == "inconclusive"
    assert "40 pairs are too few for an interval; 72 are needed" in found.reason


@pytest.mark.parametrize(
    "check",
    [
        "steps <= 5", "p50_steps <= 5", "cost_per_success <= 5USD", "steps == 3",
        "steps_delta <= 5", "p50_steps_delta <= 5", "cost_per_success_delta <= 5%",
        "steps_delta == 0",
    ],
)  # fmt: skip
def test_too_few_samples_have_no_interval(check: str) -> None:
    name = "cost_per_success" if "cost" in check else "steps"
    before, after = ([(2.0, 1.0), (3.0, 1.0), (4.0, 1.0)] for _ in "ab")
    found = verdict(check, pairs_of(name, before, after))
    assert found.value is not None
    assert found.interval is None
    assert found.n == 3
    if "==" not in check:
        assert found.verdict == "inconclusive"
        assert "3 runs" in found.reason or "3 pairs" in found.reason


def test_cost_per_success_is_a_sum_over_a_sum() -> None:
    before = [(1.0, 1.0), (1.0, 0.0)] * 20
    after = [(1.0, 1.0), (1.0, 1.0)] * 20
    found = verdict("cost_per_success_delta <= 5%", pairs_of("cost_per_success", before, after))
    assert (found.verdict, found.baseline, found.candidate) == ("pass", 2.0, 1.0)
    assert found.value == pytest.approx(-0.5)


@pytest.mark.parametrize(("count", "said"), [(20, "inconclusive"), (200, "pass")])
def test_rates_that_are_zero_in_every_run_are_no_surer_than_so_many_runs_can_be(
    count: int, said: str
) -> None:
    level = runs(*(measured(f"r{n}", error_rate=(0.0, 8.0)) for n in range(count)))
    assert verdict("error_rate <= 5%", level).verdict == said
    change = pairs_of("error_rate", [(0.0, 8.0)] * count, [(0.0, 9.0)] * count)
    assert verdict("error_rate_delta <= 5pp", change).verdict == said


def test_a_cost_without_any_success_fails() -> None:
    evidence = pairs_of("cost_per_success", [(1.0, 1.0)] * 20, [(1.0, 0.0)] * 20)
    found = verdict("cost_per_success_delta <= 5%", evidence)
    assert (found.verdict, found.reason) == (
        "fail",
        "no value: the candidate has nothing to divide by",
    )


def test_a_level_is_held_by_its_interval_too() -> None:
    evidence = runs(*(measured(f"r{n}", task_success=n % 10 != 0) for n in range(100)))
    found = {check: verdict(check, evidence).verdict for check in (
        "task_success >= 80%", "task_success >= 88%", "task_success >= 97%",
    )}  # fmt: skip
    assert list(found.values()) == ["pass", "inconclusive", "fail"]


@pytest.mark.parametrize(
    ("check", "share", "needed"),
    [
        ("task_success >= 80%", 1.0, 17),
        ("task_success >= 99%", 1.0, 368),
        ("task_success <= 20%", 0.0, 17),
    ],
)
def test_the_runs_that_a_level_needs_are_those_of_the_exact_interval_whatever_is_there(
    check: str, share: float, needed: int
) -> None:
    name, _, bound = check.split()
    for n in range(1, 17):
        evidence = runs(*(measured(f"r{i}", **{name: bool(share)}) for i in range(n)))
        assert verdict(check, evidence).needed == needed
    low = [binomtest(n, n).proportion_ci(method="exact").low for n in (needed - 1, needed)]
    wanted = float(bound.rstrip("%")) / 100
    assert low[0] < (wanted if share else 1 - wanted) <= low[1]


def test_more_runs_of_the_same_share_need_no_other_number() -> None:
    def needed(n: int) -> int | None:
        evidence = runs(*(measured(f"r{i}", task_success=i % 10 != 0) for i in range(n)))
        return verdict("task_success >= 85%", evidence).needed

    least = needed(10)
    assert least is not None
    assert {needed(n) for n in range(10, least, 10)} == {least}
    low = binomtest(round(least * 0.9), least).proportion_ci(method="exact").low
    assert low == pytest.approx(0.85, abs=0.005)


# --- buckets --------------------------------------------------------------------------------------


def bucket(name: str, count: int, *, before: bool, after: bool) -> list[MeasuredPair]:
    return [
        MeasuredPair(
            f"{name}-{n}",
            measured(f"old-{name}-{n}", tags=[name, "old"], task_success=before),
            measured(f"new-{name}-{n}", tags=[name, "new"], task_success=after),
        )
        for n in range(count)
    ]


def test_a_bucket_that_gets_worse_fails_though_all_together_get_better() -> None:
    pairs = [
        *bucket("german", 30, before=True, after=False),
        *bucket("english", 200, before=False, after=True),
    ]
    found = verdict("no bucket regresses more than 3pp", with_pairs(pairs))
    assert (found.verdict, found.n, found.value) == ("fail", 2, -1.0)
    assert found.reason == "regress: german -100.0pp (30 pairs)"


def test_a_bucket_of_few_is_inconclusive_and_tags_of_one_side_are_no_buckets() -> None:
    pairs = [
        *bucket("german", 3, before=True, after=True),
        *bucket("english", 400, before=True, after=True),
    ]
    found = verdict("no bucket regresses more than 3pp", with_pairs(pairs))
    assert (found.verdict, found.reason) == (
        "inconclusive",
        "too few evaluated pairs to tell: german +0.0pp (3 pairs)",
    )
    assert (found.n, found.bound) == (2, ">= -3pp")
    alone = verdict("no bucket regresses more than 3pp", with_pairs(pairs[3:]))
    assert alone.verdict == "pass"


def test_no_bucket_at_all_fails() -> None:
    found = verdict(
        "no bucket regresses more than 3pp by language",
        pairs_of("task_success", [True], [True]),
    )
    assert (found.verdict, found.n) == ("fail", 0)
    assert "no pair is in a bucket by language" in found.reason
