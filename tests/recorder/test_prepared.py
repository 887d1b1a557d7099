"""The short way of recording a call writes the facts that the general way writes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from tests.recorder.record_kit import START, recording, redactor
from tracekit import conditions, prepared
from tracekit.conditions import Conditions
from tracekit.configuration import recording_to
from tracekit.events import Blob, Fact
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.keeping import Keeper
from tracekit.limits import Limits
from tracekit.recorder import Recorder
from tracekit.redact import Redactor, Rules, UnkeyedTagger
from tracekit.sink import MemorySink

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
SECRET = st.sampled_from(
    ["mail mia@firma.test", {"password": "hunter22hunter22"}, "AKIA" + "Q" * 16]
)
OTHER = st.sampled_from([(1, 2), b"bytes", {1: 2}, {1, 2}, object])
VALUES = PLAIN | SECRET | OTHER


def _program(given: Any, answer: Any, error: Exception | None) -> None:
    """A run with a read inside a write inside a step."""

    @tracekit.tool(effect="read", name="store.look")
    def look(query: Any, *, limit: int = 5) -> Any:
        if error is not None:
            raise error
        return answer

    @tracekit.tool(effect="write")
    def change(given: Any) -> Any:
        return look(given)

    @tracekit.step
    def stage(given: Any) -> Any:
        return change(given)

    with tracekit.run():
        for _ in range(2):
            try:
                stage(given)
            except ValueError:
                continue


def _facts(given: Any, answer: Any, error: Exception | None, *, short: bool) -> list[Any]:
    sink = MemorySink()
    recorder = Recorder(sink, redactor())
    if not short:
        recorder.append = None
    with recording_to(recorder), conditions.use(Conditions.fixed(START)):
        _program(given, answer, error)
    return [[fact.model_dump() for fact in sink.facts], sink.blobs]


def _journal(given: Any, answer: Any, error: Exception | None, *, short: bool) -> bytes:
    with TemporaryDirectory() as folder, conditions.use(Conditions.fixed(START)):
        recorder = Recorder(Journal(Path(folder)), redactor())
        if not short:
            recorder.append = None
        with recording_to(recorder):
            _program(given, answer, error)
        path = recorder.sink.path  # type: ignore[attr-defined]  # it is a journal
        recorder.sink.close()
        return bytes(path.read_bytes())


@given(VALUES, VALUES, st.none() | st.just(ValueError("no room for mia@firma.test")))
def test_both_ways_write_the_same_bytes(given: Any, answer: Any, error: Exception | None) -> None:
    short = _journal(given, answer, error, short=True)
    assert short == _journal(given, answer, error, short=False)


def test_the_facts_of_both_ways_are_the_same_in_any_sink() -> None:
    for error in (None, ValueError("no room for mia@firma.test")):
        short = _facts({"n": [1, 2.5]}, "three", error, short=True)
        assert short == _facts({"n": [1, 2.5]}, "three", error, short=False)


def test_a_simple_call_takes_the_short_way_and_any_other_does_not() -> None:
    taken: list[bool] = []
    began = prepared.Prepared.begin

    def watched(self: Any, *args: Any) -> Any:
        step = began(self, *args)
        taken.append(step is not None)
        return step

    def taken_for(value: Any) -> bool:
        taken.clear()
        _facts(value, value, None, short=True)
        return all(taken)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepared.Prepared, "begin", watched)
        assert taken_for({"n": [1, 2.5, "three", None]})
        assert not taken_for((1, 2))
        assert not taken_for("mail mia@firma.test")


class Full(MemorySink):
    """Has no room for the facts with these numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers = numbers

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        if fact.seq in self.numbers:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(fact, blobs)


@pytest.mark.parametrize("full", [1, 2])
def test_a_fact_that_cannot_be_written_is_counted_on_the_short_way(full: int) -> None:
    sink = Full(full)
    with recording_to(Recorder(sink, redactor())), tracekit.run():
        assert _look(3) == 4
        assert _look(5) == 6
    losses = [fact.model_dump() for fact in sink.facts if fact.fact == "loss.noted"]
    assert [loss["count"] for loss in losses] == [1]
    assert [fact.fact for fact in sink.facts].count("tool_call.ended") == (2 if full == 1 else 1)


@tracekit.tool(effect="read")
def _look(n: int) -> int:
    return n + 1


def test_a_value_beyond_the_limit_is_cut_on_the_way_that_knows_how() -> None:
    sink = MemorySink()
    recorder = Recorder(sink, redactor(), keeper=Keeper(Limits(value_bytes=50)))

    @tracekit.tool(effect="read")
    def long() -> str:
        return "word " * 20

    with recording_to(recorder), tracekit.run():
        long()
    (ended,) = [fact for fact in sink.facts if fact.fact == "tool_call.ended"]
    assert ended.model_dump()["observation"]["state"] == "truncated"


def test_what_a_call_hands_out_is_followed_after_a_short_begin() -> None:
    @tracekit.tool(effect="read")
    def hidden(n: int) -> Any:
        return (item for item in range(n))

    with recording() as recorded, tracekit.run():
        assert list(hidden(3)) == [0, 1, 2]
    row = recorded.row()
    assert recorded.observation(row) == [0, 1, 2]
    assert row.status == "ok"


def test_calls_that_interleave_keep_their_own_parents_and_observations() -> None:
    @tracekit.tool(effect="read")
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return n * 10

    @tracekit.tool(effect="read")
    async def outer(n: int) -> int:
        await asyncio.sleep(0)
        return await inner(n) + 1

    async def everything() -> list[int]:
        return list(await asyncio.gather(*map(outer, range(4))))

    with recording() as recorded, tracekit.run():
        assert asyncio.run(everything()) == [1, 11, 21, 31]
    rows = {row.span_id: row for row in recorded.rows("tool_call")}
    pairs = [
        (recorded.argument(rows[row.parent_span_id])["n"], recorded.observation(row))
        for row in rows.values()
        if row.parent_span_id in rows
    ]
    assert sorted(pairs) == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_a_forked_copy_does_not_end_a_call_of_its_parent(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    @tracekit.tool(effect="read")
    def forks() -> str:
        if os.fork() == 0:
            return "child"
        os.wait()
        return "parent"

    with recording_to(Recorder(journal, redactor())):
        me = os.getpid()
        with tracekit.run():
            forks()
            if os.getpid() != me:
                os._exit(0)
    journal.close()
    found = [fact for path in tmp_path.glob("*.jsonl") for fact in read_journal(path).facts]
    ended = [fact for fact in found if fact.fact == "tool_call.ended"]
    assert len(ended) == 1
    assert json.loads(_blob(tmp_path, ended[0])) == "parent"


def _blob(folder: Path, fact: Any) -> bytes:
    blobs: Iterator[Blob | None] = (
        read_journal(path).blobs.get(fact.observation.blob) for path in folder.glob("*.jsonl")
    )
    return next(blob.data for blob in blobs if blob is not None)


def test_a_simple_call_passes_through_few_functions_of_ours(tmp_path: Path) -> None:
    entered: list[str] = []
    ours = str(Path(tracekit.__file__).parent)

    def count(frame: FrameType, event: str, _said: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            entered.append(frame.f_code.co_qualname)

    own = Recorder(Journal(tmp_path), Redactor(Rules(builtin=False), UnkeyedTagger()))
    still = Conditions.seeded(START, 0)  # so that the file was there a moment ago
    with conditions.use(still), recording_to(own), tracekit.run():
        for n in range(3):
            _look(n)
        profile = sys.getprofile()
        sys.setprofile(count)
        try:
            _look(5)
        finally:
            sys.setprofile(profile)
    assert len(entered) <= 50, "\n".join(entered)
