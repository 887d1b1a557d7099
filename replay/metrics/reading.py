"""The store's side of measuring: runs with what they used, a few read at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from replay.metrics.gold import labels_of
from replay.metrics.model import MeasuredRun, Usage
from tracekit.canonical import parse_json
from tracekit.errors import TracekitError
from tracekit.events import Event, RunRow
from tracekit.quantities import as_written, is_amount
from tracekit.store import Store
from tracekit.store.several import read_runs
from tracekit.trajectory import Trajectory

COST_LABELS = ("cost_usd", "cost")
_Number = TypeVar("_Number", int, float)


def read_measured(
    store: Store, runs: Iterable[RunRow]
) -> Iterator[tuple[str, MeasuredRun | TracekitError]]:
    """Yield the runs of some rows of the catalogue, or why one cannot be read."""
    rows = {row.run_id: row for row in runs}
    for run_id, run in read_runs(store, rows.values()):
        if isinstance(run, TracekitError):
            yield run_id, run
        else:
            used = usage_of(rows[run_id], run.rows, run.trajectory)
            yield run_id, MeasuredRun(run.trajectory, used)


def usage_of(row: RunRow, events: Sequence[Event], run: Trajectory) -> Usage:
    """Tell what a run used: what is known of every model call, and of nothing else.

    What stands in the record is told as it stands there; whether it can be is for who counts.
    """
    models = [event for event in events if event.event_type == "llm_call"]
    return Usage(
        tokens=_total([_tokens(event) for event in models]),
        cost_usd=_cost(row, models, run),
        latency_ms=_latency_ms(row),
    )


def _tokens(model: Event) -> int | None:
    used = [one for one in (model.usage_input, model.usage_output) if one is not None]
    return _total(used)


def _cost(row: RunRow, models: Sequence[Event], run: Trajectory) -> float | None:
    labels = labels_of(run)
    said = [row.cost_usd, *(as_written(labels.get(name)) for name in COST_LABELS)]
    known = next((cost for cost in said if cost is not None), None)
    return known if known is not None else _total([_cost_of_call(event) for event in models])


def _cost_of_call(model: Event) -> float | None:
    usage = parse_json(model.usage_raw) if model.usage_raw is not None else None
    return as_written(usage.get("cost")) if isinstance(usage, dict) else None


def _total(found: Sequence[_Number | None]) -> _Number | None:
    """Add up; where one is not known the sum is not, and one that cannot be stands for all."""
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    odd = next((one for one in known if not is_amount(one)), None)
    return sum(known[1:], known[0]) if odd is None else odd


def _latency_ms(row: RunRow) -> float | None:
    if row.ts_start_ns is None or row.ts_end_ns is None:
        return None
    return (row.ts_end_ns - row.ts_start_ns) / 1e6
