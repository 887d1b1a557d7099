"""What ``doctor`` tells of a store: what is in it, what was lost, who may read it, how it grows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tracekit import conditions
from tracekit.cli.diagnosis import Diagnosis
from tracekit.cli.doctor_here import key_id_here, size_text
from tracekit.cli.text import moment_text
from tracekit.errors import RedactionKeyError
from tracekit.journal import owner_alive
from tracekit.limits import size_of
from tracekit.losses import NOT_THE_SYSTEM
from tracekit.numerals import counted
from tracekit.settings import read_environment
from tracekit.store import Store, open_store
from tracekit.store.folder import Folder
from tracekit.store.live import journals
from tracekit.store.places import is_database, journal_folder
from tracekit.store.sifting import dropped_from

_MANY_BATCHES = 200
_LISTED = 20
_NEARLY = 0.9
_LITTLE_ROOM = 200 << 20
_AHEAD_NS = 300_000_000_000
"""Clocks of machines differ; a time so far ahead is no such difference."""
_COUNTS = "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM events)"
_LOSSES = f"""
    SELECT run_id, error_message, ts_start_ns, attributes LIKE '%"{NOT_THE_SYSTEM}"%'
    FROM events WHERE error_type = 'events_lost'
    ORDER BY ts_start_ns DESC
"""
_SEE = "; see that there is room, and who writes there"
_TRUNCATED = """
    SELECT count(*) FILTER (argument_state = 'truncated')
         + count(*) FILTER (observation_state = 'truncated') FROM events
"""
_CLOCK = """
    SELECT count(*) FILTER (ts_start_ns > {now}), max(ts_start_ns),
           count(*) FILTER (ts_end_ns < ts_start_ns)
    FROM events WHERE source_format = 'tracekit'
"""


def examine_store(told: Diagnosis, path: Path) -> None:
    """Look at the store at ``path``.

    Raises:
        TracekitError: there is none, or it cannot be read.
    """
    told.facts["store"] = str(path.resolve())
    store = open_store(path)
    ((runs, events),) = store.sql(_COUNTS).rows
    single = is_database(path)
    batches = 0 if single else len(list((path / "runs").glob("[!.]*.parquet")))
    form = "one DuckDB file" if single else f"batches: {batches:,}"
    told.facts |= {
        "holds": f"{counted(runs, 'run')}, {counted(events, 'event')}; {form}; schema"
        f" {_folder(store).schema_version}",
        "journals": _journals(told, _folder(store), path),
        "size": _size(told, path),
    }
    if batches > _MANY_BATCHES:
        told.advice.append(f"many small batches: tracekit compact --store {path}")
    told.findings += [str(problem) for problem in store.problems]
    _losses(told, store)
    told.findings += [] if single else _orphans(store)
    told.findings += [*_open_to_others([path, journal_folder(path)]), *_of_others(path)]
    told.findings += _other_key(store.redaction_key_id)
    _clock(told, store)


def _journals(told: Diagnosis, folder: Folder, path: Path) -> str:
    found = journals(folder)
    gone = [journal for journal in found if not owner_alive(journal)]
    if gone:
        told.advice.append(
            f"journals whose process is gone and that nobody has moved yet: {len(gone)}; a command"
            f" that reads moves them, and so does: tracekit compact --store {path}"
        )
    return f"{len(found)}, of which {len(found) - len(gone)} are being written"


def _size(told: Diagnosis, path: Path) -> str:
    size = size_of([path, journal_folder(path)])
    free = shutil.disk_usage(path if path.exists() else path.parent).free
    if free < _LITTLE_ROOM:
        told.findings.append(
            f"the disk of the store has {size_text(free)} left: make room, or"
            f" tracekit prune --older-than 30d --store {path}"
        )
    limits = read_environment().given.get("limits")
    limit = None if limits is None else limits.store_bytes
    if limit and size >= limit * _NEARLY:
        told.findings.append(
            f"the store has {size_text(size)} and may have {size_text(limit)}, above which values"
            " are kept as digests only: prune it, or raise TRACEKIT_LIMIT_STORE_BYTES"
        )
    return f"{size_text(size)}, with {size_text(free)} free on its disk"


def _losses(told: Diagnosis, store: Store) -> None:
    losses = store.sql(_LOSSES).rows
    told.findings += [
        f"run {run_id}: {what} ({moment_text(when)})" + ("" if is_ours else _SEE)
        for run_id, what, when, is_ours in losses[:_LISTED]
    ]
    if len(losses) > _LISTED:
        told.findings.append(
            f"events were lost {len(losses) - _LISTED:,} more times: tracekit sql"
            " \"SELECT * FROM events WHERE error_type = 'events_lost'\""
        )
    ((truncated,),) = store.sql(_TRUNCATED).rows
    told.facts["lost"] = (
        f"events: {len(losses):,} times; values cut or kept as digests: {truncated:,}"
    )
    dropped = dropped_from(store.path)
    if dropped.events:
        told.facts["sampled"] = (
            f"{counted(dropped.runs, 'run')} with {counted(dropped.events, 'event')} dropped"
        )


def _folder(store: Store) -> Folder:
    from tracekit.store.parquet import ParquetStore
    from tracekit.store.single import DuckdbStore

    assert isinstance(store, (ParquetStore, DuckdbStore))
    return store.folder


def _orphans(store: Store) -> list[str]:
    from tracekit.store.compaction import orphans

    return [
        f"{name}: it has rows that are nowhere else, and nothing reads them, since its batch was"
        f" never finished or lost {catalogue}. Import again, or bring that file back"
        for name, catalogue in orphans(_folder(store))
    ]


def _open_to_others(paths: list[Path]) -> list[str]:
    """Name the first thing in the store that others may read."""
    for path in paths:
        for place in _places(path):
            mode = place.stat(follow_symlinks=False).st_mode & 0o777
            if mode & 0o077:
                return [f"{place} is open to others (mode {mode:o}): chmod -R go= {path}"]
    return []


def _of_others(path: Path) -> list[str]:
    """Name the first thing in the store that belongs to somebody else than the store."""
    owner = path.stat().st_uid if path.exists() else None
    for place in _places(path):
        if owner is not None and (other := place.stat(follow_symlinks=False).st_uid) != owner:
            return [f"{place} belongs to user {other}, the store to user {owner}: chown it"]
    return []


def _places(path: Path) -> Iterator[Path]:
    for place in (path, *sorted(path.rglob("*"))):
        if place.exists() and not place.is_symlink():
            yield place


def _other_key(kept: str | None) -> list[str]:
    if kept is None:
        return []
    try:
        mine = key_id_here()
    except RedactionKeyError:  # told already
        return []
    if mine == kept:
        return []
    if mine is None:
        return [
            f"the redaction key of this store ({kept}) is not here: bring it, or no replay fits"
        ]
    return [f"the redaction key here ({mine}) is not the one this store was made with ({kept})"]


def _clock(told: Diagnosis, store: Store) -> None:
    now = conditions.now_ns()
    ((ahead, latest, backwards),) = store.sql(_CLOCK.format(now=now + _AHEAD_NS)).rows
    if ahead:
        told.advice.append(
            f"events from the future: {ahead:,}, up to {moment_text(latest)}; it is"
            f" {moment_text(now)} here: look at the clocks"
        )
    if backwards:
        told.advice.append(
            f"steps that ended before they began: {backwards:,}: a clock was set back meanwhile"
        )
