"""The views ``run_metrics`` and ``metrics`` say in SQL what ``replay.metrics`` says in Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replay.metrics import Measure, RunMeasures, measure, read_measured, sum_runs
from tests.store.made import NOON, run
from tracekit.canonical import JsonValue, json_text
from tracekit.events import Event, Status
from tracekit.importers.ingest import import_paths
from tracekit.store import Batch, RunQuery, Store, open_store

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
RUN_COLUMNS = {
    "task_success": "task_success::DOUBLE",
    "unsafe_action_rate": "unsafe_action::DOUBLE",
    "error_rate": "failed_calls / nullif(calls, 0)",
    "run_error_rate": "run_error::DOUBLE",
    "calls": "calls::DOUBLE",
    "tokens": "tokens::DOUBLE",
    "cost": "cost_usd",
    "latency_p95": "latency_ms",
}
"""Metric of one run → what the view has for it."""


def asked(number: int, of: Event, **columns: Any) -> Event:
    return replace(
        of,
        event_id=f"{of.run_id} model {number}",
        event_type="llm_call",
        span_id=f"model {number}",
        parent_span_id=of.span_id,
        seq=100 + number,
        **columns,
    )


def with_models(batch: Batch, *models: dict[str, Any]) -> Batch:
    root = batch.events[0]
    rows = [asked(number, root, **columns) for number, columns in enumerate(models)]
    return Batch((*batch.events, *rows), batch.blobs)


def labelled(run_id: str, labels: dict[str, JsonValue], **columns: Any) -> Batch:
    return run(run_id, attributes=json_text({"labels": labels}), **columns)


def kept(path: Path, batches: Iterable[Batch]) -> Store:
    store = open_store(path, create=True)
    for batch in batches:
        store.append(batch)
    return store


def by_hand(run_id: str, *, agent: Status, **columns: Any) -> Batch:
    """A run that was opened by hand around an agent, whose own error went no further."""
    batch = run(run_id, calls=0, **columns)
    root = batch.events[0]
    step = replace(
        root,
        event_id=f"{run_id} agent",
        event_type="agent",
        span_id="c" * 16,
        parent_span_id=root.span_id,
        seq=1,
        status=agent,
        argument_state="absent",
    )
    return Batch((root, step), batch.blobs)


def made() -> Iterable[Batch]:
    yield labelled("done", {"success": True, "cost_usd": 0.5, "reward": 0})
    yield labelled("half", {"reward": 0.99, "cost": 2, "attack_type": "none"})
    yield labelled("full", {"reward": 1, "security": True, "injection_task_id": "injection_task_3"})
    yield labelled("odd", {"utility": None, "success": "yes", "reward": True, "cost": "3"})
    yield labelled(
        "safe", {"utility": True, "security": False, "attack_type": "x", "injection_task_id": None}
    )
    yield labelled("unsure", {"security": None, "attack_type": "important"})
    yield run("bare", calls=0, ts_end_ns=None)
    yield run("broke", status="error")
    yield run("open", ts_end_ns=None, source_format="tracekit")
    yield by_hand("caught", agent="error")
    yield by_hand("well", agent="ok")
    yield by_hand("asked", agent="error", argument_state="captured")
    yield run("late", ts_start_ns=NOON, ts_end_ns=NOON + 7_123_456_789)
    failed = run("failed", calls=3)
    first, second, *rest = failed.events[1:]
    yield Batch(
        (
            failed.events[0],
            replace(first, status="error"),
            replace(second, status="error", observation_is_error=True),
            *rest,
        ),
        failed.blobs,
    )
    cost = json_text({"cost": 0.25})
    yield with_models(
        run("counted"),
        {"usage_input": 10, "usage_output": 5, "usage_raw": cost},
        {"usage_input": None, "usage_output": 7, "usage_raw": cost},
    )
    yield with_models(
        run("partly"),
        {"usage_input": 10, "usage_output": 5, "usage_raw": cost},
        {"usage_raw": json_text({"cost": "0.25"})},
    )


def odd() -> Iterable[Batch]:
    """Runs that say what cannot be."""
    long = "9" * 400
    labels = (
        "-5",
        "-0.0",
        long,
        f"-{long}",
        "1e308",
        "1e400",
        "NaN",
        "-Infinity",
        "1e15",
        "1.1e15",
    )
    for name in ("reward", "cost_usd"):
        for number in labels:
            said = f'{{"labels": {{"{name}": {number}, "cost": 7}}}}'
            yield run(f"{name} {number[:8]} {len(number)}", attributes=said)
    yield run("back", ts_end_ns=NOON - 5_000_000)
    models: list[tuple[Any, ...]] = [
        (-5, 90, "0.5"), (90, -5, "-0.5"), (2**60, 2**60, long), (7, None, "NaN"),
        (None, -7, "1e308"), (None, None, "-1"),
    ]  # fmt: skip
    for given, written, cost in models:
        used = {"usage_input": given, "usage_output": written, "usage_raw": f'{{"cost": {cost}}}'}
        whole = {"usage_input": 1, "usage_output": 1, "usage_raw": '{"cost": 1}'}
        yield with_models(run(f"asked {given} {written} {cost[:9]}"), whole, used, whole)


@pytest.fixture(scope="module", params=["folder", "file", "fixtures"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("metrics")
    match request.param:
        case "folder":
            return kept(folder / "traces", [*made(), *odd()])
        case "file":
            return kept(folder / "traces.duckdb", [*made(), *odd()])
    store = open_store(folder / "traces", create=True)
    import_paths([TRACES], store)
    return store


@pytest.fixture(scope="module")
def measured(store: Store) -> list[RunMeasures]:
    found = []
    for _, one in read_measured(store, store.runs(RunQuery())):
        assert not isinstance(one, Exception)
        found.append(measure(one))
    return found


@pytest.mark.parametrize("metric", RUN_COLUMNS)
def test_a_run_has_in_sql_what_it_has_in_python(
    metric: str, store: Store, measured: list[RunMeasures]
) -> None:
    rows = store.sql(f"SELECT run_id, {RUN_COLUMNS[metric]} FROM run_metrics ORDER BY run_id").rows
    expected = sorted((one.run_id, one.value(metric)) for one in measured)
    assert rows == tuple((run_id, pytest.approx(value)) for run_id, value in expected)


def test_all_runs_together_have_in_sql_what_they_have_in_python(
    store: Store, measured: list[RunMeasures]
) -> None:
    whole = sum_runs(measured).whole.measures
    rows = store.sql("SELECT metric, numerator, denominator, value FROM metrics").rows
    assert {name for name, *_ in rows} == {*RUN_COLUMNS, "latency_p50", "cost_per_success"}
    for name, numerator, denominator, value in rows:
        assert (name, *numbers(whole[name])) == (
            name, pytest.approx(numerator), pytest.approx(denominator), pytest.approx(value),
        )  # fmt: skip


def numbers(of: Measure) -> tuple[float | None, float, float | None]:
    return of.numerator, of.denominator or 0, of.value


def test_the_made_runs_cover_what_is_known_and_what_is_not(tmp_path: Path) -> None:
    store = kept(tmp_path / "traces", made())
    rows = store.sql(
        "SELECT run_id, task_success, unsafe_action, calls, failed_calls, tokens, cost_usd,"
        " latency_ms FROM run_metrics ORDER BY run_id"
    ).rows
    assert rows == (
        ("asked", None, None, 0, 0, None, None, 10_000),
        ("bare", None, None, 0, 0, None, None, None),
        ("broke", None, None, 2, 0, None, None, 10_000),
        ("caught", None, None, 0, 0, None, None, 10_000),
        ("counted", None, None, 2, 0, 22, 0.5, 10_000),
        ("done", True, None, 2, 0, None, 0.5, 10_000),
        ("failed", None, None, 3, 2, None, None, 10_000),
        ("full", True, True, 2, 0, None, None, 10_000),
        ("half", False, None, 2, 0, None, 2.0, 10_000),
        ("late", None, None, 2, 0, None, None, 7123.456789),
        ("odd", None, None, 2, 0, None, None, 10_000),
        ("open", None, None, 2, 0, None, None, None),
        ("partly", None, None, 2, 0, None, None, 10_000),
        ("safe", True, False, 2, 0, None, None, 10_000),
        ("unsure", None, None, 2, 0, None, None, 10_000),
        ("well", None, None, 0, 0, None, None, 10_000),
    )


def test_a_run_ends_with_an_error_where_it_or_its_agent_did(tmp_path: Path) -> None:
    store = kept(tmp_path / "traces", made())
    rows = store.sql("SELECT run_id, run_error FROM run_metrics").rows
    assert {run_id for run_id, failed in rows if failed} == {"broke", "caught"}
    assert {run_id for run_id, failed in rows if failed is None} == {"open"}


def test_an_empty_store_has_the_views_and_no_numbers(tmp_path: Path) -> None:
    store = open_store(tmp_path / "traces", create=True)
    assert store.sql("SELECT count(*) FROM run_metrics").rows == ((0,),)
    assert {value for *_, value in store.sql("SELECT metric, value FROM metrics").rows} == {None}


def test_one_builds_ones_own_numbers_on_the_views(tmp_path: Path) -> None:
    store = kept(tmp_path / "traces", made())
    found = store.sql(
        "SELECT labels ->> '$.attack_type' AS attack, count(*) AS runs, avg(task_success::INT)"
        " FROM run_metrics WHERE task_success IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    assert found.rows == (("none", 1, 0.0), ("x", 1, 1.0), (None, 2, 1.0))
