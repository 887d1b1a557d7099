"""SQL over either form of store reads everything and can do nothing else."""

from __future__ import annotations

import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.store.made import NOON, facts, files, run
from tracekit.errors import UsageError
from tracekit.journal import Journal
from tracekit.store import Store, open_store
from tracekit.store.places import journal_folder

pytestmark = pytest.mark.parametrize("form", ["folder", "file"])

# requirements REC-2: these names are columns of the view.
NAMES = (
    "run_id, trace_id, span_id, parent_span_id, timestamp, actor, event_type, model, prompt_hash,"
    " token_usage, tool_name, argument_digest, observation_digest, state_before, state_after,"
    " evidence_ids, policy_decision, latency, error"
)


@pytest.fixture
def filled(store: Store) -> Store:
    store.append(run("r", actor="sre"))
    return store


def test_the_events_have_the_promised_names(filled: Store) -> None:
    result = filled.sql(f"SELECT {NAMES} FROM events ORDER BY seq LIMIT 1 OFFSET 1")

    assert result.columns == tuple(NAMES.split(", "))
    row = dict(zip(result.columns, result.rows[0], strict=True))
    assert (row["tool_name"], row["latency"], row["evidence_ids"], row["error"]) == (
        "search", 1e-9, ["metric-17"], None,
    )  # fmt: skip
    assert f"{row['timestamp']:%Y-%m-%d %H:%M}" == "2026-11-30 12:00"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"status": "error", "error_type": "Timeout"}, "Timeout"),
        ({"status": "error", "error_message": "no answer"}, "no answer"),
        ({"status": "error"}, "error"),
        ({"status": "ok"}, None),
    ],
)
def test_an_error_is_told(store: Store, columns: dict[str, str], told: str | None) -> None:
    store.append(run("r", calls=0, **columns))
    assert store.sql("SELECT error FROM events").rows == ((told,),)


def test_payloads_give_text_and_bytes(filled: Store) -> None:
    result = filled.sql(
        "SELECT p.media_type, p.size, p.text, p.bytes FROM events e"
        " JOIN payloads p ON p.digest = e.observation_blob ORDER BY e.seq LIMIT 1"
    )
    assert result.rows == (("text/plain", 8, "answer 0", b"answer 0"),)


def test_runs_are_the_catalogue(filled: Store) -> None:
    assert filled.sql("SELECT run_id, agent, tool_calls, duration FROM runs").rows == (
        ("r", "sre", 2, 10.0),
    )


def test_json_columns_are_json(filled: Store) -> None:
    filled.append(run("s", calls=0, attributes='{"labels":{"utility":true}}'))
    query = "SELECT attributes->'labels'->>'utility' FROM events WHERE run_id = 's'"
    assert filled.sql(query).rows == (("true",),)


def test_what_is_being_recorded_is_seen(filled: Store) -> None:
    journal = Journal(journal_folder(filled.path))
    for fact, blobs in facts("live", journal.stamp()[0], ended=False):
        journal.write(fact, blobs)

    query = "SELECT run_id, count(*), count(ts_end_ns) FROM events GROUP BY ALL ORDER BY ALL"
    assert filled.sql(query).rows == (("live", 2, 0), ("r", 3, 3))
    assert filled.sql("SELECT status FROM runs ORDER BY run_id").rows == (("open",), ("ok",))
    assert filled.sql("SELECT count(*) FROM payloads").rows == ((5,),)


def test_an_empty_store_answers(store: Store) -> None:
    assert store.sql("SELECT count(*) FROM events").rows == ((0,),)
    assert store.sql("SELECT * FROM runs").rows == ()
    assert store.sql("SELECT * FROM payloads").rows == ()


@pytest.mark.parametrize(
    "query",
    [
        "DESCRIBE events",
        "SUMMARIZE runs",
        "EXPLAIN SELECT * FROM events",
        "EXPLAIN ANALYZE SELECT * FROM events",
        "WITH x AS (FROM events) SELECT count(*) FROM x",
        "FROM runs",
        "SELECT 1;",
        "-- a comment\nSELECT 1",
        "SELECT text AS query FROM payloads WHERE text LIKE '%query%'",
    ],
)
def test_what_only_reads_is_allowed(filled: Store, query: str) -> None:
    assert filled.sql(query).rows


@pytest.mark.parametrize(
    "query",
    [
        "FROM (SHOW TABLES)",
        "SELECT view_name FROM duckdb_views() WHERE NOT internal",
        "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'",
        "SELECT viewname FROM pg_views WHERE NOT starts_with(viewname, 'pg_')",
        "SELECT name FROM sqlite_master WHERE type = 'view'",
    ],
)
def test_a_list_of_the_views_holds_them_all(filled: Store, query: str) -> None:
    listed = {row[0] for row in filled.sql(query).rows}
    assert {"runs", "events", "payloads", "run_metrics", "metrics"} <= listed


@pytest.mark.parametrize(
    "query",
    [
        "COPY events TO '{store}/out.parquet'",
        "EXPLAIN ANALYZE COPY events TO '{store}/out.parquet'",
        "explain (format json) COPY events TO '{store}/out.parquet'",
        "COPY (PIVOT events ON status) TO '{store}/out.csv'",
        "EXPORT DATABASE '{store}/out'",
        "ATTACH '{store}/out.db'",
        "CREATE TABLE x AS SELECT 1",
        "CREATE TABLE x (y INT)",
        "DROP VIEW events",
        "INSERT INTO all_runs SELECT * FROM all_runs",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_external_access",
        "CALL pragma_version()",
        "SELECT 1; COPY events TO '{store}/out.parquet'",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
        "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
        "SELECT * FROM '{store}/../outside.parquet'",
        "SELECT * FROM '{outside}'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM query('COPY events TO ''{store}/out.parquet''')",
        "FROM enable_logging(storage = 'file', storage_path = '{store}/logs')",
        "FROM \"ENABLE_LOGGING\" (storage = 'stdout')",
        "SELECT * FROM query/* */('FROM enable_' || 'logging()')",
        "SELECT * FROM arrow_scan(1, 2, 3)",
        "SELECT * FROM filled",
        "",
        "SELEKT 1",
        "SELECT nothing FROM events",
    ],
)
def test_what_does_more_is_refused(
    filled: Store, query: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("the query reached for the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "outside.parquet")
    before = files(tmp_path)

    with pytest.raises(UsageError):
        filled.sql(query.format(store=filled.path, outside=tmp_path / "outside.parquet"))

    assert files(tmp_path) == before
    assert filled.sql("SELECT count(*) FROM events").rows == ((3,),)


def test_a_store_whose_name_holds_quotes_is_read(tmp_path: Path, form: str) -> None:
    name = 'it\'s "here" [1] *' + (".duckdb" if form == "file" else "")
    store = open_store(tmp_path / name, create=True)
    store.append(run("r", start=NOON))
    assert store.sql("SELECT count(*) FROM events").rows == ((3,),)
    assert len(store.events("r")) == 3
    assert store.verify().sound
