"""What is lost is told in the log once an outage, and counted in loss events each time."""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tests.recorder.test_recorder_faults import Flaky, look
from tracekit import configuration, losses
from tracekit.errors import CallRefused
from tracekit.events import Event
from tracekit.journal import Durability, Journal
from tracekit.journal_reading import read_journal
from tracekit.rows import rows_from_facts, run_row


@contextmanager
def _room(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _full_beyond(size: int) -> Iterator[None]:
    """A disk on which no file finds room for more than so much."""

    def write(fd: int, data: bytes) -> int:
        if os.fstat(fd).st_size + len(data) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(fd, data)

    written = os.write
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tracekit.journal_file.os.write", write)
        yield


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_disk_on_which_only_what_is_small_finds_room_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tracekit.tool(effect="read")
    def read(n: int) -> str:
        return f"{n} " + "page " * 4_000

    journal = Journal(tmp_path)
    with recording(journal) as recorded, tracekit.run(run_id="only"):
        read(0)
        with _full_beyond(60_000):
            for n in range(20):
                read(n)
        read(0)
    assert recorded.recorder.lost == 0
    journal.close()

    (path,) = tmp_path.glob("*.jsonl")
    counts = [fact.count for fact in read_journal(path).facts if fact.fact == "loss.noted"]
    assert len(counts) > 1
    assert sum(counts) >= 17
    assert _said(caplog) == ["tracekit could not record an event: No space left on device"]


@pytest.mark.parametrize("durability", ["os", "disk"])
@pytest.mark.parametrize("size", [3_000, 60_000])
def test_where_files_may_not_grow_the_journal_goes_on_in_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int, durability: Durability
) -> None:
    journal = Journal(tmp_path, durability=durability)
    with recording(journal) as recorded, _room(size), tracekit.run(run_id="only"):
        for n in range(40):
            assert look(n) is not None
    assert recorded.recorder.lost == 0
    journal.close()

    paths = [*tmp_path.glob("*.jsonl")]
    rows = rows_from_facts(fact for path in paths for fact in read_journal(path).facts)
    assert (len(paths) > 1) == (size == 3_000)
    assert [row.actor for row in rows] == ["run", *["look"] * 40]
    assert all(row.ts_start_ns and row.ts_end_ns for row in rows)
    assert _said(caplog) == []


def _rows_of(folder: Path) -> list[Event]:
    facts = [fact for path in folder.glob("*.jsonl") for fact in read_journal(path).facts]
    return rows_from_facts(facts)


@tracekit.tool(effect="write")
def write(content: object, size: int = 1) -> str:
    return "x" * size


@pytest.mark.parametrize("content", ["y" * 30_000, {"a": b"", "b": "y" * 30_000}])
def test_of_a_value_that_no_file_may_hold_it_is_kept_how_it_begins(
    tmp_path: Path, content: object
) -> None:
    journal = Journal(tmp_path)
    with recording(journal), _room(20_000), tracekit.run(run_id="only"):
        write("a")
        write(content, 30_000)
        tracekit.state(content, {"small": 1})
        write("a")
    journal.close()

    rows = _rows_of(tmp_path)
    calls = [row for row in rows if row.event_type == "tool_call"]
    assert [row.event_type for row in rows if row.event_type == "error"] == []
    assert [(row.tool_name, row.effect, row.status) for row in calls] == [
        ("write", "write", "ok")
    ] * 3
    states = [(row.argument_state, row.observation_state) for row in calls]
    assert states == [("captured",) * 2, ("truncated",) * 2, ("captured",) * 2]
    assert all(row.argument_digest and row.argument_blob and row.contract for row in calls)


def test_where_not_even_its_begin_has_room_the_digest_of_a_value_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with recording(journal), _room(2_700), tracekit.run(run_id="only"):
        write("y" * 30_000)
    journal.close()
    (call,) = [row for row in _rows_of(tmp_path) if row.event_type == "tool_call"]
    assert (call.tool_name, call.status, call.argument_state) == ("write", "ok", "truncated")
    assert call.argument_digest is not None
    assert call.argument_blob is None


def test_a_write_that_is_refused_since_no_file_may_hold_its_argument_is_a_refusal_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "_on_loss", "refuse_writes")
    journal = Journal(tmp_path)
    with recording(journal), _room(20_000), tracekit.run(run_id="only"):
        write("a")
        with pytest.raises(CallRefused, match="its arguments are larger than a file may be here"):
            write("y" * 30_000)
        write("a")
    journal.close()

    rows = _rows_of(tmp_path)
    refused = [row for row in rows if row.event_type == "tool_call"][1]
    assert (refused.tool_name, refused.effect, refused.argument_state) == (
        "write", "write", "truncated",
    )  # fmt: skip
    assert (refused.status, refused.policy_decision, refused.policy_id) == (
        "error", "deny", "on_loss='refuse_writes'",
    )  # fmt: skip
    row = run_row(rows)
    assert (row.tool_calls, row.writes, row.refusals, row.status) == (3, 3, 1, "ok")


@pytest.mark.parametrize(("quiet", "told"), [(losses._QUIET_NS, 1), (0, 3)])
def test_one_that_comes_after_a_while_is_told_anew(
    quiet: int, told: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_QUIET_NS", quiet)
    sink = Flaky(failures=0)
    with recording(sink), tracekit.run(run_id="only"):
        for n in range(3):
            sink.failures = 1
            look(n)
    assert len(_said(caplog)) == told


def test_another_fault_is_told_of_at_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = Flaky(failures=0)
    with recording(sink), tracekit.run(run_id="only"):
        for error in (OSError(28, "No space left on device"), ValueError("odd"), ValueError("odd")):
            sink.error, sink.failures = error, 1
            look(1)
    assert [said.rpartition(": ")[2] for said in _said(caplog)] == [
        "No space left on device",
        "ValueError",
    ]
