"""What follows from other columns stands once in the files, and whole for every reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.made import NOON, run
from tracekit.events import Event, event_id
from tracekit.store import Batch, Store, open_store
from tracekit.store.folding import SAME, SUM, folded, unfolded
from tracekit.store.schema import events_table

FOLDED = ("event_id", "ts_end_ns", "argument_blob")


def _recorded(run_id: str, *, calls: int = 3) -> Batch:
    """Make a run whose ids are made the way that all ids are made."""
    made = run(run_id, calls=calls)
    return Batch(tuple(_named(row) for row in made.events), made.blobs)


def _named(row: Event) -> Event:
    name = event_id(row.source_format, row.trace_id, row.span_id or "", row.event_type, row.seq)
    return replace(row, event_id=name)


def _kept(path: Path) -> list[dict[str, object]]:
    (file,) = (path / "events").rglob("*.parquet")
    rows: list[dict[str, object]] = pq.read_table(file, partitioning=None).to_pylist()
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def test_a_file_says_nothing_twice_and_every_reader_gets_it_whole(folder: Store) -> None:
    batch = _recorded("r")
    folder.append(batch)

    calls = [row for row in _kept(folder.path) if row["event_type"] == "tool_call"]
    assert [tuple(row[name] for name in FOLDED) for row in calls] == [(SAME, SUM, SAME)] * 3
    assert folder.events("r") == list(batch.events)
    rows = folder.sql("SELECT event_id, ts_end_ns, argument_blob FROM events ORDER BY seq").rows
    assert rows == tuple((e.event_id, e.ts_end_ns, e.argument_blob) for e in batch.events)
    assert folder.append(batch) == 0
    assert folder.verify().findings == ()


def test_what_does_not_follow_stands_as_it_is(folder: Store) -> None:
    made = _recorded("r", calls=2)
    root, first, second = made.events
    odd = [
        replace(root, event_id="f" * 32),
        replace(first, ts_end_ns=None),
        replace(second, latency_ns=7, argument_blob=root.argument_blob),
    ]
    folder.append(Batch(tuple(odd)))

    assert [tuple(row[name] for name in FOLDED) for row in _kept(folder.path)] == [
        ("f" * 32, NOON + 10_000_000_000, None),
        (SAME, None, SAME),
        (SAME, second.ts_end_ns, None),
    ]
    assert folder.events("r") == odd


def test_files_that_hold_all_values_are_read_the_same_and_folded_by_compaction(
    folder: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _recorded("old"), _recorded("r")
    with monkeypatch.context() as before:
        before.setattr("tracekit.store.schema.folded", lambda table: table)
        folder.append(old)
    assert _kept(folder.path)[1]["event_id"] == old.events[1].event_id
    folder.append(new)
    seen = folder.events("old"), folder.sql("SELECT * FROM events ORDER BY run_id, seq").rows
    assert seen[0] == list(old.events)

    folder.compact()

    assert {row["event_id"] for row in _kept(folder.path)} == {SAME}
    again = folder.events("old"), folder.sql("SELECT * FROM events ORDER BY run_id, seq").rows
    assert again == seen


_NUMBERS = st.one_of(st.none(), st.integers(-(2**62), 2**62))
_TEXTS = st.one_of(st.none(), st.sampled_from(["a", "b"]), st.text(max_size=3))


@given(st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS, _TEXTS, _TEXTS, st.booleans()), max_size=6))
def test_unfolding_is_the_inverse_of_folding(
    columns: list[tuple[int | None, int | None, int | None, str | None, str | None, bool]],
) -> None:
    plain = run("r", calls=0).events[0]
    rows = [
        replace(
            plain,
            seq=place,
            ts_start_ns=start,
            latency_ns=took,
            ts_end_ns=end if odd or start is None or took is None else start + took,
            span_id=span,
            argument_digest=value,
            argument_blob=value if odd else None,
        )
        for place, (start, took, end, span, value, odd) in enumerate(columns)
    ]
    table = events_table([_named(row) if row.span_id and row.seq % 2 else row for row in rows])

    once = folded(table)
    assert unfolded(once).equals(table)
    assert folded(once).equals(once)
