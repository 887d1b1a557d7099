"""A fault of the recorder never reaches the agent, and what was lost is known."""

from __future__ import annotations

import asyncio
import errno
import logging
import multiprocessing
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import tracekit
from tests.recorder.record_kit import everything, recording, redactor
from tracekit import configuration, interruption
from tracekit.canonical import parse_json
from tracekit.chains import Resolver
from tracekit.configuration import recorder
from tracekit.events import Blob, Event, Fact, LlmCallBegun
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.recorder import Recorder
from tracekit.redact import Redactor, Rules
from tracekit.rows import rows_from_facts, run_row
from tracekit.sink import MemorySink
from tracekit.trajectory import FAULT


@tracekit.tool(effect="read")
def look(n: int) -> int:
    return n * 10


@tracekit.agent
def work(n: int) -> int:
    return look(n)


class Flaky(MemorySink):
    """Fails as often as it is told to."""

    def __init__(self, *, failures: int, error: Exception | None = None) -> None:
        super().__init__()
        self.failures = failures
        self.error = error or OSError(errno.ENOSPC, "No space left on device")

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        super().write(fact, blobs)


def _rows(sink: MemorySink) -> list[Event]:
    return rows_from_facts(sink.facts)


def _losses(rows: list[Event]) -> list[str | None]:
    return [row.error_message for row in rows if row.actor == "loss"]


def test_a_full_disk_is_not_the_agents_fault_and_becomes_a_loss_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Flaky(failures=3)  # the run, then the loss event, then the call
    with recording(sink) as recorded:
        assert work(4) == 40
    assert _losses(_rows(sink)) == [
        "2 events lost: they could not be recorded when they happened (No space left on device)"
    ]
    assert recorded.recorder.lost == 0
    assert [record.getMessage() for record in caplog.records] == [
        "tracekit could not record an event: No space left on device"
    ]


def test_a_loss_stands_in_the_run_that_had_it() -> None:
    sink = Flaky(failures=0)
    with recording(sink):
        with tracekit.run(run_id="first"):
            sink.failures = 6  # three events, and three tries at a loss event
            look(1)
        sink.failures = 0
        with tracekit.run(run_id="second"):
            pass
    (loss,) = [row for row in _rows(sink) if row.actor == "loss"]
    assert loss.run_id == "first"
    assert str(loss.error_message).startswith("3 events lost: ")


def test_a_loss_at_the_very_end_is_written_when_the_process_ends() -> None:
    sink = Flaky(failures=0)
    with recording(sink) as recorded:
        with tracekit.run(run_id="only"):
            sink.failures = 1
        recorded.recorder.write_loss()
    assert [row.run_id for row in _rows(sink) if row.actor == "loss"] == ["only"]


@pytest.mark.parametrize("error", [ValueError("odd"), RuntimeError("closed"), MemoryError()])
def test_any_fault_of_the_sink_is_counted(error: Exception) -> None:
    sink = Flaky(failures=1, error=error)
    with recording(sink):
        assert work(1) == 10
    assert len(_losses(_rows(sink))) == 1


def test_the_users_break_is_not_swallowed() -> None:
    class Interrupted(MemorySink):
        def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
            raise KeyboardInterrupt

    with recording(Interrupted()), pytest.raises(KeyboardInterrupt):
        work(1)


def test_a_value_that_defeats_us_costs_the_value_and_not_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_given: object) -> Any:
        raise RecursionError("deep")

    monkeypatch.setattr("tracekit.keeping.keep_value", broken)
    monkeypatch.setattr("tracekit.prepared.keep_plain", broken)
    with recording() as recorded:
        assert work(1) == 10
    assert recorded.tree() == [["work", "look"]]
    row = recorded.row()
    assert (row.status, row.argument_state, row.observation_state) == (
        "ok", "truncated", "truncated",
    )  # fmt: skip
    known = sum(int(str(text).split()[0]) for text in _losses(recorded.rows()))
    assert known + recorded.recorder.lost == 4


def test_a_rule_of_redaction_that_raises_lets_nothing_through() -> None:
    def rule(text: str) -> str:
        raise ZeroDivisionError

    with recording() as recorded:
        recorded.recorder.redactor = Redactor(
            Rules.from_user([rule]), recorded.recorder.redactor.tagger
        )
        assert tracekit.tool(lambda word: word)("sesame") == "sesame"
    assert "sesame" not in everything(recorded)
    row = recorded.row()
    assert (row.argument_state, row.observation_state) == ("redacted", "redacted")


class _Own(BaseException):
    """Of the program's."""


@pytest.mark.parametrize(
    "error",
    [
        KeyError("oops"),
        SystemExit(3),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
        _Own("oops"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_key_of_idempotency_that_cannot_be_computed_stops_and_loses_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def key(arguments: dict[str, Any]) -> str:
        del arguments["order"]
        raise error

    @tracekit.tool(effect="write", idempotency_key=key)
    def refund(order: str) -> str:
        return order

    with recording() as recorded, mock.patch.object(interruption, "_warned", set()):
        assert [refund("A-1"), refund("A-1")] == ["A-1", "A-1"]
    name = type(error).__name__
    of = f"{__name__}." if name == "_Own" else "asyncio.exceptions." if "Canc" in name else ""
    what = f"the idempotency key of refund could not be computed: {of}{name} in key"
    row = recorded.rows()[0]
    assert (row.status, row.idempotency_key) == ("ok", None)
    assert recorded.argument(row) == {"order": "A-1"}
    assert parse_json(row.attributes) == {FAULT: what}
    assert len(recorded.rows()) == 2
    assert recorded.recorder.lost == 0
    assert [said.getMessage() for said in caplog.records] == [f"tracekit: {what}"]


def test_the_users_break_ends_a_function_that_computes_a_key() -> None:
    def key(_arguments: dict[str, Any]) -> str:
        raise KeyboardInterrupt

    @tracekit.tool(effect="write", idempotency_key=key)
    def refund() -> None: ...

    with recording(), pytest.raises(KeyboardInterrupt):
        refund()


@pytest.mark.parametrize("key", [None, ""])
def test_a_computed_key_that_is_empty_is_none(key: Any) -> None:
    @tracekit.tool(effect="write", idempotency_key=lambda _arguments: key)
    def refund() -> None: ...

    with recording() as recorded:
        refund()
    assert recorded.row().idempotency_key is None


def test_a_bare_call_whose_begin_comes_after_a_loss_is_as_it_ended() -> None:
    sink = Flaky(failures=0)
    with recording(sink) as recorded:
        recorded.recorder.note_fault(OSError(errno.ENOSPC, "No space left on device"))
        look(1)
    rows = _rows(sink)
    assert [row.actor for row in rows] == ["loss", "look"]
    assert (run_row(rows).status, run_row(rows).agent) == ("ok", "look")


def test_an_idempotency_key_is_recorded_without_secrets() -> None:
    @tracekit.tool(effect="write", idempotency_key=lambda a: f"refund {a['mail']}")
    def refund(mail: str) -> None: ...

    with recording() as recorded:
        refund("alice@example.com")
    key = recorded.row().idempotency_key
    assert key is not None
    assert key.startswith("refund ")
    assert "alice" not in everything(recorded)


@pytest.mark.parametrize("error", [RuntimeError("processor"), SystemExit(3), _Own()])
def test_a_span_processor_that_raises_is_not_the_agents_fault(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def broken(*_args: object, **_kwargs: object) -> Any:
        raise error

    monkeypatch.setattr("tracekit.otel.start_span", broken)
    with recording() as recorded:
        assert work(1) == 10
    assert recorded.tree() == [["work", "look"]]
    assert recorded.run_row().status == "ok"


def test_a_replay_is_strict_and_raises_what_recording_would_count() -> None:
    own = Recorder(Flaky(failures=1), redactor(), strict=True)
    with configuration.recording_to(own), pytest.raises(OSError, match="No space"):
        work(1)


def _unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_recorder", None)
    monkeypatch.setattr("tracekit.steps._complained", False)


def test_without_a_usable_key_calls_run_unrecorded_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    _unconfigured(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", "short")
    with tracekit.run():
        tracekit.evidence("doc")
        assert work(1) == 10
        assert list(tracekit.tool(lambda: iter([1]))()) == [1]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "TRACEKIT_REDACTION_KEY" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_changes_its_folder_goes_on_recording_to_one_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _unconfigured(monkeypatch)
    monkeypatch.delenv("TRACEKIT_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    own = recorder()
    try:
        os.chdir(tmp_path / "elsewhere")
        assert work(1) == 10
    finally:
        own.sink.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(list((tmp_path / ".tracekit" / "journal").iterdir())) == 1


# --- real files -----------------------------------------------------------------------------------


def _content(folder: Path) -> list[Event]:
    facts = [fact for path in folder.iterdir() for fact in read_journal(path).facts]
    return rows_from_facts(facts)


def test_a_folder_that_cannot_be_made_loses_events_and_nothing_else(tmp_path: Path) -> None:
    blocked = tmp_path / "journal"
    blocked.write_text("a file where the folder should be")
    with recording(Journal(blocked)) as recorded:
        assert work(1) == 10
        assert recorded.recorder.lost == 4
        blocked.unlink()
        assert work(2) == 20
    assert _losses(_content(blocked)) == [
        "4 events lost: they could not be recorded when they happened (File exists)"
    ]


def test_a_folder_that_is_deleted_under_us_is_made_anew_and_what_went_with_it_is_counted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store" / "journal"
    with recording(Journal(folder)):
        assert work(1) == 10
        shutil.rmtree(tmp_path / "store")
        assert work(2) == 20
    rows = _content(folder)
    assert _losses(rows) == ["4 events lost: somebody deleted the journal that held them"]
    assert [row.actor for row in rows if row.event_type in ("run", "tool_call")] == ["work", "look"]
    blobs = [name for path in folder.iterdir() for name in read_journal(path).blobs]
    assert {row.argument_blob for row in rows if row.argument_blob} <= set(blobs)


def test_of_a_line_in_whose_middle_the_disk_fills_nothing_is_left_and_it_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    room = [900 + 768]

    def write(fd: int, data: Any) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, memoryview(data)[: room[0]])
        room[0] -= written
        return written

    with recording(Journal(tmp_path)):
        monkeypatch.setattr("tracekit.journal.os.write", write)
        work(1)
        room[0] = 1 << 20
        work(2)
    (path,) = tmp_path.iterdir()
    content = read_journal(path)
    rows = rows_from_facts(content.facts)
    assert content.damage == []
    assert len(_losses(rows)) == 1
    assert [row.ts_end_ns is not None for row in rows if row.actor == "look"][-1]


def test_a_signal_handler_may_call_a_tool_in_the_middle_of_anything(tmp_path: Path) -> None:
    called = []

    def handler(_number: int, _frame: object) -> None:
        called.append(look(7))
        signal.setitimer(signal.ITIMER_REAL, 0.0007 if len(called) < 50 else 0)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with recording(Journal(tmp_path)):
            look(0)  # what the first call imports is whole before a signal comes
            signal.setitimer(signal.ITIMER_REAL, 0.0007)
            for number in range(299):
                look(number)
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    (path,) = tmp_path.iterdir()
    content = read_journal(path)
    rows = rows_from_facts(content.facts)
    assert content.damage == []
    assert len(rows) == 300 + len(called)
    assert all(row.status == "ok" for row in rows)


def test_a_failing_log_handler_is_not_the_agents_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("handler")

    handler = Broken()
    logging.getLogger("tracekit").addHandler(handler)
    try:
        with recording(Flaky(failures=1)):
            assert work(1) == 10
    finally:
        logging.getLogger("tracekit").removeHandler(handler)


# --- losses of several processes, and of a file that is gone --------------------------------------


class _Full:
    """A disk that has no room for a while; what stands on it can still be written over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = False
        real = os.write

        def write(fd: int, data: Any) -> int:
            if self.now:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(fd, data)

        monkeypatch.setattr("tracekit.journal_file.os.write", write)


NO_ROOM = "they could not be recorded when they happened (No space left on device)"


def test_a_loss_before_a_fork_is_told_by_the_process_that_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Full(monkeypatch)
    with recording(Journal(tmp_path)), tracekit.run():
        look(1)
        disk.now = True
        look(2)
        disk.now = False
        child = os.fork()
        if child == 0:
            look(3)
            os._exit(0)
        os.waitpid(child, 0)
        look(4)
    rows = _content(tmp_path)
    assert _losses(rows) == [f"2 events lost: {NO_ROOM}"]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("leave", ["returns", "os._exit", "killed"])
def test_a_loss_of_a_child_process_is_known_however_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    disk = _Full(monkeypatch)

    def child() -> None:
        look(1)
        disk.now = True
        look(2)
        disk.now = leave != "returns"
        if leave == "os._exit":
            os._exit(0)
        if leave == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

    with recording(Journal(tmp_path)), tracekit.run():
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
    assert _losses(_content(tmp_path)) == [f"2 events lost: {NO_ROOM}"]


def test_a_loss_on_a_disk_that_stays_full_is_known_to_who_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Full(monkeypatch)
    with recording(Journal(tmp_path)) as recorded:
        with tracekit.run():
            look(1)
            disk.now = True
            look(2)
        recorded.recorder.write_loss()
        assert _losses(_content(tmp_path)) == [f"3 events lost: {NO_ROOM}"]
        disk.now = False
        recorded.recorder.write_loss()
    assert _losses(_content(tmp_path)) == [f"3 events lost: {NO_ROOM}"]
    (path,) = tmp_path.iterdir()
    assert read_journal(path).damage == []


def test_a_conversation_whose_file_was_deleted_is_kept_whole_from_then_on(tmp_path: Path) -> None:
    @tracekit.llm(model="m")
    def ask(messages: list[dict[str, str]]) -> str:
        return "ok"

    messages = []
    with recording(Journal(tmp_path)), tracekit.run():
        for number in range(6):
            messages.append({"role": "user", "content": f"{number} " + "x" * 400})
            ask(messages)
            if number == 3:
                for path in tmp_path.iterdir():
                    path.unlink()
    (path,) = tmp_path.iterdir()
    content = read_journal(path)
    prompts = [fact.argument for fact in content.facts if isinstance(fact, LlmCallBegun)]
    assert len(prompts) == 2
    for prompt, count in zip(prompts, (5, 6), strict=True):
        assert prompt.blob is not None
        whole = Resolver(content.blobs.get).value(prompt.blob)
        assert whole is not None
        assert isinstance(whole.value, dict)
        assert whole.value["messages"] == messages[:count]
