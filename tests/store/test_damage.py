"""Damage is counted and named, and everything else is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.made import DAY, NOON, run
from tracekit.store import Store, open_store


@pytest.fixture
def damaged(store: Store) -> Store:
    """A store of two batches; the tests damage the first one."""
    store.append(run("first"))
    store.append(run("second", start=NOON + DAY))
    return store


def _first(store: Store, kind: str) -> Path:
    place = "runs" if kind == "runs" else f"{kind}/day=2026-11-30"
    return sorted((store.path / place).glob("*.parquet"))[0]


def _reopened(store: Store) -> Store:
    return open_store(store.path)


@pytest.mark.parametrize("size", [0, 8, -20])
@pytest.mark.parametrize("kind", ["events", "blobs", "runs"])
def test_a_truncated_file_costs_only_what_it_held(damaged: Store, kind: str, size: int) -> None:
    file = _first(damaged, kind)
    file.write_bytes(file.read_bytes()[:size])
    store = _reopened(damaged)

    assert [row.run_id for row in store.runs()] == ["second", "first"]
    assert store.events("second") == list(run("second", start=NOON + DAY).events)
    assert len(store.sql("SELECT * FROM events WHERE run_id = 'second'").rows) == 3
    # The values of both runs are partly the same, and kept with the first one.
    assert len(store.sql("SELECT * FROM payloads").rows) == (2 if kind == "blobs" else 6)
    report = store.verify()
    assert not report.sound
    assert file.relative_to(store.path).as_posix() in report.findings[0]
    if kind == "events":
        assert [str(problem.lost) for problem in store.problems] == ["3 rows"]
    if kind == "runs":
        assert store.events("first") == list(run("first").events)


def test_a_flipped_byte_is_found(damaged: Store) -> None:
    file = _first(damaged, "events")
    data = bytearray(file.read_bytes())
    data[100] ^= 0xFF
    file.write_bytes(data)
    store = _reopened(damaged)

    assert len(store.sql("SELECT * FROM events WHERE run_id = 'second'").rows) == 3
    assert not store.verify().sound


def test_a_missing_file_is_named(damaged: Store) -> None:
    file = _first(damaged, "events")
    file.unlink()
    store = _reopened(damaged)

    assert store.sql("SELECT count(*) FROM events").rows == ((3,),)
    (problem,) = store.problems
    assert (problem.what, problem.lost) == ("it is missing", "3 rows")


def test_compaction_leaves_a_damaged_batch_as_it_is(damaged: Store) -> None:
    damaged.append(run("third"))
    file = _first(damaged, "events")
    file.write_bytes(file.read_bytes()[:8])
    store = _reopened(damaged)

    store.compact()

    assert file.exists()
    assert _reopened(store).sql("SELECT DISTINCT run_id FROM events ORDER BY ALL").rows == (
        ("second",), ("third",),
    )  # fmt: skip
    assert not _reopened(store).verify().sound


def test_an_altered_value_is_found(store: Store) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    store.append(run("r", calls=1))
    (file,) = (store.path / "blobs").rglob("*.parquet")
    table = pq.read_table(file)
    place = table.column_names.index("bytes")
    altered = [data.replace(b"answer", b"ANSWER") for data in table["bytes"].to_pylist()]
    pq.write_table(table.set_column(place, "bytes", pa.array(altered, pa.binary())), file)

    findings = open_store(store.path).verify().findings

    assert any("its bytes have the digest" in finding for finding in findings)
    assert any("observation_digest is" in finding for finding in findings)


def test_a_value_that_is_gone_is_found(store: Store) -> None:
    batch = run("r", calls=1)
    store.append(type(batch)(batch.events, batch.blobs[:1]))

    (finding,) = store.verify().findings

    assert "the observation's value" in finding
    assert "is missing" in finding
