"""Journals and the rest are one store, of either form; journals without a process are settled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.made import NOON, facts, run
from tracekit.journal import Journal
from tracekit.store import Settled, Store, open_store
from tracekit.store.places import journal_folder

pytestmark = pytest.mark.parametrize("form", ["folder", "file"])


def _damaged(store: Store, name: str) -> Path:
    folder = store.path if store.path.is_dir() else journal_folder(store.path)
    return folder / "damaged" / name


def _waiting(store: Store) -> list[Path]:
    return list(journal_folder(store.path).glob("*.jsonl"))


def _record(path: Path, run_id: str, *, ended: bool = True, close: bool = True) -> Journal:
    journal = Journal(journal_folder(path))
    for fact, blobs in facts(run_id, journal.stamp()[0], ended=ended):
        journal.write(fact, blobs)
    if close:
        journal.close()
    return journal


def test_a_run_under_way_is_shown_as_open(store: Store) -> None:
    journal = _record(store.path, "live", ended=False, close=False)

    assert [(row.run_id, row.status) for row in store.runs()] == [("live", "open")]
    assert [(row.event_type, row.ts_end_ns) for row in store.events("live")] == [
        ("run", None), ("tool_call", None),
    ]  # fmt: skip
    assert store.settle() == Settled(live=1)
    assert journal.path.exists()


def test_what_is_written_is_seen_at_once(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    counts = []
    for fact, blobs in facts("live", journal.stamp()[0]):
        journal.write(fact, blobs)
        rows = store.events("live")
        counts.append((len(rows), sum(row.ts_end_ns is not None for row in rows)))
    assert counts == [(1, 0), (2, 0), (2, 1), (2, 2)]


def test_live_and_settled_runs_are_listed_together_newest_first(store: Store) -> None:
    store.append(run("old", start=NOON - 10))
    store.append(run("new", start=NOON + 10))
    _record(store.path, "live", close=False)

    assert [row.run_id for row in store.runs()] == ["new", "live", "old"]
    assert store.resolve("li") == "live"
    assert store.known_runs(["live", "old", "x"]) == {"live", "old"}


def test_settling_changes_nothing_that_a_reader_sees(store: Store) -> None:
    _record(store.path, "live")
    before = store.events("live"), store.runs(), store.sql("SELECT * FROM events").rows

    assert store.settle() == Settled(journals=1, events=2)

    assert (store.events("live"), store.runs()) == before[:2]
    assert sorted(map(repr, store.sql("SELECT * FROM events").rows)) == sorted(map(repr, before[2]))
    assert _waiting(store) == []
    assert store.verify().findings == ()


def test_a_row_in_both_counts_once(store: Store) -> None:
    journal = _record(store.path, "live")
    copy = journal.folder / "copy.jsonl"
    (original,) = journal.folder.glob("*.jsonl")
    text = original.read_bytes()
    store.settle()
    copy.write_bytes(text)

    assert len(store.events("live")) == 2
    assert store.sql("SELECT count(*) FROM events").rows == ((2,),)
    assert store.sql("SELECT count(*), count(DISTINCT digest) FROM payloads").rows == ((1, 1),)
    assert [row.events for row in store.runs()] == [2]
    assert store.settle() == Settled(journals=1, events=0)
    assert store.verify().findings == ()


def test_a_run_of_two_processes_is_one(store: Store) -> None:
    first = Journal(journal_folder(store.path))
    second = Journal(journal_folder(store.path))
    written = facts("live", first.stamp()[0])
    for fact, blobs in (written[0], written[3]):
        first.write(fact, blobs)
    for fact, blobs in written[1:3]:
        second.write(fact.model_copy(update={"writer": second.stamp()[0]}), blobs)
    first.close()
    assert store.settle().events == 1

    assert [row.event_type for row in store.events("live")] == ["run", "tool_call"]
    second.close()
    assert store.settle().events == 1

    assert [row.event_type for row in store.events("live")] == ["run", "tool_call"]
    assert [(row.events, row.tool_calls) for row in store.runs()] == [(2, 1)]
    assert store.verify().findings == ()


def test_a_journal_torn_at_its_end_is_read_and_put_aside(store: Store) -> None:
    journal = _record(store.path, "live")
    (file,) = journal.folder.glob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])

    assert [row.event_type for row in store.events("live")] == ["run", "tool_call"]
    (problem,) = store.problems
    assert (problem.path, problem.lost) == (f"journal/{file.name}", "1 line")

    assert store.settle().journals == 1
    assert [(row.run_id, row.status) for row in open_store(store.path).runs()] == [("live", "open")]
    assert _damaged(store, file.name).read_bytes() == whole[:-20]


def test_a_journal_of_a_newer_version_is_left_alone(store: Store) -> None:
    journal = _record(store.path, "live")
    (file,) = journal.folder.glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"schema_version":1', b'"schema_version":2', 1))

    assert store.settle().journals == 0
    assert file.exists()
    assert "newer version" in str(store.problems[0])


def test_a_journal_that_is_just_being_made_is_left_alone(store: Store) -> None:
    journal_folder(store.path).mkdir(exist_ok=True)
    young = journal_folder(store.path) / "host-1-1.jsonl"
    young.touch()

    assert store.settle() == Settled()
    assert young.exists()


SETTLE = """
import sys
from tracekit.store import open_store
store = open_store(sys.argv[1])
sys.stdin.readline()
print(store.settle().events)
"""


def test_two_processes_that_settle_at_once_keep_each_row_once(store: Store) -> None:
    for number in range(30):
        _record(store.path, f"run-{number}")
    settlers = [
        subprocess.Popen(
            [sys.executable, "-c", SETTLE, str(store.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for settler in settlers:
        assert settler.stdin is not None
        settler.stdin.write("go\n")
        settler.stdin.flush()
    added = [int(settler.communicate()[0]) for settler in settlers]

    assert sum(added) == 60
    assert store.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows == ((60, 60),)
    assert store.verify().findings == ()
    assert _waiting(store) == []


def test_a_store_that_cannot_be_written_still_reads(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _record(store.path, "live")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("tracekit.store.settling.locked", refused)

    assert store.settle() == Settled(skipped="Read-only file system")
    assert [row.run_id for row in store.runs()] == ["live"]
