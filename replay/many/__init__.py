"""Many runs replayed at once: in parallel, resumable, one failing run not stopping the rest.

Names are loaded when they are first used: a worker process needs neither the store nor the table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.many.bulk import Progress, replay_many
    from replay.many.outcome import ManyResult, RunOutcome
    from replay.many.work import Done, Work, do_work
    from replay.many.workers import WorkerLost, Workers

_NAMES = {
    "Done": "work",
    "ManyResult": "outcome",
    "Progress": "bulk",
    "RunOutcome": "outcome",
    "Work": "work",
    "WorkerLost": "workers",
    "Workers": "workers",
    "do_work": "work",
    "replay_many": "bulk",
}

__all__ = [
    "Done",
    "ManyResult",
    "Progress",
    "RunOutcome",
    "Work",
    "WorkerLost",
    "Workers",
    "do_work",
    "replay_many",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'replay.many' has no attribute {name!r}")
    return getattr(import_module(f"replay.many.{_NAMES[name]}"), name)
