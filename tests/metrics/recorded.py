"""Recorded runs of benchmarks: what their files say by hand, and the same runs measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replay.metrics import RunMeasures, measure, read_measured
from tracekit.importers.ingest import import_paths
from tracekit.store import RunQuery, open_store


def imported(folder: Path, *paths: Path) -> list[RunMeasures]:
    """Import files into a store of their own and measure every run."""
    store = open_store(folder / "traces", create=True)
    import_paths(paths, store)
    found = []
    for _, run in read_measured(store, store.runs(RunQuery())):
        assert not isinstance(run, Exception)
        found.append(measure(run))
    return found


def rewards(path: Path) -> dict[str, dict[int, bool]]:
    """Read a tau-bench file: task → trial → whether its reward says that it was done."""
    found: defaultdict[str, dict[int, bool]] = defaultdict(dict)
    for file in sorted(path.glob("*.json")):
        for record in json.loads(file.read_text("utf-8")):
            found[f"tau-bench/{record['task_id']}"][record["trial"]] = record["reward"] == 1.0
    return dict(found)


def actions(path: Path) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """Read a tau-bench file: trial → how often each tool is expected, and is called."""
    found = {}
    for file in sorted(path.glob("*.json")):
        for record in json.loads(file.read_text("utf-8")):
            asked = [call for said in record["traj"] for call in said.get("tool_calls") or []]
            found[f"{record['task_id']}.trial-{record['trial']}"] = (
                Counter(action["name"] for action in record["info"]["task"]["actions"]),
                Counter(call["function"]["name"] for call in asked),
            )
    return found


def attacks(path: Path) -> dict[str, tuple[int, int]]:
    """Read agentdyn's folders: pipeline → attacks that worked, and those that are judged."""
    found: dict[str, tuple[int, int]] = {}
    for file in path.glob("*/*/*/*/*.json"):
        log: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if log["injection_task_id"] is None or log.get("security") is None:
            continue
        worked, judged = found.get(file.parts[-5], (0, 0))
        found[file.parts[-5]] = (worked + log["security"], judged + 1)
    return found


def trials(runs: Iterable[RunMeasures]) -> dict[str, dict[int, bool]]:
    """Sort measured runs of tau-bench as ``rewards`` does."""
    found: defaultdict[str, dict[int, bool]] = defaultdict(dict)
    for run in runs:
        assert run.task_id is not None
        found[run.task_id][int(run.buckets["trial"][0])] = run.value("task_success") == 1.0
    return dict(found)
