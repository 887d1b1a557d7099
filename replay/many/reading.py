"""The store's side of a bulk replay: which runs, what is done already, and their trajectories.

The catalogue is read first, the runs themselves a few at a time: no more of them is in memory than
is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from replay.many.outcome import RunOutcome, not_replayed
from replay.many.work import Kept, reasons_of, shares_of
from replay.recording import digests_of, told_by
from replay.result import VerdictKind
from tracekit.canonical import parse_json
from tracekit.errors import TracekitError
from tracekit.store import RunQuery, Store
from tracekit.store.queries import quoted
from tracekit.store.several import read_runs
from tracekit.trajectory import Trajectory

_VERDICTS: Mapping[str, VerdictKind] = {
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "not evaluated": "not evaluated",
}

_ASKED_AT_ONCE = 2_000
"""Of so many runs the store is asked at a time what they call."""


class Listed(NamedTuple):
    """A run of the catalogue."""

    run_id: str
    events: int


class Earlier(NamedTuple):
    """A finished replay that the store holds."""

    run_id: str
    events: int
    verdict: str
    fidelity: str | None


def select(store: Store, query: RunQuery) -> list[Listed]:
    """List the recorded runs that ``query`` means, oldest first; replays are none of them.

    Runs of sub-agents are replayed with the run that they belong to, unless an agent is named.
    """
    rows = [
        Listed(row.run_id, row.events)
        for row in store.runs(replace(query, limit=None))
        if row.replay_of is None and (row.parent_run_id is None or query.agent is not None)
    ]
    return rows[: query.limit][::-1]


def named(store: Store, runs: Iterable[str]) -> list[Listed]:
    """List the runs with these ids, or beginnings of ids, each once.

    Raises:
        RunNotFound: one of them is none, or fits several.
    """
    ids = list(dict.fromkeys(store.resolve(run) for run in runs))
    listed = ", ".join(map(quoted, ids)) or "NULL"
    found = store.sql(f"SELECT run_id, events FROM runs WHERE run_id IN ({listed})").rows
    events: dict[str, int] = dict(found)
    return [Listed(run_id, events.get(run_id, 0)) for run_id in ids]


def called_in(store: Store, rows: Iterable[Listed], wanted: Collection[str]) -> frozenset[str]:
    """Give the tools and models that the runs call; all of them, or enough to know the wanted."""
    known: set[str] = set()
    ids = (row.run_id for row in rows)
    while not known.issuperset(wanted) and (some := [*islice(ids, _ASKED_AT_ONCE)]):
        found = store.sql(
            "SELECT DISTINCT coalesce(tool_name, actor) FROM events "
            "WHERE event_type IN ('tool_call', 'retrieval', 'llm_call') "
            f"AND run_id IN ({', '.join(map(quoted, some))})"
        )
        known.update(name for (name,) in found.rows if name)
    return frozenset(known)


def done_before(
    store: Store, run_ids: Iterable[str], planner: str, versions: Mapping[str, str]
) -> dict[str, Earlier]:
    """Find the newest finished replay of each run that asked the same question."""
    wanted = set(run_ids)
    found: dict[str, Earlier] = {}
    newest_first = store.sql(
        "SELECT replay_of, versions, run_id, events, verdict, fidelity FROM runs "
        f"WHERE replay_of IS NOT NULL AND verdict IS NOT NULL AND planner = {quoted(planner)} "
        "ORDER BY ts_start_ns DESC NULLS LAST, run_id DESC"
    )
    for run_id, said, *replay in newest_first.rows:
        if run_id in wanted and run_id not in found and parse_json(said) == dict(versions):
            earlier = Earlier(*replay)
            if _kind(earlier.verdict) is not None:
                found[run_id] = earlier
    return found


def is_of(earlier: Earlier, recorded: Trajectory) -> bool:
    """Whether what was replayed is what stands under the id today; older replays do not say."""
    fidelity = parse_json(earlier.fidelity) if earlier.fidelity is not None else None
    return told_by(fidelity) == digests_of(recorded)


def kept_of(earlier: Earlier, replayed: Trajectory) -> Kept:
    """Read what a stored replay came to."""
    kind = _kind(earlier.verdict)
    assert kind is not None
    fidelity = parse_json(earlier.fidelity) if earlier.fidelity is not None else None
    return Kept(replayed, kind, tuple(reasons_of(earlier.verdict)), shares_of(fidelity))


def _kind(verdict: str) -> VerdictKind | None:
    return _VERDICTS.get(verdict.partition(": ")[0])


def trajectories(
    store: Store, rows: Iterable[Listed | Earlier]
) -> Iterator[tuple[str, Trajectory | RunOutcome]]:
    """Yield the trajectory of each run, or why there is none, a few read at a time."""
    for run_id, run in read_runs(store, rows):
        if isinstance(run, TracekitError):
            yield run_id, not_replayed(run_id, str(run))
        else:
            yield run_id, run.trajectory
