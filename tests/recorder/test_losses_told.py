"""What is lost is told in the log once an outage, and counted in loss events each time."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tests.recorder.test_recorder_faults import Flaky, look
from tracekit import losses
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal


@contextmanager
def _room(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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
        with _room(60_000):
            for n in range(20):
                read(n)
        read(0)
    assert recorded.recorder.lost == 0
    journal.close()

    (path,) = tmp_path.glob("*.jsonl")
    counts = [fact.count for fact in read_journal(path).facts if fact.fact == "loss.noted"]
    assert len(counts) > 1
    assert sum(counts) >= 17
    assert _said(caplog) == ["tracekit could not record an event: File too large"]


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
