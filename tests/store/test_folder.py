"""What is particular to the folder: its days, and files that a later version wrote."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tests.store.made import run
from tracekit.store import Store, open_store


def test_a_run_without_times_stands_under_no_day(store: Store) -> None:
    store.append(run("r", calls=0, ts_start_ns=None, ts_end_ns=None))

    assert [path.name for path in (store.path / "events").iterdir()] == ["day=undated"]


def test_a_column_of_a_later_version_is_passed_over(store: Store) -> None:
    store.append(run("r"))
    (file,) = (store.path / "events").rglob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.append_column("mood", pa.array(["fine"] * table.num_rows)), file)
    store.append(run("s"))

    later = open_store(store.path)
    assert later.events("r") == list(run("r").events)
    assert later.sql("SELECT DISTINCT mood FROM events ORDER BY ALL").rows == (("fine",), (None,))


def test_a_digest_stands_once_in_a_row_and_is_read_whole(store: Store) -> None:
    whole = run("r", calls=3)
    store.append(whole)
    (file,) = (store.path / "events").rglob("*.parquet")
    rows = pq.read_table(file, partitioning=None).to_pylist()

    # Values that were recorded are kept as their canonical form; texts that were imported are not.
    assert {row["argument_blob"] for row in rows} == {None, "="}
    assert all(str(row["observation_blob"]).startswith("sha256:") for row in rows[1:])
    assert store.events("r") == list(whole.events)
    asked = store.sql("SELECT argument_blob, observation_blob FROM events ORDER BY seq").rows
    assert asked == tuple((row.argument_blob, row.observation_blob) for row in whole.events)
    store.append(run("s"))
    store.compact()
    assert store.events("r") == list(whole.events)
    assert store.verify().findings == ()
