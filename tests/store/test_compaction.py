"""Compaction joins, cleans, and changes nothing that a reader sees."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow.parquet as pq

from tests.store.made import DAY, NOON, files, run
from tracekit.store import Batch, Store, open_store


def _filled(store: Store) -> Store:
    for number in range(6):
        store.append(run(f"r-{number}", start=NOON + (number % 2) * DAY))
    return store


def test_many_batches_become_one(store: Store) -> None:
    _filled(store)
    before = store.runs(), [store.events(row.run_id) for row in store.runs()]

    done = store.compact()

    assert (done.batches_before, done.batches_after) == (6, 1)
    kinds = [name.partition("/")[0] for name in files(store.path) if name.endswith(".parquet")]
    assert sorted(kinds) == ["blobs"] * 2 + ["events"] * 2 + ["runs"]
    for reader in (store, open_store(store.path)):
        assert reader.runs() == before[0]
        assert [reader.events(row.run_id) for row in reader.runs()] == before[1]
        assert reader.verify().findings == ()


def test_compacting_twice_changes_nothing(store: Store) -> None:
    _filled(store).compact()
    before = files(store.path)

    store.compact()

    assert files(store.path) == before


def test_a_run_that_came_in_pieces_has_one_row(store: Store) -> None:
    whole = run("r", calls=4)
    for event in whole.events:
        store.append(Batch((event,), whole.blobs))
    store.compact()

    assert store.sql("SELECT run_id, events FROM runs").rows == (("r", 5),)
    assert store.events("r") == list(whole.events)
    assert store.verify().sound


def test_rows_are_sorted_by_run_and_place(store: Store) -> None:
    _filled(store).compact()
    for file in (store.path / "events").rglob("*.parquet"):
        table = pq.read_table(file, columns=["run_id", "seq"])
        keys = list(zip(table["run_id"].to_pylist(), table["seq"].to_pylist(), strict=True))
        assert keys == sorted(keys)


def test_left_overs_are_removed_and_nothing_else(store: Store) -> None:
    store.append(run("r"))
    day = next((store.path / "events").iterdir())
    strays = [
        day / ".x.parquet.tmp",
        day / "01999999-0000-7000-8000-000000000000.parquet",
        store.path / "runs" / ".y.parquet.tmp",
        store.path / "blobs" / "day=2020-01-01" / "z.parquet",
    ]
    (events,), (blobs,) = day.iterdir(), (store.path / "blobs").rglob("*.parquet")
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        copied = blobs if stray.name == "z.parquet" else events
        stray.write_bytes(b"PAR1" if stray.suffix == ".tmp" else copied.read_bytes())
    (day / "notes.txt").write_text("mine")
    assert store.verify().sound

    assert store.compact().removed_files == 4

    assert [stray for stray in strays if stray.exists()] == []
    assert not (store.path / "blobs" / "day=2020-01-01").exists()
    assert (day / "notes.txt").exists()
    assert len(store.events("r")) == 3


def test_a_reader_never_sees_a_gap_while_batches_are_joined(path: Path) -> None:
    store = _filled(open_store(path, create=True))
    stop = threading.Event()
    seen: list[object] = []

    def look() -> None:
        reader = open_store(path)
        while not stop.is_set():
            rows = reader.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows
            seen.append((rows, len(reader.events("r-3")), reader.problems))

    looking = threading.Thread(target=look)
    looking.start()
    for number in range(6, 18):
        store.append(run(f"r-{number % 6}", calls=2 + number))
        store.compact()
    stop.set()
    looking.join()

    assert {(row[0][0][0] == row[0][0][1], row[2]) for row in seen} == {(True, ())}  # type: ignore[index]  # tuples
