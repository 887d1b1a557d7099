"""Removing runs from a DuckDB file: what stays is written to a new file that takes its place.

A database keeps the bytes of what is deleted in it until they are written over; a new file has
none of them. It is put in place while the old one is held and nobody settles, with one rename.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import duckdb
import pyarrow as pa

from tracekit.chains import MEDIA_TYPE
from tracekit.conditions import Conditions
from tracekit.errors import StoreError
from tracekit.events import RunRow
from tracekit.store.database import META, STORAGE, Database
from tracekit.store.folder import flush, locked, make_folder
from tracekit.store.live import Live
from tracekit.store.queries import quoted
from tracekit.store.reading import rows_in
from tracekit.store.removal import DIGEST, Criteria, Links, Pruned, lines_set_aside, names_table
from tracekit.store.schema import blobs_of
from tracekit.store.settling import require_settled
from tracekit.store.single import DuckdbStore

_NEW = ".pruned"
_NAMED = f"""
    CREATE TEMP TABLE named AS SELECT name, bool_or(stays) AS stays FROM (
        SELECT unnest([argument_blob, observation_blob, contract]
            || regexp_extract_all(attributes::VARCHAR, '{DIGEST}')) AS name,
            run_id NOT IN (SELECT run_id FROM gone) AS stays
        FROM events)
    WHERE name IS NOT NULL GROUP BY name
"""


def prune_file(store: DuckdbStore, criteria: Criteria, *, dry_run: bool) -> Pruned:
    """Remove the runs that ``criteria`` mean from a DuckDB file.

    Raises:
        StoreBusy: another process holds it.
        StoreError: it cannot be read or written; nothing was removed.
    """
    database = store.database
    settled = store.settle_into(wait=not dry_run)
    try:
        if dry_run or not database.path.exists():
            live = store.live.read()
            recorded = store.recorded_runs(live)
            with database.opened() as base:
                plan = _planned(store, base, criteria, live, recorded)
        else:
            make_folder(store.folder.path)
            with locked(store.folder):
                plan = _prune(store, criteria)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"{database.path} could not be pruned: {reason}", hint="nothing was removed"
        ) from error
    if plan.recording and not plan.runs and not dry_run:
        require_settled(database.path, settled)
    return plan


def _prune(store: DuckdbStore, criteria: Criteria) -> Pruned:
    database, live = store.database, store.live.read()
    recorded = store.recorded_runs(live)
    with database.opened(write=True) as base:
        plan = _planned(store, base, criteria, live, recorded)
        if not plan.runs:
            return plan
        base.execute("CHECKPOINT")
        before = database.path.stat().st_size
        _replace(database, base)
        return replace(plan, bytes_freed=max(0, before - database.path.stat().st_size))


def _planned(
    store: DuckdbStore,
    base: duckdb.DuckDBPyConnection,
    criteria: Criteria,
    live: Live,
    recorded: Iterable[RunRow],
) -> Pruned:
    """Find out what goes; its names stand in ``gone`` and ``needless`` then.

    Of what is being recorded the catalogue may know nothing, so it comes as ``recorded``.
    """
    lines = rows_in(base.sql("SELECT * FROM runs").to_arrow_table())
    meant = criteria.meant((*recorded, *lines))
    runs = meant - live.events.keys()
    base.register("gone", names_table(runs).rename_columns(["run_id"]))
    base.execute(_NAMED)
    links = Links.beside(live)
    prompts = f"SELECT * FROM blobs WHERE media_type = '{MEDIA_TYPE}'"
    for batch in base.sql(prompts).to_arrow_reader(500):
        links.add(blobs_of(pa.Table.from_batches([batch])))
    base.register("needless", pa.table({"digest": links.needless(base)}))
    events = base.sql("SELECT count(*) FROM events SEMI JOIN gone USING (run_id)").fetchall()
    values = "SELECT count(*), coalesce(sum(size), 0) FROM blobs SEMI JOIN needless USING (digest)"
    count, size = base.sql(values).fetchall()[0]
    return Pruned(
        runs=tuple(sorted(runs)),
        events=events[0][0],
        values=count,
        bytes_freed=int(size),
        recording=tuple(sorted(meant - runs)),
        set_aside=lines_set_aside(store.folder, runs),
    )


def _replace(database: Database, base: duckdb.DuckDBPyConnection) -> None:
    """Write what stays to a new file, hand it to the disk, and give it the old one's name."""
    beside = database.beside.path
    for left_over in beside.glob(f".*{_NEW}*"):  # of one that was killed
        left_over.unlink(missing_ok=True)
    new = beside / f".{Conditions.system().new_uuid7()}{_NEW}"
    try:
        base.execute(f"ATTACH {quoted(str(new))} AS pruned (STORAGE_VERSION '{STORAGE}')")
        for name, rest in (
            ("events", "ANTI JOIN gone USING (run_id)"),
            ("blobs", "ANTI JOIN needless USING (digest)"),
            ("runs", "ANTI JOIN gone USING (run_id)"),
            (META, ""),
        ):
            base.execute(f"CREATE TABLE pruned.{name} AS SELECT * FROM {name} {rest}")
        base.execute("DETACH pruned")
        new.chmod(0o600)
        flush(new)
        os.replace(new, database.path)
        flush(database.path.absolute().parent)
    finally:
        new.unlink(missing_ok=True)
