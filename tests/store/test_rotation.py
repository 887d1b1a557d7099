"""A process that fills one journal after the other: what is done is settled while it goes on."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tracekit.store.settling as settling
from tests.store.made import NOON, facts
from tracekit.events import EvidenceNoted, PolicyNoted
from tracekit.journal import Journal, owner_alive
from tracekit.journal_reading import read_journal
from tracekit.store import Settled, Store, open_store
from tracekit.store.folder import Folder
from tracekit.store.places import journal_folder

pytestmark = pytest.mark.parametrize("form", ["folder", "file"])
ROOT = Path(__file__).parents[2]


def _files(store: Store) -> list[Path]:
    return sorted(journal_folder(store.path).glob("*.jsonl"))


def _journal(store: Store, *, max_bytes: int = 1, max_age_ns: int = 10**18) -> Journal:
    """A journal whose every file holds one fact more than the one that fills it."""
    return Journal(journal_folder(store.path), max_bytes=max_bytes, max_age_ns=max_age_ns)


def _shown(store: Store) -> list[tuple[str, str | None, str | None, bool]]:
    return [
        (row.event_type, row.tool_name, row.status, row.ts_end_ns is not None)
        for row in store.events("live")
    ]


WHOLE = [("run", None, "ok", True), ("tool_call", "search", "ok", True)]


def test_a_full_file_is_let_go_of_and_the_next_one_is_held(store: Store) -> None:
    journal = _journal(store)
    for fact, blobs in facts("live", journal.writer):
        journal.write(fact, blobs)
    files = _files(store)
    assert [owner_alive(path) for path in files] == [False, False, True]
    assert files[-1] == journal.path
    assert [len(read_journal(path).facts) for path in files] == [2, 2, 0]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert _shown(store) == WHOLE


def test_an_old_file_is_followed_by_another_one(store: Store) -> None:
    journal = _journal(store, max_bytes=10**9, max_age_ns=5)
    for fact, blobs in facts("live", journal.writer):
        journal.write(fact, blobs)
    assert [len(read_journal(path).facts) for path in _files(store)] == [3, 1]


def test_an_operation_that_spans_files_is_one_row_at_every_moment(store: Store) -> None:
    journal = _journal(store)
    written = facts("live", journal.writer)
    counts = []
    for fact, blobs in written:
        journal.write(fact, blobs)
        store.settle()
        ids = [row.event_id for row in store.events("live")]
        assert len(ids) == len(set(ids))
        (counted,) = store.sql(
            "SELECT count(*), count(DISTINCT event_id), count(ts_end_ns) FROM events"
        ).rows
        counts.append(counted)
        (run,) = store.runs()
        assert run.events == len(ids)
    assert counts == [(1, 1, 0), (2, 2, 0), (2, 2, 1), (2, 2, 2)]
    journal.close()
    store.settle()
    assert _files(store) == []
    assert _shown(store) == WHOLE
    assert store.verify().findings == ()
    assert open_store(store.path).events("live") == store.events("live")


def test_what_is_done_is_settled_and_what_is_under_way_is_held_back(store: Store) -> None:
    journal = _journal(store)
    for fact, blobs in facts("live", journal.writer)[:3]:
        journal.write(fact, blobs)
    before = store.events("live"), store.runs()
    assert store.settle() == Settled(live=1, events=0)
    first = _files(store)[0]
    assert [fact.fact for fact in read_journal(first).facts] == ["run.begun", "tool_call.begun"]

    journal.write(*facts("live", journal.writer)[3])
    other = facts("other", journal.writer)
    for fact, blobs in [
        (fact.model_copy(update={"seq": fact.seq + 4}), blobs) for fact, blobs in other[:2]
    ]:
        journal.write(fact, blobs)
    assert store.settle() == Settled(journals=2, live=1, events=2)
    assert _shown(store) == WHOLE
    assert before[0][0].event_id == store.events("live")[0].event_id
    left = _files(store)[0]
    assert [fact.fact for fact in read_journal(left).facts] == ["run.begun", "tool_call.begun"]
    assert [row.status for row in store.runs()] == ["open", "ok"] or [
        row.status for row in store.runs()
    ] == ["ok", "open"]


def test_what_was_noted_under_an_operation_is_folded_in_although_it_stands_in_another_file(
    store: Store,
) -> None:
    journal = _journal(store)
    written = facts("live", journal.writer)
    same = {"writer": journal.writer, "run_id": "live", "trace_id": written[0][0].trace_id}
    noted = [
        PolicyNoted(
            **same, seq=10, span_id="f" * 16, parent_span_id="e" * 16, timestamp_ns=NOON + 2,
            decision="allow", policy_id="P",
        ),
        EvidenceNoted(
            **same, seq=11, span_id="a" * 16, parent_span_id="e" * 16, timestamp_ns=NOON + 3,
            evidence_ids=("doc",),
        ),
    ]  # fmt: skip
    for fact, blobs in [*written[:2], (noted[0], []), (noted[1], []), *written[2:]]:
        journal.write(fact, blobs)
        store.settle()
    journal.close()
    store.settle()
    rows = store.events("live")
    assert [row.event_type for row in rows] == ["run", "tool_call", "policy"]
    assert (rows[1].policy_decision, rows[1].evidence_ids) == ("allow", ("doc",))
    (counted,) = store.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows
    assert counted == (3, 3)


def test_what_is_under_way_when_its_process_is_gone_is_settled_as_such(store: Store) -> None:
    journal = _journal(store)
    for fact, blobs in facts("live", journal.writer)[:3]:
        journal.write(fact, blobs)
    store.settle()
    journal.close()
    assert store.settle().events == 2
    assert _files(store) == []
    assert [(row.event_type, row.ts_end_ns is None) for row in store.events("live")] == [
        ("run", True), ("tool_call", False),
    ]  # fmt: skip


def test_where_no_file_can_be_made_the_full_one_is_gone_on_with(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _journal(store)
    written = facts("live", journal.writer)
    journal.write(*written[0])

    def full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tracekit.journal.JournalFile", full)
        for fact, blobs in written[1:3]:
            journal.write(fact, blobs)
    journal.write(*written[3])
    files = _files(store)
    assert [len(read_journal(path).facts) for path in files] == [4, 0]
    assert _shown(store) == WHOLE


def test_a_file_that_was_begun_and_never_finished_is_passed_over(store: Store) -> None:
    journal = _journal(store)
    written = facts("live", journal.writer)
    journal.write(*written[0])
    (journal.folder / f"{journal.writer}.p000002.jsonl").touch()
    for fact, blobs in written[1:]:
        journal.write(fact, blobs)
    assert [len(read_journal(path).facts) for path in _files(store)] == [2, 0, 2, 0]
    assert _shown(store) == WHOLE


def test_a_value_that_two_files_need_stands_in_both(store: Store) -> None:
    journal = _journal(store)
    begun, blobs = facts("live", journal.writer)[1]
    for seq in range(5):
        journal.write(begun.model_copy(update={"seq": seq, "span_id": f"{seq:016x}"}), blobs)
    for path in _files(store):
        content = read_journal(path)
        assert bool(content.blobs) == bool(content.facts)


def test_a_kill_between_two_files_of_one_operation_doubles_no_row(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _journal(store)
    for fact, blobs in facts("live", journal.writer):
        journal.write(fact, blobs)
    journal.close()
    original = settling._retire

    class Killed(BaseException):
        pass

    def retire(folder: Folder, path: Path, *rest: Any, **named: Any) -> bool:
        if path.name.endswith(".p000002.jsonl"):  # it holds the end of what the first one began
            raise Killed
        return original(folder, path, *rest, **named)

    monkeypatch.setattr(settling, "_retire", retire)
    with pytest.raises(Killed):
        store.settle()
    monkeypatch.undo()
    for _ in range(2):
        again = open_store(store.path)
        assert [row.event_type for row in again.events("live")] == ["run", "tool_call"]
        assert again.sql("SELECT count(*) FROM events").rows == ((2,),)
        assert [row.events for row in again.runs()] == [2]
        store.settle()
    assert (_shown(store), _files(store)) == (WHOLE, [])


def test_a_file_that_is_looked_at_is_waited_for_by_those_that_follow(store: Store) -> None:
    journal = _journal(store)
    for fact, blobs in facts("live", journal.writer):
        journal.write(fact, blobs)
    journal.close()
    looking = os.open(_files(store)[0], os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert store.settle().events == 0
    os.close(looking)
    assert store.settle().events == 2
    assert (_shown(store), _files(store)) == (WHOLE, [])


PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
import tracekit
from tracekit import configuration, journal
journal.Journal.__init__.__kwdefaults__["max_bytes"] = 2000
tracekit.configure(store=sys.argv[1])

@tracekit.tool(effect="read")
def look(n):
    return {"n": n}

def work(k):
    for n in range(50):
        with tracekit.run(run_id=f"run-{k}-{n}"):
            look(n)

threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_threads_that_fill_many_files_while_they_are_settled_lose_and_double_nothing(
    store: Store,
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    reader = open_store(store.path)
    while child.poll() is None:
        store.settle()
        (counted,) = reader.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows
        assert counted[0] == counted[1]
        assert all(row.events <= 2 for row in reader.runs())
    assert child.returncode == -signal.SIGKILL
    store.settle()
    assert _files(store) == []
    assert store.sql(
        "SELECT count(*), count(DISTINCT event_id), count(ts_end_ns) FROM events"
    ).rows == ((400, 400, 400),)
    assert store.sql("SELECT status, count(*) FROM runs GROUP BY 1").rows == (("ok", 200),)
    assert store.verify().findings == ()
