"""Many runs replayed at once: in parallel, resumable, one failing run not stopping the rest."""

from __future__ import annotations

from replay.many.bulk import Progress, replay_many
from replay.many.outcome import ManyResult, RunOutcome
from replay.many.work import Done, Work, do_work
from replay.many.workers import WorkerLost, Workers

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
