"""Facts to lines and back, and what is left of a journal that was damaged."""

from __future__ import annotations

import os
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


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_a_line_that_finds_no_room_in_the_middle_tears_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)

    journal.write(_loss(journal, 0), [])
    write = os.write

    def short(fd: int, data: bytes) -> int:
        monkeypatch.setattr("tracekit.journal.os.write", write)
        return write(fd, data[:9])

    monkeypatch.setattr("tracekit.journal.os.write", short)
    with pytest.raises(OSError, match="No space"):
        journal.write(_loss(journal, 1), [])
    journal.write(_loss(journal, 2), [])
    found = read_journal(journal.path)
    assert [fact.seq for fact in found.facts] == [0, 2]
    assert len(found.damage) == 1


def _loss(journal: Journal, seq: int) -> LossNoted:
    return LossNoted(
        writer=journal.writer, seq=seq, timestamp_ns=7, run_id="r", trace_id="t",
        span_id=str(seq), count=1, reason="test",
    )  # fmt: skip
