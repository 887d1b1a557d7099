"""What is too large is cut and marked, what a full run or store says is kept as digests, and no
event is dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import Recorded, redactor
from tracekit.canonical import digest, json_bytes
from tracekit.configuration import recording_to
from tracekit.errors import UsageError
from tracekit.keeping import Keeper
from tracekit.limits import HEAD, Limits, StoreMeter
from tracekit.recorder import Recorder
from tracekit.sink import MemorySink


@tracekit.tool(effect="read")
def look(text: str) -> str:
    return text.upper()


@tracekit.llm(model="m")
def ask(messages: list[dict[str, Any]]) -> str:
    return "well"


def recording(limits: Limits, *, meter: StoreMeter | None = None) -> Recorder:
    return Recorder(MemorySink(), redactor(), keeper=Keeper(limits, meter))


def told(recorder: Recorder) -> Recorded:
    assert isinstance(recorder.sink, MemorySink)
    return Recorded(recorder, recorder.sink)


def test_a_value_over_its_limit_keeps_length_digest_and_how_it_begins() -> None:
    with recording_to(recording(Limits(value_bytes=1_000))) as recorder, tracekit.run():
        assert look("a" * 5_000) == "A" * 5_000
        look("short")
    long, short = told(recorder).rows("tool_call")
    said = {"text": "a" * 5_000}
    assert long.argument_state == long.observation_state == "truncated"
    assert long.argument_digest == digest(said)
    assert told(recorder).argument(long) == {
        "$truncated": {
            "bytes": len(json_bytes(said)),
            "digest": digest(said),
            "head": json_bytes(said).decode()[:HEAD],
        }
    }
    assert short.argument_state == short.observation_state == "captured"


def test_a_prompt_over_the_limit_is_cut_and_the_next_one_does_not_rest_on_it() -> None:
    small = [{"role": "user", "content": "b" * 500}]
    with recording_to(recording(Limits(value_bytes=2_000))) as recorder, tracekit.run():
        ask(small)
        ask([*small, {"role": "user", "content": "c" * 3_000}])
        ask([*small, {"role": "user", "content": "d" * 300}])
    first, cut, last = told(recorder).rows("llm_call")
    assert [first.argument_state, cut.argument_state] == ["captured", "truncated"]
    assert "$truncated" in told(recorder).argument(cut)
    assert cut.prompt_hash is not None
    assert told(recorder).argument(last)["messages"][1]["content"] == "d" * 300


def test_a_run_that_is_full_goes_on_with_digests() -> None:
    with recording_to(recording(Limits(run_bytes=400))) as recorder:
        with tracekit.run():
            for number in range(10):
                look(f"{number}" * 60)
        with tracekit.run():
            look("room again")
    rows = told(recorder).rows("tool_call")
    assert len(rows) == 11
    kept = [row for row in rows if row.argument_blob is not None]
    gone = [row for row in rows if row.argument_blob is None]
    assert 1 <= len(kept) <= 4
    assert rows[-1] in kept
    assert {row.argument_state for row in gone} == {"truncated"}
    assert gone[-1].argument_digest == digest({"text": "9" * 60})
    first, second = told(recorder).rows("run")
    left_out = sum((row.argument_blob is None) + (row.observation_blob is None) for row in rows)
    assert f'"values_not_kept":{left_out}' in first.attributes
    assert "values_not_kept" not in second.attributes


def test_a_store_that_is_full_goes_on_with_digests_until_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x" * 10_000)
    meter = StoreMeter((tmp_path,), 10_100)
    with recording_to(recording(Limits(), meter=meter)) as recorder, tracekit.run():
        look("a" * 200)
        assert told(recorder).row().argument_blob is None
        (tmp_path / "old").unlink()
        for _ in range(1_000):
            look("b" * 200)
    assert told(recorder).rows("tool_call")[-1].argument_blob is not None


def test_a_meter_counts_what_it_gave_out_before_it_measures_again(tmp_path: Path) -> None:
    meter = StoreMeter((tmp_path, tmp_path / "inside"), 64_000)
    assert meter.has_room(1_000)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "journal").write_bytes(b"x" * 63_500)
    assert meter.has_room(1_500)
    assert not meter.has_room(1_000)


def test_limits_are_said_to_configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracekit import configuration
    from tracekit.store import open_store

    monkeypatch.setattr(configuration, "_recorder", None)
    limits = tracekit.Limits(value_bytes=100, run_bytes=10_000, store_bytes=1_000_000)
    tracekit.configure(store=tmp_path / "traces", limits=limits)
    with tracekit.run(run_id="a-run"):
        look("a" * 5_000)
    recorder = configuration.recorder()
    recorder.sink.close()
    (row,) = [
        r for r in open_store(tmp_path / "traces").events("a-run") if r.event_type == "tool_call"
    ]
    assert row.argument_state == "truncated"
    assert open_store(tmp_path / "traces").verify().sound
    assert recorder.keeper.limits == limits


@pytest.mark.parametrize("wrong", [-1, "1MB", 1.5])
def test_a_limit_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="run_bytes"):
        Limits(run_bytes=wrong)
