"""Records that say what cannot be: it is not counted, told of, and spoils no other run."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import pytest
from click.testing import CliRunner

from replay.metrics import Count, MeasuredRun, Usage, measure, measure_many, read_measured
from tests.diff.many_runs import kept, made
from tests.metrics.made import read, run
from tests.store.made import NOON
from tracekit.canonical import JsonValue
from tracekit.cli import main
from tracekit.store import RunQuery, Store

TOO_LONG = int("9" * 400)
ODD: list[Any] = [-5, -0.01, TOO_LONG, -TOO_LONG, 1e16, 1e308, nan, inf, -inf]


@pytest.mark.parametrize("number", ODD)
def test_a_cost_that_cannot_be_is_not_counted_and_the_run_is_told_of(number: Any) -> None:
    cost = float(number) if abs(number) != TOO_LONG else inf
    odd = MeasuredRun(run(read("a"), run_id="odd", labels={"success": True}), Usage(cost_usd=cost))
    good = [
        MeasuredRun(run(read(f"a{n}"), run_id=f"r{n}", labels={"success": True}), Usage(cost_usd=2))
        for n in range(3)
    ]
    found = measure_many([*good, odd])
    for name in ("cost", "cost_per_success"):
        one = found.whole.measures[name]
        assert (one.value, one.n, one.of) == (2, 3, 4)
    assert found.odd == {"odd": f"its record says a cost of {cost:g} USD, which cannot be"}
    assert f"not counted: odd: its record says a cost of {cost:g} USD" in found.as_text()
    assert found.as_dict()["odd"] == found.odd


def test_tokens_and_durations_below_nothing_are_not_counted() -> None:
    odd = measure(MeasuredRun(run(read("a")), Usage(tokens=-1, latency_ms=-0.5)))
    assert odd.odd == (
        "its record says a use of -1 tokens, which cannot be",
        "its record says a duration of -0.5 ms, which cannot be",
    )
    assert odd.counts.keys().isdisjoint({"tokens", "latency_p50", "latency_p95"})
    assert odd.exempt.isdisjoint({"tokens", "latency_p50", "latency_p95"})
    nothing = measure(MeasuredRun(run(read("a")), Usage(tokens=0, cost_usd=0, latency_ms=0)))
    assert [nothing.value(name) for name in ("tokens", "cost", "latency_p50")] == [0, 0, 0]


def test_many_odd_runs_are_counted_rather_than_listed() -> None:
    runs = [
        MeasuredRun(run(read(f"a{n}"), run_id=f"r{n}"), Usage(cost_usd=-1 - n)) for n in range(9)
    ]
    lines = [line for line in measure_many(runs).as_text().splitlines() if "not counted" in line]
    assert lines[-1] == "not counted: 6 more such runs (--json lists them)"
    assert len(lines) == 4


@pytest.mark.parametrize("top", [-1, nan, inf, 1e16])
def test_a_count_of_what_cannot_be_is_none(top: float) -> None:
    for parts in ((top, 1.0), (1.0, top)):
        with pytest.raises(ValueError, match="is no count"):
            Count(*parts)


LABELS: list[dict[str, JsonValue]] = [
    {"success": True, "cost_usd": 2},
    {"success": True, "cost_usd": 4},
    {"reward": TOO_LONG, "cost_usd": -5},
    {"reward": nan, "cost_usd": TOO_LONG, "cost": 7},
    {"reward": 1e308, "cost_usd": 1e308},
    {"reward": -TOO_LONG, "cost_usd": nan},
    {"reward": inf, "cost_usd": inf},
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    labelled = [
        made(f"r{n}", task_id=f"T{n}", labels=labels, arguments=(f"a{n}", "b"))
        for n, labels in enumerate(LABELS)
    ]
    back = made("back", task_id="B", ts_start_ns=NOON, ts_end_ns=NOON - 5_000_000)
    return kept(tmp_path_factory.mktemp("odd") / "traces", *labelled, back)


def test_labels_that_no_float_holds_are_read_and_not_counted(store: Store) -> None:
    found = {
        run_id: measure(one)
        for run_id, one in read_measured(store, store.runs(RunQuery()))
        if isinstance(one, MeasuredRun)
    }
    assert len(found) == len(LABELS) + 1
    assert {run_id: one.value("cost") for run_id, one in found.items() if "cost" in one.counts} == {
        "r0": 2, "r1": 4,
    }  # fmt: skip
    assert {
        run_id: one.value("task_success")
        for run_id, one in found.items()
        if "task_success" in one.counts
    } == {"r0": 1, "r1": 1, "r4": 1}
    assert {run_id for run_id, one in found.items() if one.odd} == {
        "r2", "r3", "r4", "r5", "r6", "back",
    }  # fmt: skip


def test_the_command_and_the_views_leave_the_same_out(store: Store) -> None:
    result = CliRunner().invoke(main, ["metrics", "--json", "--store", str(store.path)])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["odd"]["r2"] == "its record says a cost of -5 USD, which cannot be"
    assert report["odd"]["back"] == "its record says a duration of -5 ms, which cannot be"
    views = dict(store.sql("SELECT metric, value FROM metrics").rows)
    for name in ("cost", "cost_per_success", "task_success", "latency_p50", "tokens"):
        assert views[name] == report["metrics"][name]["value"], name
    assert views["cost"] == 3
