"""SQL over the store: views, and walls that keep a query from doing anything but reading.

Three walls: one statement that must be a SELECT; a database whose file access ends at the store's
folder and whose network and extensions are off; settings that are locked before the query runs.
What is kept is read by the database itself, so that statistics prune; what only journals hold, and
what could be saved of damaged files, stands beside it as tables in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from tracekit.canonical import json_text
from tracekit.chains import MEDIA_TYPE, Resolver, load_with_bases
from tracekit.errors import UsageError
from tracekit.events import Blob, Event
from tracekit.leftovers import HeldFolder
from tracekit.store.blobs import find_blobs
from tracekit.store.folding import UNFOLDED_SQL
from tracekit.store.metric_views import METRICS_VIEW, RUN_METRICS_VIEW
from tracekit.store.reading import Reader, Snapshot
from tracekit.store.schema import BLOBS, EVENTS, SPARED, blobs_table, events_table
from tracekit.store.types import SqlResult

_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?(?:\([^()]*\)\s*)?", re.IGNORECASE)
_MEDDLING = re.compile(
    r"\b(?:(?:enable|disable)_(?:logging|profiling)|write_log|truncate_duckdb_logs|force_checkpoint"
    r"|arrow_scan\w*|pandas_scan|python_\w+|\w+_external_resource\w*|\w+_grammar_extension"
    r"|json_execute_serialized_sql"
    r"|(?:query|query_table|checkpoint)\"?(?:\s|/\*.*?\*/|--[^\n]*\n)*\()",
    re.IGNORECASE | re.DOTALL,
)
"""Functions that a SELECT may call and that do more than read (logs to files, raw pointers), or
that run a text of which nobody can say what it calls. Not every version of the database locks them.
"""
_THEIR_FAULT = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
_EVENTS_VIEW = f"""
    CREATE VIEW events AS SELECT * REPLACE ({UNFOLDED_SQL}),
        make_timestamp_ns(ts_start_ns) AS "timestamp",
        latency_ns / 1e9 AS latency,
        coalesce(usage_input, 0) + coalesce(usage_output, 0)
            + CASE WHEN usage_input IS NULL AND usage_output IS NULL THEN NULL ELSE 0 END
            AS token_usage,
        CASE WHEN status = 'error' OR observation_is_error
            THEN coalesce(error_message, error_type, 'error') END AS error
    FROM all_events
"""
_RUNS_VIEW = """
    CREATE VIEW runs AS SELECT *,
        make_timestamp_ns(ts_start_ns) AS "timestamp",
        (ts_end_ns - ts_start_ns) / 1e9 AS duration,
        usage_input + usage_output AS token_usage
    FROM all_runs
"""
_PAYLOADS_VIEW = f"""
    CREATE VIEW payloads AS SELECT digest, media_type, size, bytes,
        CASE WHEN media_type = '{MEDIA_TYPE}' THEN nullif(whole_prompt(digest), '')
            WHEN media_type LIKE 'text/%' OR media_type LIKE '%json' THEN TRY(decode(bytes)) END
            AS text
    FROM all_blobs
"""
_VIEWS = (_EVENTS_VIEW, _RUNS_VIEW, _PAYLOADS_VIEW)
_METRIC_VIEWS = (RUN_METRICS_VIEW, METRICS_VIEW)
_SEES_METRICS = re.compile(
    r"metrics|show|desc|summari|schema|duckdb_|pg_|sqlite_|pragma_", re.IGNORECASE
)
"""A query that names these views, or may list all views. For another one they are not made: the
database takes as long for them as for all the rest."""


class Views(Protocol):
    """Where a query finds its rows."""

    def make(self, base: duckdb.DuckDBPyConnection) -> None:
        """Make the views ``all_events``, ``all_runs`` and ``all_blobs``."""

    def blobs(self, base: duckdb.DuckDBPyConnection, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find blobs while a query runs in ``base``."""

    def look_again(self, error: duckdb.Error) -> bool:
        """Look for damage after a failure; True where ``make`` now leaves out what it hit.

        Raises:
            StoreError: what is damaged cannot be left out.
        """

    @property
    def directory(self) -> Path | None:
        """The one folder whose files the views read while the query runs."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What the database cannot read from files itself."""

    runs: pa.Table
    """The catalogue: all of it, or that of the runs in ``events`` where the rest is kept so."""
    events: Sequence[Event]
    blobs: Mapping[str, Blob]


def answer(text: str, views: Views) -> SqlResult:
    """Answer one SELECT.

    Raises:
        UsageError: it is not one SELECT, or the database refuses it.
    """
    if text != (text := text.encode(errors="replace").decode()):
        raise UsageError("the query is no UTF-8 text", hint=f"it reads: {text}")
    _require_select(text)
    try:
        return _run(text, views)
    except _THEIR_FAULT as error:
        raise _refusal(error) from error
    except duckdb.Error as error:
        if not views.look_again(error):
            raise _refusal(error) from error
        try:
            return _run(text, views)
        except duckdb.Error as again:
            raise _refusal(again) from again


def _run(text: str, views: Views) -> SqlResult:
    with HeldFolder("sql") as scratch, duckdb.connect() as base:
        base.execute(f"SET temp_directory = {quoted(str(scratch))}")
        base.execute(f"SET disabled_optimizers = {quoted(SPARED)}")
        views.make(base)
        _give_prompts(base, views)
        for view in (*_VIEWS, *(_METRIC_VIEWS if _SEES_METRICS.search(text) else ())):
            base.execute(view)
        allowed = "" if views.directory is None else quoted(str(views.directory.resolve()))
        for setting in (
            f"allowed_directories = [{allowed}]",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "python_enable_replacements = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            base.execute(f"SET {setting}")
        cursor = base.execute(text)
        columns = tuple(column[0] for column in cursor.description or ())
        return SqlResult(columns, tuple(tuple(row) for row in cursor.fetchall()))


def _give_prompts(base: duckdb.DuckDBPyConnection, views: Views) -> None:
    """Let a query put the prompts that it selects together, and no others."""
    blobs: dict[str, Blob] = {}
    resolver = Resolver(blobs.get)

    def find(digests: Iterable[str]) -> Mapping[str, Blob]:
        wanted = set(digests)
        found = {name: blobs[name] for name in wanted & blobs.keys()}
        return {**found, **views.blobs(base, wanted - found.keys())}

    def whole_prompt(digest: str) -> str:
        blobs.update(load_with_bases([digest], find))
        found = resolver.value(digest)
        return json_text(found.value) if found is not None else ""

    base.create_function("whole_prompt", whole_prompt)


@dataclass(frozen=True, slots=True)
class FileViews:
    """Views over the Parquet files of a folder."""

    reader: Reader
    snapshot: Snapshot
    fresh: Fresh

    @property
    def directory(self) -> Path:
        """The store's folder."""
        return self.reader.folder.path

    def make(self, base: duckdb.DuckDBPyConnection) -> None:
        """Make the views."""
        base.register("all_runs", self.fresh.runs)
        events = events_table(self.fresh.events)
        _union(base, "all_events", self.reader, self.snapshot, "events", [events])
        known = blobs_table(self.fresh.blobs.values())
        _union(base, "all_blobs", self.reader, self.snapshot, "blobs", [known], once="digest")

    def blobs(self, base: duckdb.DuckDBPyConnection, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find blobs while a query runs."""
        return find_blobs(self.reader, self.snapshot, set(digests), live=self.fresh.blobs)

    def look_again(self, error: duckdb.Error) -> bool:
        """Read every page of every file, so that the damaged ones are known."""
        before = len(self.reader.found)
        for kind in ("events", "blobs"):
            _scan(self.reader, self.snapshot, kind)
        return len(self.reader.found) > before


def _union(
    base: duckdb.DuckDBPyConnection,
    name: str,
    reader: Reader,
    snapshot: Snapshot,
    kind: str,
    extra: list[pa.Table],
    *,
    once: str | None = None,
) -> None:
    """Make a view over all files of one kind and the tables in memory beside them.

    Where there is nothing beside them and all have the same columns, the database is spared the
    union of tables and of columns, which costs more than many a query.
    """
    sound: list[str] = []
    root = reader.folder.path.resolve()
    for batch in snapshot.batches:
        for path in batch.files(kind):
            if reader.sound(path, rows=batch.manifest.files[path]):
                sound.append(path)
            else:
                extra += reader.tables(path, rows=batch.manifest.files[path])
    schema = EVENTS if kind == "events" else BLOBS
    beside = pa.concat_tables([schema.empty_table(), *extra], promote_options="default")
    base.register(f"{name}_beside", beside)
    parts = [f"SELECT * FROM {name}_beside"]
    if sound:
        alike = reader.alike(sound, schema)
        files = ", ".join(quoted(str(root / path)) for path in sound)
        options = f"union_by_name = {not alike}, hive_partitioning = false"
        rest = f" WHERE {once} NOT IN (SELECT {once} FROM {name}_beside)" if once else ""
        if alike and not beside.num_rows:
            parts, rest = [], ""
        parts.append(f"SELECT * FROM read_parquet([{files}], {options}){rest}")
    base.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")


def _scan(reader: Reader, snapshot: Snapshot, kind: str) -> None:
    for batch in snapshot.batches:
        for path in batch.files(kind):
            for _ in reader.tables(path, rows=batch.manifest.files[path]):
                pass


def _require_select(text: str) -> None:
    inner = _EXPLAIN.sub("", text, count=1) if _EXPLAIN.match(text) else text
    try:
        statements = duckdb.extract_statements(inner)
    except duckdb.Error as error:
        raise _refusal(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(
            "a query is one SELECT (FROM, WITH, DESCRIBE, SUMMARIZE and EXPLAIN are fine);"
            " the store cannot be changed by SQL",
            hint="a PIVOT needs its columns named: PIVOT events ON status IN ('ok', 'error')",
        )
    if meddling := _MEDDLING.search(text):
        raise UsageError(f"a query may only read, and {meddling[0].rstrip(' (')!r} does more")


def _refusal(error: duckdb.Error) -> UsageError:
    return UsageError(
        f"the query cannot be answered: {error}",
        hint="see the columns with: DESCRIBE events (views: runs, events, payloads, run_metrics,"
        " metrics)",
    )


def quoted(text: str) -> str:
    """Write ``text`` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
