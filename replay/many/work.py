"""One run's share of a bulk replay: values in, values out, so that any executor can do it.

What a worker needs comes with the work: the recorded trajectory, the planner's name, the options.
What it made goes back with the outcome: the rows of the replay, for whoever has the store. A
process that does much work keeps its planner: walls are put up and the planner is imported once,
and every run is a fork.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.util import Finalize

from replay.diff import diff
from replay.isolation import Wall
from replay.many.outcome import RunOutcome, as_kept, cut, not_replayed, outcome_of
from replay.replayer import Replayer, ReplayOptions
from replay.result import ReplayResult, VerdictKind
from tracekit import conditions
from tracekit.assembly import trajectory_digest
from tracekit.canonical import JsonValue
from tracekit.errors import IsolationUnavailable, TracekitError
from tracekit.events import Blob, Event
from tracekit.rows import rows_from_facts
from tracekit.sink import MemorySink
from tracekit.trajectory import Trajectory


@dataclass(frozen=True)
class Kept:
    """A replay that is in the store already."""

    replayed: Trajectory
    verdict: VerdictKind
    reasons: tuple[str, ...]
    shares: dict[str, int]


@dataclass(frozen=True)
class Work:
    """One run to replay; or, with ``kept``, to be compared with a replay that is there."""

    planner: str | object
    options: ReplayOptions
    recorded: Trajectory
    kept: Kept | None = None
    others: frozenset[str] | None = None
    """What the other runs call, where the names in the options are still to be checked."""


@dataclass(frozen=True)
class Done:
    """What came of it."""

    outcome: RunOutcome
    events: tuple[Event, ...] = ()
    blobs: tuple[Blob, ...] = ()
    """The replay as rows and values; empty where there is none to keep."""
    level: str | None = None
    walls: tuple[Wall, ...] = ()
    notes: tuple[str, ...] = ()


def do_work(work: Work) -> Done:
    """Replay one run. What is wrong with the run is an outcome.

    Raises:
        TracekitError: the planner cannot be loaded or the walls do not stand, for this run and any;
            or an option names what nobody knows.
    """
    if work.kept is not None:
        return Done(_compared(work.recorded, work.kept))
    replayer = _replayer_for(work.planner, work.options)
    began = time.perf_counter()
    run_id = work.recorded.run_id
    sink = MemorySink(f"replay-{conditions.new_span_id()}")
    try:
        result = replayer.replay(work.recorded, sink=sink)
        divergence = first_divergence(result.recorded, result.trajectory, result)
    except IsolationUnavailable:
        raise
    except TracekitError as error:
        return Done(not_replayed(run_id, str(error), elapsed_s=time.perf_counter() - began))
    except Exception:  # noqa: BLE001  # a fault of ours with one run must not end the others
        reason = f"tracekit failed: {traceback.format_exc(limit=-1)}"
        return Done(not_replayed(run_id, reason, elapsed_s=time.perf_counter() - began))
    elapsed_s = time.perf_counter() - began
    if work.others is not None:
        replayer.check_names(result, work.others)
    if result.exit.kind == "killed" and result.verdict.kind != "fail":
        # From outside, so --resume has it replayed once more: the store keeps nothing of it.
        lost = outcome_of(result, divergence=None, elapsed_s=elapsed_s)
        return Done(replace(lost, replay_id=None))
    return Done(
        outcome_of(result, divergence=divergence, elapsed_s=elapsed_s),
        events=tuple(rows_from_facts(sink.facts)),
        blobs=tuple(sink.blobs.values()),
        level=result.level,
        walls=result.walls,
        notes=result.notes,
    )


def _compared(recorded: Trajectory, kept: Kept) -> RunOutcome:
    return as_kept(
        RunOutcome(
            run_id=recorded.run_id,
            verdict=kept.verdict,
            reasons=tuple(map(cut, kept.reasons)),
            replay_id=kept.replayed.run_id,
            divergence=first_divergence(recorded, kept.replayed, None),
            findings=int(kept.verdict == "fail"),
            shares=kept.shares,
        )
    )


def first_divergence(
    recorded: Trajectory, replayed: Trajectory | None, result: ReplayResult | None
) -> str | None:
    """Say in one line where a replay leaves the record; None where it does not."""
    if result is not None and result.locked:
        odd = next((decision for decision in result.locked if not decision.same), None)
        return None if odd is None else odd.explanation
    if replayed is None:
        return "it did not begin"
    if trajectory_digest(recorded) == trajectory_digest(replayed):
        return None
    found = diff(recorded, replayed)
    if found.same or found.first is None:
        return None
    return cut(found.first.explanation)


# --- the planner of this process ------------------------------------------------------------------


class _Ready:
    """The planner that this process holds, if it holds one."""

    pid = 0
    question: tuple[str | object, ReplayOptions] | None = None
    replayer: Replayer | None = None


def _replayer_for(planner: str | object, options: ReplayOptions) -> Replayer:
    held = _Ready.replayer if _Ready.pid == os.getpid() else None  # a fork holds its parent's
    if held is not None and _Ready.question == (planner, options):
        return held
    close()
    made = Replayer(planner, options)
    made.__enter__()
    if _Ready.pid != os.getpid():
        Finalize(None, close, exitpriority=1)  # also where a pool's process ends without atexit
    _Ready.pid, _Ready.question, _Ready.replayer = os.getpid(), (planner, options), made
    return made


def close() -> None:
    """Let go of the planner that this process holds."""
    held, _Ready.replayer = _Ready.replayer, None
    if held is not None and _Ready.pid == os.getpid():
        held.__exit__(None, None, None)


def shares_of(fidelity: JsonValue) -> dict[str, int]:
    """Read the shares of rungs from what a stored replay says of itself."""
    calls = fidelity.get("calls") if isinstance(fidelity, dict) else None
    if not isinstance(calls, dict):
        return {}
    return {rung: count for rung, count in calls.items() if isinstance(count, int)}


def reasons_of(verdict: str) -> Sequence[str]:
    """Read the reason from a stored verdict."""
    _, _, reason = verdict.partition(": ")
    return (reason,) if reason else ()
