"""Metrics over many runs: sums that can be redone by hand, buckets, attempts, what is left out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from replay.metrics import (
    DEFINITIONS,
    MeasuredRun,
    Metrics,
    Usage,
    measure_many,
    references,
)
from replay.stats import Proportion, mean, quantile, ratio
from tests.metrics.made import failing, read, run, write
from tracekit.canonical import JsonValue, encode
from tracekit.errors import UsageError
from tracekit.trajectory import Trajectory

RUNS = [
    run(read("search", q=1), run_id="a", labels={"success": True, "language": "de"},
        tags=("shop", "difficulty:hard"), versions={"model": "m-1"}, source_format="made"),
    run(failing("search"), write("pay"), run_id="b", labels={"success": False, "language": "en"},
        tags=("shop",), versions={"model": "m-1"}, source_format="made"),
    run(read("look"), read("look"), read("look"), run_id="c", labels={"language": "en"},
        tags=("desk", "difficulty=easy"), versions={"model": "m-2"}, source_format="made"),
]  # fmt: skip
USED = [
    MeasuredRun(RUNS[0], Usage(tokens=100, cost_usd=0.2, latency_ms=1000)),
    MeasuredRun(RUNS[1], Usage(cost_usd=0.6, latency_ms=3000)),
    MeasuredRun(RUNS[2], Usage(latency_ms=8000)),
]


def values(found: Metrics, *names: str) -> list[tuple[float | None, float | None, float | None]]:
    chosen = [found.whole.measures[name] for name in names]
    return [(one.value, one.numerator, one.denominator) for one in chosen]


def test_a_metric_of_many_runs_is_sum_over_sum() -> None:
    found = measure_many(USED)
    assert values(found, "task_success", "error_rate", "loop_rate", "recovery_rate") == [
        (0.5, 1, 2), (1 / 6, 1, 6), (1 / 3, 1, 3), (0, 0, 1),
    ]  # fmt: skip
    assert values(found, "cost_per_success", "cost", "tokens") == [
        (0.8, 0.8, 1), (0.4, 0.8, 2), (100, 100, 1),
    ]  # fmt: skip
    assert values(found, "steps", "latency_p50", "latency_p95") == [
        (3, 9, 3), (3000, None, 3), (7500, None, 3),
    ]  # fmt: skip
    tokens = found.whole.measures["tokens"]
    assert (tokens.n, tokens.of) == (1, 3)


def test_without_data_a_metric_is_none_and_says_why() -> None:
    found = measure_many(RUNS)
    assert values(found, "tokens", "tool_recall") == [(None, None, None)] * 2
    assert found.missing["tokens"] == "its record says nothing of tokens"
    assert found.missing["excess_step_ratio"] == "there is no reference run"
    assert "tokens" not in {name for name, one in found.whole.measures.items() if one.n}


def test_cost_per_success_without_any_success_is_not_known_rather_than_free() -> None:
    found = measure_many(USED[1:2])
    assert values(found, "cost_per_success") == [(None, 0.6, 0)]


def test_no_runs_have_no_metrics() -> None:
    found = measure_many([])
    assert all(one.value is None for one in found.whole.measures.values())
    assert found.as_text() == "runs: 0"


def test_intervals_are_those_of_the_statistics() -> None:
    measures = measure_many(USED).whole.measures
    assert measures["task_success"].interval() == Proportion(1, 2).wilson()
    assert (
        measures["latency_p95"].interval(seed=2)
        == quantile([1000, 3000, 8000], 0.95, seed=2).interval
    )
    assert measures["steps"].interval() == mean([2, 3, 4]).interval
    assert measures["error_rate"].interval() == ratio([(0, 1), (1, 2), (0, 3)]).interval
    # All six calls are valid: three runs that agree are bounded as three samples.
    assert measures["valid_action_rate"].interval() == Proportion(3, 3).wilson()
    assert measures["tokens"].interval() is None
    # Equal quantities say nothing of how far others lie.
    assert measure_many(RUNS[:2]).whole.measures["calls"].interval() is not None
    assert measure_many(RUNS[:1]).whole.measures["calls"].interval() is None
    twice = [replace(RUNS[0], run_id=name) for name in "xy"]
    assert measure_many(twice).whole.measures["calls"].interval() is None


def test_a_ratio_that_may_be_more_than_all_is_not_bounded_as_a_share() -> None:
    long = [run(read("a"), read("b"), read("c"), run_id=str(n)) for n in range(4)]
    measure = measure_many(long, gold=run(read("a"))).whole.measures["excess_step_ratio"]
    interval = measure.interval()
    assert (measure.value, measure.numerator, measure.denominator) == (1, 8, 8)
    assert interval is not None
    assert (interval.low, interval.high) == (1, 1)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("source", {"made": "abc"}),
        ("language", {"de": "a", "en": "bc"}),
        ("difficulty", {"easy": "c", "hard": "a", "(none)": "b"}),
        ("model", {"m-1": "ab", "m-2": "c"}),
        ("tool", {"look": "c", "pay": "b", "search": "ab"}),
        ("risk", {"read": "ac", "write": "b"}),
        ("tag", {"desk": "c", "difficulty:hard": "a", "difficulty=easy": "c", "shop": "ab"}),
        ("task", {"(none)": "abc"}),
        ("success", {"false": "b", "true": "a", "(none)": "c"}),
    ],
)
def test_runs_are_sorted_by_what_they_are_and_by_any_label_version_or_tag(
    by: str, expected: dict[str, str]
) -> None:
    found = measure_many(RUNS, by=by)
    names = {one.name: "".join(run.run_id for run in one.runs) for one in found.buckets}
    assert names == expected
    assert list(names) == list(expected)
    for bucket in found.buckets:
        assert bucket.measures["steps"].n == len(bucket.runs)


def test_a_bucket_that_no_run_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        measure_many(RUNS, by="langage")
    assert "did you mean 'language'?" in str(caught.value)
    assert "difficulty" in str(caught.value)


def test_replays_that_repeat_their_record_are_counted_once_and_listed() -> None:
    again = [replace(RUNS[0], run_id=name, replay_of="a") for name in ("r1", "r2")]
    found = measure_many([*RUNS, *again])
    assert dict(found.repeats) == {"r1": "a", "r2": "a"}
    assert values(found, "task_success") == [(0.5, 1, 2)]
    assert found.as_text().startswith("runs: 3 (2 more only repeat one of them)")


def test_the_latency_of_replays_is_told_to_be_modelled() -> None:
    found = measure_many([RUNS[1], replace(RUNS[0], run_id="r", replay_of="a")])
    assert found.as_dict()["modelled_latency"] == found.modelled == 1
    assert found.as_text().splitlines()[1] == "latency modelled, since they are replays: 1"
    assert measure_many(RUNS).modelled == 0


def test_each_run_is_measured_against_the_reference_of_its_task() -> None:
    def on(task: str | None, tool: str, prompt: JsonValue = "x") -> Trajectory:
        made = run(read(tool), task_id=task, run_id=f"{task}-{tool}")
        return replace(made, input=replace(made.input, value=prompt))

    gold = references([on("T-1", "search"), on("T-2", "look"), on(None, "ask", "y")])
    runs = [on("T-1", "search"), on("T-2", "search"), on(None, "ask", "y"), on("T-3", "look", "z")]
    recalls = [run.value("tool_recall") for run in measure_many(runs, gold=gold).whole.runs]
    assert recalls == [1, 0, 1, None]


def test_a_run_without_a_task_was_asked_the_same_where_the_numbers_are_equal() -> None:
    def asked(given: object) -> Trajectory:
        kept = encode(given)
        made = run(read("search"), run_id=f"{given!r}")
        return replace(made, input=replace(made.input, value=kept.value, types=kept.types))

    gold = references([asked(Decimal(1))])
    runs = [asked(given) for given in (1, 1.0, "1", True)]
    recalls = [run.value("tool_recall") for run in measure_many(runs, gold=gold).whole.runs]
    assert recalls == [1, 1, None, None]


# --- tasks that were tried several times ----------------------------------------------------------


def trials(
    task: str, *done: bool, agent: str = "desk", attack: str | None = None
) -> list[Trajectory]:
    return [
        run(
            read("search"),
            run_id=f"{agent}-{task}-{attack}-{number}",
            task_id=task,
            agent=agent,
            labels={"success": one, "attack_type": attack},
        )
        for number, one in enumerate(done)
    ]


def test_attempts_at_one_task_give_pass_at_k_and_pass_hat_k() -> None:
    found = measure_many([*trials("A", True, True, False), *trials("B", False, False, True)])
    assert found.attempts is not None
    assert found.attempts.tasks == ((3, 2), (3, 1))
    assert [found.attempts.pass_at(k).value for k in (1, 2, 3)] == [
        pytest.approx(1 / 2), pytest.approx((1 + 2 / 3) / 2), 1,
    ]  # fmt: skip
    assert [found.attempts.pass_hat(k).value for k in (1, 2, 3)] == [
        pytest.approx(1 / 2), pytest.approx((1 / 3 + 0) / 2), 0,
    ]  # fmt: skip
    assert found.attempts.pass_at(4).value is None
    assert "tasks tried several times: 2, attempts at each: 3" in found.as_text()


def test_another_agent_or_another_attack_is_another_task() -> None:
    runs = [*trials("A", True), *trials("A", True, agent="other"), *trials("A", True, attack="hi")]
    assert measure_many(runs).attempts is None
    runs += trials("A", True, False, agent="third")
    attempts = measure_many(runs).attempts
    assert attempts is not None
    assert sorted(attempts.tasks) == [(1, 1), (1, 1), (1, 1), (2, 1)]


# --- the outer forms ------------------------------------------------------------------------------


def test_the_json_names_every_metric_with_numerator_denominator_and_interval() -> None:
    found = measure_many(USED, by="language").as_dict()
    metrics = found["metrics"]
    assert isinstance(metrics, dict)
    assert set(metrics) == set(DEFINITIONS)
    assert metrics["error_rate"] == {
        "value": 1 / 6, "unit": "%", "numerator": 1, "denominator": 6, "n": 3, "of": 3,
        "interval": {"low": 0, "high": 0.5, "confidence": 0.95, "method": "bootstrap (percentile)"},
        "parts": {
            "look": {"numerator": 0, "denominator": 3, "value": 0},
            "pay": {"numerator": 0, "denominator": 1, "value": 0},
            "search": {"numerator": 1, "denominator": 2, "value": 0.5},
        },
    }  # fmt: skip
    assert (found["format"], found["runs"], found["by"]) == ("tracekit/metrics/v1", 3, "language")
    buckets = found["buckets"]
    assert isinstance(buckets, list)
    assert [one["name"] for one in buckets if isinstance(one, dict)] == ["de", "en"]


def test_the_text_lines_numbers_up_and_lists_what_is_not_there() -> None:
    text = measure_many(USED).as_text()
    lines = [line.split() for line in text.splitlines()]
    assert " ".join(lines[1]) == "metric value 95 % interval numerator denominator runs"
    assert " ".join(lines[2]) == "task_success 50.0 % 9.5 % – 90.5 % 1 2 2 of 3"
    assert "tokens 100 tokens 100 1 1 of 3" in map(" ".join, lines)
    assert "n/a\n  tool_precision" in text


def test_runs_that_broke_off_are_counted_and_said_to_have_broken_off() -> None:
    broken = [run(read("a"), run_id=name, status=name) for name in ("error", "open")]
    found = measure_many([run(read("a"), run_id="whole"), *broken])
    assert (found.broken_off, found.as_dict()["broken_off"]) == (2, 2)
    assert "counted until they broke off by an error or stood open: 2" in found.as_text()
    assert found.whole.measures["run_error_rate"].value == 1 / 2
    assert found.whole.measures["steps"].n == 3
