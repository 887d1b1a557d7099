"""Replays, compares, judges and distills what ``tracekit`` recorded.

Names are loaded when they are first used: the planner's child process imports this package too, and
needs next to none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from replay.case import read_case as load_case
    from replay.caserun import CaseResult, on_case, run_case
    from replay.comparing import ManyComparison, compare_many
    from replay.diff import Comparison
    from replay.distill import DistillOptions, DistillResult, distill_run
    from replay.gates import GateReport, read_gates, run_gates
    from replay.many import ManyResult, RunOutcome, replay_many
    from replay.replayer import ReplayOptions, replay_run
    from replay.result import ReplayResult, Verdict
    from replay.shadow import ShadowOptions, ShadowResult, shadow_run

_NAMES = {
    "CaseResult": "replay.caserun",
    "Comparison": "replay.diff",
    "DistillOptions": "replay.distill",
    "DistillResult": "replay.distill",
    "GateReport": "replay.gates",
    "ManyComparison": "replay.comparing",
    "ManyResult": "replay.many",
    "ReplayOptions": "replay.replayer",
    "ReplayResult": "replay.result",
    "RunOutcome": "replay.many",
    "ShadowOptions": "replay.shadow",
    "ShadowResult": "replay.shadow",
    "Verdict": "replay.result",
    "compare_many": "replay.comparing",
    "distill_run": "replay.distill",
    "load_case": "replay.case",
    "on_case": "replay.caserun",
    "read_gates": "replay.gates",
    "replay_many": "replay.many",
    "replay_run": "replay.replayer",
    "run_case": "replay.caserun",
    "run_gates": "replay.gates",
    "shadow_run": "replay.shadow",
}

_SPELT = {"load_case": "read_case"}
"""What a public name is called where it stands."""

__all__ = [
    "CaseResult",
    "Comparison",
    "DistillOptions",
    "DistillResult",
    "GateReport",
    "ManyComparison",
    "ManyResult",
    "ReplayOptions",
    "ReplayResult",
    "RunOutcome",
    "ShadowOptions",
    "ShadowResult",
    "Verdict",
    "compare_many",
    "diff_runs",
    "distill_run",
    "load_case",
    "on_case",
    "read_gates",
    "replay_many",
    "replay_run",
    "run_case",
    "run_gates",
    "shadow_run",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'replay' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), _SPELT.get(name, name))


def diff_runs(left: str, right: str, store: str | Path | None = None) -> Comparison:
    """Compare two runs of one store.

    Args:
        left: Run id, or an unambiguous prefix; the expectation, usually the recorded run.
        right: Run id, or an unambiguous prefix.
        store: Path of the store; default ``$TRACEKIT_STORE``, else ``.tracekit``.

    Raises:
        RunNotFound: one of them does not exist.
    """
    from replay.diff import diff, names_for
    from tracekit.configuration import store_path
    from tracekit.store import open_store

    kept = open_store(store_path(store))
    a, b = (kept.trajectory(kept.resolve(run_id)) for run_id in (left, right))
    names = names_for(a, b)
    return diff(a, b, left_name=names[0], right_name=names[1])
