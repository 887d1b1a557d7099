"""What a look-up reads: the batches that hold the run, and of their files what may hold it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.store.made import DAY, NOON, facts, run, value
from tracekit.journal import Journal
from tracekit.store import Batch, RunQuery, Store, open_store
from tracekit.store.folder import open_folder
from tracekit.store.places import journal_folder
from tracekit.store.reading import Reader


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def _groups_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read: list[int] = []
    plain = pq.ParquetFile.read_row_group

    def noted(self: pq.ParquetFile, number: int, *args: Any, **named: Any) -> Any:
        read.append(number)
        return plain(self, number, *args, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    return read


def test_one_run_is_read_from_one_row_group(folder: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.store.schema.ROW_GROUP_ROWS", 3)
    for number in range(30):
        folder.append(run(f"r-{number:02}", start=NOON + number))
    folder.compact()
    (file,) = (folder.path / "events").rglob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 30
    store = open_store(folder.path)
    assert store.resolve("r-17") == "r-17"
    read = _groups_read(monkeypatch)

    assert [row.run_id for row in store.events("r-17")] == ["r-17"] * 3
    assert read == [17]


def test_the_batches_of_a_run_are_found_among_many(folder: Store) -> None:
    whole = run("wide", calls=3)
    for number, event in enumerate(whole.events):
        folder.append(Batch((event,)))
        folder.append(run(f"r-{number}"))
        folder.append(Batch((), (value({"alone": number})[0],)))
    reader = Reader(open_folder(folder.path, create=False))
    snapshot = reader.snapshot()

    names = [batch.name for batch in snapshot.batches]
    assert [names.index(batch.name) for batch in snapshot.batches_of("wide")] == [0, 3, 6, 9]
    found = snapshot.batches_of("r-1", "nobody", "r-3")
    assert [names.index(batch.name) for batch in found] == [4, 10]
    assert snapshot.batches_of("nobody") == []
    assert folder.events("wide") == list(whole.events)


def test_an_empty_store_has_no_batches(folder: Store) -> None:
    assert Reader(open_folder(folder.path, create=False)).snapshot().batches_of("r") == []


@pytest.mark.parametrize("many", [1, 9])
def test_conditions_mean_the_same_runs_whether_few_or_many_meet_them(
    folder: Store, many: int
) -> None:
    for number in range(10):
        other = number < many
        folder.append(
            run(
                f"r-{number}",
                start=NOON + number * DAY,
                status="error" if other else "ok",
                task_id="T-1" if other else None,
            )
        )
    store = open_store(folder.path)
    noon = datetime.fromtimestamp(NOON / 1e9, UTC)
    chosen = [f"r-{number}" for number in reversed(range(many))]

    def ids(query: RunQuery) -> list[str]:
        return [row.run_id for row in store.runs(query)]

    assert ids(RunQuery(failed=True)) == ids(RunQuery(status="error")) == chosen
    assert ids(RunQuery(task="T-1", limit=1)) == chosen[:1]
    late = [f"r-{number}" for number in reversed(range(many, 10))]
    assert ids(RunQuery(since=noon + timedelta(days=many))) == late


def test_runs_under_way_are_looked_up_together(
    folder: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        folder.append(run(f"stored-{number}", start=NOON + number))
    journal = Journal(journal_folder(folder.path))
    for number in range(20):
        for fact, blobs in facts(f"open-{number}", journal.writer, ended=False):
            journal.write(fact, blobs)
    store = open_store(folder.path)
    asked: list[int] = []
    plain = Reader.events

    def counted(self: Reader, batches: Any, run_ids: Any) -> Any:
        asked.append(len(run_ids))
        return plain(self, batches, run_ids)

    monkeypatch.setattr(Reader, "events", counted)
    assert len(store.runs()) == 25
    assert store.sql("SELECT count(*) FROM runs").rows == ((25,),)
    assert asked == [20, 20, 20]  # the table of runs, and for SQL the rows beside it
    journal.close()
