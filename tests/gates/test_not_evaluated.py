"""What nobody evaluated passes no gate: runs without a value, without a label, in no bucket."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from replay.gates import MeasuredPair, parse_gates, run_gates
from replay.metrics import DEFINITIONS
from tests.diff.many_runs import kept, made, select
from tests.gates.measured import NO_PART, measured, pairs_of, runs, verdict, with_pairs

# --- without a value of its own -------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["0USD", "1USD", "5USD"])
def test_a_run_that_failed_has_no_cost_per_success_that_could_be_equal(bound: str) -> None:
    check = f"cost_per_success == {bound}"
    failed = [measured(f"r{n}", cost_per_success=(5, 0)) for n in range(10)]
    found = verdict(check, runs(*failed), inconclusive="pass")
    assert (found.verdict, found.n, found.of, found.value) == ("fail", 0, 10, None)
    assert found.reason == (
        "none of 10 runs is evaluated; r0: by itself it has no value: no runs whose task was done"
    )
    some = verdict(check, runs(*failed, measured("good", cost_per_success=(float(bound[0]), 1))))
    assert (some.verdict, some.n, len(some.runs)) == ("inconclusive", 1, 10)
    assert some.reason.startswith("10 of 11 not evaluated: r0: by itself it has no value")


def test_pairs_that_failed_have_not_changed_by_nothing() -> None:
    before, after = [(5, 0)] * 9 + [(1, 1)], [(50, 0)] * 9 + [(1, 1)]
    found = verdict("cost_per_success_delta == 0USD", pairs_of("cost_per_success", before, after))
    assert (found.verdict, found.n, found.of) == ("inconclusive", 1, 10)
    assert found.reason.startswith("9 of 10 not evaluated: old-0: by itself it has no value")
    none = pairs_of("cost_per_success", before[:9], after[:9])
    assert verdict("cost_per_success_delta == 0USD", none).verdict == "fail"
    summed = verdict("cost_per_success_delta <= 5%", pairs_of("cost_per_success", before, after))
    assert (summed.verdict, summed.n) == ("fail", 10), "a sum over a sum takes in what failed"


@pytest.mark.parametrize("after", [0.1, 0.2])
def test_no_share_of_nothing_is_equal_to_a_bound(after: float) -> None:
    found = verdict("cost_delta == 10%", pairs_of("cost", [0.0], [after]))
    assert found.verdict == "fail"
    assert verdict("cost_delta == 0%", pairs_of("cost", [0.0, 2.0], [0.0, 2.0])).verdict == "pass"


# --- nobody said, and nothing to say --------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "good"),
    [
        ("tool_recall == 100%", (5, 5)), ("tool_recall >= 1%", (5, 5)),
        ("tool_precision >= 1%", (5, 5)), ("argument_accuracy >= 1%", (5, 5)),
        ("evidence_coverage >= 1%", (1, 1)), ("budget_violation_rate == 0", 0),
        ("budget_violation_rate <= 90%", 0), ("excess_step_ratio <= 99%", (0, 5)),
        ("recovery_rate >= 1%", (2, 2)), ("error_rate <= 99%", (0, 3)),
        ("valid_action_rate >= 1%", (3, 3)), ("task_success >= 1%", 1),
    ],
)  # fmt: skip
def test_runs_of_which_nobody_spoke_keep_any_gate_from_passing(check: str, good: object) -> None:
    name = check.split()[0]
    known = [measured(f"r{n}", **{name: good}) for n in range(20)]
    dark = [measured(f"dark-{n}", **{name: None}) for n in range(990)]
    found = verdict(check, runs(*known, *dark))
    assert (found.verdict, found.n, found.of, len(found.runs)) == ("inconclusive", 20, 1010, 990)
    assert found.reason.startswith("990 of 1010 not evaluated: dark-0: nobody said")
    exempt = [measured(f"calm-{n}", **{name: NO_PART}) for n in range(990)]
    assert verdict(check, runs(*known, *exempt)).verdict == "pass"
    mixed = verdict(check, runs(*known, *exempt, dark[0]))
    assert (mixed.verdict, mixed.runs) == ("inconclusive", ("dark-0",))
    assert mixed.reason.startswith("1 of 1011 not evaluated")
    assert verdict(check, runs(*exempt), inconclusive="pass").verdict == "fail"


def test_a_pair_with_a_part_on_one_side_only_adds_to_the_sum_of_that_side() -> None:
    """Nothing failed before; now calls fail, and none is mended."""
    before = [(1.0, 1.0)] * 30 + [NO_PART] * 30
    after = [(1.0, 1.0)] * 30 + [(0.0, 4.0)] * 30
    evidence = pairs_of("recovery_rate", before, after)
    found = verdict("recovery_rate_delta >= -10pp", evidence)
    assert (found.verdict, found.n) == ("fail", 60)
    assert (found.baseline, found.candidate) == (1.0, 30 / 150)
    equal = verdict("recovery_rate_delta == 0pp", evidence)
    assert (equal.verdict, equal.n) == ("inconclusive", 30)
    assert equal.reason.startswith("30 of 60 not evaluated: old-30: nobody said")
    neither = pairs_of("recovery_rate", before, [(1.0, 1.0)] * 30 + [NO_PART] * 30)
    assert verdict("recovery_rate_delta == 0pp", neither).verdict == "pass"


def test_labels_that_one_run_of_twelve_has_pass_nothing(tmp_path: Path) -> None:
    asks = {"expected_actions": [{"name": "search", "kwargs": {}}]}
    said = ({}, {"expected_actions": []})
    for number, rest in enumerate(said):
        store = kept(
            tmp_path / f"traces-{number}",
            *(
                made(
                    f"r{n}", task_id=f"T{n}", tags=["new"], arguments=(f"a{n}", "b"),
                    labels=rest if n else asks,
                )
                for n in range(12)
            ),
        )  # fmt: skip
        report = run_gates(
            parse_gates('gates = ["tool_recall == 100%"]'),
            candidate=[select("tag=new")],
            store=store,
        )
        assert (report.outcomes[0].verdict, report.passed) == (
            ("pass", True) if rest else ("inconclusive", False)
        )


# --- in no bucket ---------------------------------------------------------------------------------


def pairs(count: int, before: list[str], after: list[str], *, good: bool) -> list[MeasuredPair]:
    kind = f"{'-'.join(before)}{good}"
    return [
        MeasuredPair(
            f"{kind}-{n}",
            measured(f"old-{kind}-{n}", tags=before, task_success=True),
            measured(f"new-{kind}-{n}", tags=after, task_success=good),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(("before", "after"), [([], []), (["v6"], ["v7"]), (["easy"], ["hard"])])
def test_pairs_in_no_bucket_are_a_bucket(before: list[str], after: list[str]) -> None:
    check = "no bucket regresses more than 3pp"
    easy = pairs(200, ["easy"], ["easy"], good=True)
    found = verdict(check, with_pairs([*easy, *pairs(100, before, after, good=False)]))
    assert (found.verdict, found.n, found.of) == ("fail", 2, 2)
    assert found.reason == "regress: (none) -100.0pp (100 pairs)"
    few = verdict(check, with_pairs([*easy, *pairs(2, before, after, good=True)]))
    assert (few.verdict, few.reason) == (
        "inconclusive", "too few evaluated pairs to tell: (none) +0.0pp (2 pairs)",
    )  # fmt: skip
    many = verdict(check, with_pairs([*easy, *pairs(200, before, after, good=True)]))
    assert (many.verdict, many.n) == ("pass", 2)


def test_where_no_pair_has_any_bucket_nothing_passes() -> None:
    found = verdict("no bucket regresses more than 3pp", with_pairs(pairs(200, [], [], good=True)))
    assert (found.verdict, found.n) == ("fail", 0)
    assert "no pair is in a bucket by tag with data for task_success" in found.reason


def test_a_bucket_that_has_no_part_in_the_metric_is_none() -> None:
    def of(tag: str, count: int, value: object) -> list[MeasuredPair]:
        return [
            MeasuredPair(
                f"{tag}-{n}",
                measured(f"old-{tag}-{n}", tags=[tag], recovery_rate=value),
                measured(f"new-{tag}-{n}", tags=[tag], recovery_rate=value),
            )
            for n in range(count)
        ]

    check = "no bucket regresses more than 3pp in recovery_rate"
    shop = of("shop", 200, (1.0, 1.0))
    assert verdict(check, with_pairs([*shop, *of("calm", 3, NO_PART)])).verdict == "pass"
    dark = verdict(check, with_pairs([*shop, *of("dark", 3, None)]))
    assert (dark.verdict, dark.n, dark.of) == ("inconclusive", 1, 2)


# --- as sure as the file says ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "value"),
    [("task_success == 100%", True), ("unsafe_action_rate == 0", False), ("steps == 3", 3.0)],
)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_an_interval_is_as_sure_as_the_file_says_also_where_every_run_is_asked(
    check: str, value: object, confidence: float
) -> None:
    name = check.split()[0]
    good = [measured(f"r{n}", **{name: value}) for n in range(60)]
    found = verdict(check, runs(*good), confidence=confidence)
    assert found.interval is not None
    assert (found.verdict, found.interval.confidence) == ("pass", confidence)
    if DEFINITIONS[name].form == "share":
        far = found.interval.high if value is False else 1 - found.interval.low
        assert far == pytest.approx(1 - ((1 - confidence) / 2) ** (1 / 60))


# --- as far as numbers go -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "before", "after"),
    [
        ("cost_delta <= 10%", [0.0] * 19 + [1.0], [1.0] + [0.0] * 19),
        ("p50_cost_delta <= 10%", [1e15] * 10 + [5e-324] * 10, [5e-324] * 10 + [1e15] * 10),
        (
            "cost_per_success_delta <= 10%",
            [(0.0, 1.0)] * 19 + [(1.0, 1.0)],
            [(1.0, 1.0)] + [(0.0, 1.0)] * 19,
        ),
    ],
)
def test_a_change_without_a_bound_is_inconclusive_and_no_number_of_pairs_decides(
    check: str, before: list[object], after: list[object]
) -> None:
    found = verdict(check, pairs_of(check.split("_delta")[0].removeprefix("p50_"), before, after))
    assert found.interval is not None
    assert (found.verdict, found.interval.high, found.needed) == ("inconclusive", inf, None)


def test_a_share_of_next_to_nothing_is_no_value() -> None:
    found = verdict("cost_delta <= 10%", pairs_of("cost", [5e-324] * 20, [1e15] * 20))
    assert (found.verdict, found.value) == ("fail", None)
    assert "no value: the baseline is next to nothing" in found.reason
