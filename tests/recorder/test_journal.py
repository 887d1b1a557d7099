"""Facts to lines and back, and what is left of a journal that was damaged."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tests.recorder.record_kit import recording
from tracekit.canonical import digest_bytes
from tracekit.events import (
    Blob,
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    LossNoted,
    MintNoted,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
    StateNoted,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.journal import Journal, owner_alive
from tracekit.journal_lines import fact_line
from tracekit.journal_reading import read_journal

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
INTS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
PAYLOADS = st.builds(
    Payload,
    state=st.sampled_from(["captured", "absent", "truncated", "redacted"]),
    digest=st.none() | WORDS,
    blob=st.none() | WORDS,
    types=OBJECTS,
)
COMMON: dict[str, Any] = {
    "writer": WORDS, "seq": INTS, "timestamp_ns": INTS, "run_id": WORDS, "trace_id": WORDS,
    "span_id": WORDS, "parent_span_id": st.none() | WORDS, "attributes": OBJECTS,
}  # fmt: skip
ENDED: dict[str, Any] = {
    **COMMON, "status": st.sampled_from(["ok", "error", "unset"]), "observation": PAYLOADS,
    "error_type": st.none() | WORDS, "error_message": st.none() | WORDS,
}  # fmt: skip
FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.builds(
        RunBegun, **COMMON, actor=WORDS, argument=PAYLOADS, tags=st.lists(WORDS).map(tuple),
        versions=st.dictionaries(WORDS, WORDS, max_size=2), task_id=st.none() | WORDS,
    ),
    st.builds(RunEnded, **ENDED, fidelity=st.none() | OBJECTS),
    st.builds(LlmCallBegun, **COMMON, actor=WORDS, prompt_hash=st.none() | WORDS),
    st.builds(LlmCallEnded, **ENDED, usage_input=st.none() | INTS, usage_raw=st.none() | OBJECTS),
    st.builds(ToolCallBegun, **COMMON, actor=WORDS, attempt=st.none() | INTS),
    st.builds(ToolCallEnded, **ENDED, tainted=st.none() | st.booleans()),
    st.builds(PolicyNoted, **COMMON, decision=st.sampled_from(["allow", "deny"])),
    st.builds(StateNoted, **COMMON, before=PAYLOADS, after=PAYLOADS),
    st.builds(EvidenceNoted, **COMMON, evidence_ids=st.lists(WORDS).map(tuple)),
    st.builds(MintNoted, **COMMON, kind=WORDS, site=WORDS, occurrence=INTS, value=JSON),
    st.builds(LossNoted, **COMMON, count=INTS, reason=WORDS),
)  # fmt: skip


def _blob(data: bytes) -> Blob:
    return Blob(digest=digest_bytes(data), media_type="text/plain", data=data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(facts=st.lists(FACTS, min_size=1, max_size=4), data=st.lists(st.binary(max_size=20)))
def test_facts_and_blobs_come_back_as_they_were(
    tmp_path: Path, facts: list[Fact], data: list[bytes]
) -> None:
    journal = Journal(tmp_path, max_age_ns=2**65)
    blobs = [_blob(item) for item in data]
    for fact in facts:
        journal.write(fact, blobs)
    path = journal.path
    content = read_journal(path)
    journal.close()
    path.unlink()
    assert content.facts == facts
    assert content.blobs == {blob.digest: blob for blob in blobs}
    assert content.damage == []


def _fact(seq: int, **fields: Any) -> ToolCallBegun:
    base: dict[str, Any] = {
        "writer": "w", "timestamp_ns": seq, "run_id": "r", "trace_id": "t",
        "span_id": f"s{seq}", "actor": "look",
    }  # fmt: skip
    return ToolCallBegun(seq=seq, **{**base, **fields})


def _written(folder: Path, count: int) -> Path:
    journal = Journal(folder)
    for seq in range(count):
        journal.write(_fact(seq), [_blob(b"x" * 50)])
    path = journal.path
    journal.close()
    return path


def test_a_blob_is_written_once_a_file(tmp_path: Path) -> None:
    assert _written(tmp_path, 5).read_bytes().count(b'"blob":') == 1


def test_the_last_line_cut_in_half_costs_that_line_and_one_sentence(tmp_path: Path) -> None:
    path = _written(tmp_path, 4)
    path.write_bytes(path.read_bytes()[:-30])
    content = read_journal(path)
    assert [fact.seq for fact in content.facts] == [0, 1, 2]
    assert content.damage == [f"{path.name}:6: the last line is torn"]


def test_a_zeroed_tail_is_no_event_and_no_damage(tmp_path: Path) -> None:
    path = _written(tmp_path, 3)
    path.write_bytes(path.read_bytes() + b"\0" * 4096)
    content = read_journal(path)
    assert ([fact.seq for fact in content.facts], content.damage) == ([0, 1, 2], [])


def test_a_zeroed_half_line_is_one_torn_line(tmp_path: Path) -> None:
    path = _written(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-40] + b"\0" * 512)
    content = read_journal(path)
    assert [fact.seq for fact in content.facts] == [0, 1]
    assert content.damage == [f"{path.name}:5: the last line is torn"]


def test_a_hole_in_the_middle_costs_the_lines_that_it_touches(tmp_path: Path) -> None:
    path = _written(tmp_path, 6)
    data = bytearray(path.read_bytes())
    lines = data.split(b"\n")
    start = len(b"\n".join(lines[:4])) + 20
    data[start : start + 10] = b"\0" * 10
    path.write_bytes(data)
    content = read_journal(path)
    assert [fact.seq for fact in content.facts] == [0, 1, 3, 4, 5]
    assert len(content.damage) == 1
    assert content.damage[0].startswith(f"{path.name}:5: cannot be read (")


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"5", b'"fact"', b"null", b"{}", b'{"fact":"nothing.begun"}', b'{"fact":7}',
        b'{"blob":3}', b'{"blob":{"digest":"d","media_type":"m","text":5}}',
        b'{"blob":{"digest":"d","media_type":"m","base64":"!"}}', b'{"journal":{}}',
        b'{"journal":{"schema_version":"x"}}', b"\xff\xfe", b"{" * 5000,
    ],
)  # fmt: skip
def test_a_strange_line_is_named_and_the_rest_is_read(tmp_path: Path, line: bytes) -> None:
    path = _written(tmp_path, 2)
    path.write_bytes(line + b"\n" + path.read_bytes())
    content = read_journal(path)
    assert [fact.seq for fact in content.facts] == [0, 1]
    assert len(content.damage) == 1


def test_half_a_character_in_a_name_costs_that_character(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0, actor="caf\udce9 ☕", attributes={"\ud800": ["\udfff"]}), [])
    content = read_journal(journal.path)
    journal.close()
    (fact,) = content.facts
    assert isinstance(fact, ToolCallBegun)
    assert (fact.actor, fact.attributes) == ("caf\ufffd ☕", {"\ufffd": ["\ufffd"]})


def test_an_error_of_half_characters_is_recorded(tmp_path: Path) -> None:
    @tracekit.tool
    def read() -> None:
        raise ValueError("caf\udce9")

    with recording(Journal(tmp_path)) as recorded:
        with pytest.raises(ValueError):
            read()
        assert recorded.recorder.lost == 0
    (path,) = tmp_path.iterdir()
    (ended,) = [f for f in read_journal(path).facts if isinstance(f, ToolCallEnded)]
    assert ended.error_message == "caf\ufffd"


def test_a_payload_with_a_flipped_bit_is_named_and_not_served(tmp_path: Path) -> None:
    path = _written(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1))
    content = read_journal(path)
    assert content.blobs == {}
    assert content.damage == [
        f"{path.name}:2: cannot be read (a payload is not what its digest says)"
    ]


def test_the_owner_is_alive_for_as_long_as_it_holds_its_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0), [])
    path = journal.path
    assert owner_alive(path)
    journal.close()
    assert not owner_alive(path)
    assert not owner_alive(tmp_path / "gone.jsonl")


def test_a_closed_journal_begins_another_file_rather_than_lose_what_comes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0), [])
    first = journal.path
    journal.close()
    journal.write(_fact(1), [])
    assert journal.path != first
    assert len(list(tmp_path.iterdir())) == 2
    journal.close()


def test_durability_disk_asks_the_disk_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("tracekit.journal.os.fdatasync", asked.append)
    journal = Journal(tmp_path, durability="disk")
    for seq in range(3):
        journal.write(_fact(seq), [])
    journal.close()
    assert len(asked) == 3


@pytest.mark.parametrize("before", [0, 1])
def test_what_comes_up_in_the_middle_of_a_write_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """A signal handler may record while the last line of a process is being written."""
    journal = Journal(tmp_path)

    for seq in range(before):
        journal.write(_loss(journal, seq), [])
    write = os.write

    def interrupted(fd: int, data: bytes) -> int:
        monkeypatch.setattr("tracekit.journal.os.write", write)
        journal.write(_loss(journal, 90), [])
        return write(fd, data)

    monkeypatch.setattr("tracekit.journal.os.write", interrupted)
    journal.write(_loss(journal, 80), [])
    found = read_journal(journal.path)
    assert [fact.seq for fact in found.facts] == [*range(before), 80, 90]
    assert found.damage == []


def test_of_a_line_that_finds_no_room_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.write(_loss(journal, 0), [])
    with monkeypatch.context() as patched:
        patched.setattr("tracekit.journal_file.os.write", _room_for(9))
        with pytest.raises(OSError, match="No space"):
            journal.write(_loss(journal, 1), [])
    journal.write(_loss(journal, 2), [])
    found = read_journal(journal.path)
    assert ([fact.seq for fact in found.facts], found.damage) == ([0, 2], [])


def test_a_line_that_lacks_nothing_but_its_end_counts_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0), [])
    with monkeypatch.context() as patched:
        patched.setattr("tracekit.journal_file.os.write", _room_for(len(fact_line(_fact(1))) - 1))
        journal.write(_fact(1), [])
    assert [fact.seq for fact in read_journal(journal.path).facts] == [0, 1]
    journal.write(_fact(2), [])
    found = read_journal(journal.path)
    assert ([fact.seq for fact in found.facts], found.damage) == ([0, 1, 2], [])


def _room_for(size: int) -> Callable[[int, bytes], int]:
    """Write as if the disk had room for so many more bytes."""
    write, room = os.write, [size]

    def short(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(fd, data[: room[0]])
        room[0] -= done
        return done

    return short


# --- what a program does to numbers and files -----------------------------------------------------


def _fd(journal: Journal) -> int:
    (fd,) = [
        int(entry.name)
        for entry in os.scandir("/proc/self/fd")
        if os.path.realpath(entry.path) == os.path.realpath(journal.path)
    ]
    return fd


def _all_seqs(folder: Path) -> list[int]:
    return sorted(fact.seq for path in folder.iterdir() for fact in read_journal(path).facts)


def test_a_number_that_the_program_closed_and_uses_again_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = Journal(folder)
    for seq in range(3):
        journal.write(_fact(seq), [_blob(b"x")])
    fd = _fd(journal)
    assert fd > 64  # what a daemon closes, and what the next file gets
    own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
    os.dup2(own, fd)
    journal.write(_fact(10**9), [_blob(b"x")])  # later than the next look
    assert (tmp_path / "own").read_bytes() == b""
    journal.close()
    os.close(fd)  # it is the program's still
    os.close(own)
    assert _all_seqs(folder) == [0, 1, 2, 10**9]


def test_a_file_that_the_program_closed_is_followed_by_another_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    for seq in range(3):
        journal.write(_fact(seq), [_blob(b"x")])
    os.close(_fd(journal))
    for seq in range(3, 6):
        journal.write(_fact(seq), [_blob(b"x")])
    first, second = sorted(tmp_path.iterdir())
    assert [fact.seq for fact in read_journal(first).facts] == [0, 1, 2]
    assert [fact.seq for fact in read_journal(second).facts] == [3, 4, 5]
    assert read_journal(second).blobs.keys() == {_blob(b"x").digest}
    journal.close()


def test_what_went_into_the_programs_file_before_anybody_looked_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = Journal(folder)
    for seq in range(3):
        journal.write(_fact(seq), [])
    own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
    fd = _fd(journal)
    os.dup2(own, fd)
    for seq in range(3, 7):
        journal.write(_fact(seq), [])
    journal.write(_fact(10**9), [])
    facts = [fact for path in folder.iterdir() for fact in read_journal(path).facts]
    losses = [fact.count for fact in facts if isinstance(fact, LossNoted)]
    kept = sum(isinstance(fact, ToolCallBegun) for fact in facts)
    assert kept + sum(losses) >= 8
    assert kept == 4
    journal.close()
    os.close(fd)
    os.close(own)


def test_a_journal_that_is_deleted_again_and_again_counts_all_that_went(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    written = 0
    for seq in range(5):
        for more in range(seq + 1):
            journal.write(_fact(10**9 * seq + more), [])
            written += 1
        journal.path.unlink()
    journal.write(_fact(10**10), [])
    (path,) = tmp_path.iterdir()
    facts = read_journal(path).facts
    assert [fact.count for fact in facts if isinstance(fact, LossNoted)] == [written]


def test_a_journal_that_is_emptied_counts_as_deleted(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for seq in range(3):
        journal.write(_fact(seq), [_blob(b"x")])
    os.truncate(journal.path, 0)
    journal.write(_fact(3), [_blob(b"x")])  # before anybody looked
    journal.write(_fact(10**9), [_blob(b"x")])
    found = [read_journal(path) for path in tmp_path.iterdir()]
    facts = [fact for content in found for fact in content.facts]
    assert [fact.count for fact in facts if isinstance(fact, LossNoted)] == [3]
    assert len(facts) == 3
    assert any(content.blobs for content in found)


def test_a_loss_that_goes_with_a_file_counts_for_what_it_told_of(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0), [])
    journal.write(_loss(journal, 1, count=7), [])
    journal.path.unlink()
    journal.write(_fact(10**9), [])
    facts = read_journal(journal.path).facts
    assert [fact.count for fact in facts if isinstance(fact, LossNoted)] == [8]


@pytest.mark.parametrize("when", ["open", "close"])
def test_what_is_recorded_while_files_change_places_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A signal handler may record there, and a file of the program may be opened there."""
    journal = Journal(tmp_path, max_bytes=1)
    journal.write(_fact(0), [_blob(b"x")])
    plain = getattr(os, when)

    def interrupted(*given: Any) -> Any:
        monkeypatch.setattr(f"tracekit.journal_file.os.{when}", plain)
        done = plain(*given)
        journal.write(_fact(90), [_blob(b"x")])
        return done

    monkeypatch.setattr(f"tracekit.journal_file.os.{when}", interrupted)
    for seq in range(1, 4):
        journal.write(_fact(seq), [_blob(b"x")])
    journal.close()
    assert _all_seqs(tmp_path) == [0, 1, 2, 3, 90]


@pytest.mark.parametrize("when", ["open", "write", "close", "fcntl.flock"])
def test_a_handler_that_raises_while_files_change_places_costs_no_later_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    folder = tmp_path / "journal"
    journal = Journal(folder, max_bytes=1)
    journal.write(_fact(0), [])
    os.close(lowest := os.open(tmp_path, os.O_RDONLY))
    name = when if "." in when else f"os.{when}"
    plain = os if "." not in when else fcntl
    call = getattr(plain, when.rpartition(".")[2])
    count = [0]

    def interrupted(*given: Any) -> Any:
        done = call(*given)
        count[0] += 1
        if count[0] == (2 if when == "write" else 1):  # the line is the first, and whole
            monkeypatch.setattr(f"tracekit.journal_file.{name}", call)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(f"tracekit.journal_file.{name}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.write(_fact(1), [])
    own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
    assert own <= lowest  # nothing was left open
    for seq in range(2, 8):
        journal.write(_fact(seq), [])
    assert (tmp_path / "own").read_bytes() == b""
    os.close(own)
    assert _all_seqs(folder) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len([path for path in folder.iterdir() if read_journal(path).facts]) >= 3  # it goes on
    journal.close()


def test_waiting_for_the_disk_leaves_no_file_open_when_a_handler_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, durability="disk", max_bytes=1500)
    open_before = len(os.listdir("/proc/self/fd"))
    handled: list[int] = []
    handling = [False]

    def interrupted(_fd: int) -> None:
        if not handling[0]:
            handling[0] = True
            for _ in range(4):
                handled.append(1000 + len(handled))
                journal.write(_fact(handled[-1]), [])
            handling[0] = False

    monkeypatch.setattr("tracekit.journal.os.fdatasync", interrupted)
    for seq in range(20):
        journal.write(_fact(seq), [])
    assert len(os.listdir("/proc/self/fd")) == open_before + 1
    journal.close()
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert _all_seqs(tmp_path) == [*range(20), *handled]


def test_what_was_lost_is_told_on_a_disk_without_room_and_found_by_who_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.write(_fact(0), [])
    with monkeypatch.context() as patched:
        patched.setattr("tracekit.journal_file.os.write", _room_for(0))
        for count in (1, 2, 30):
            journal.remember_loss(_loss(journal, 1, count=count))
    found = read_journal(journal.path)
    assert [fact.count for fact in found.facts if isinstance(fact, LossNoted)] == [30]
    assert found.damage == []
    journal.write(_loss(journal, 1, count=31), [])
    found = read_journal(journal.path)
    assert [fact.count for fact in found.facts if isinstance(fact, LossNoted)] == [31]


def _loss(journal: Journal, seq: int, *, count: int = 1) -> LossNoted:
    return LossNoted(
        writer=journal.writer, seq=seq, timestamp_ns=7, run_id="r", trace_id="t",
        span_id=str(seq), count=count, reason="test",
    )  # fmt: skip
