"""What ``tracekit doctor`` tells: each kind of finding, with what to do, and nothing is changed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tracekit
import tracekit.cli.doctor_cost as doctor_cost
from tests.recorder.record_kit import recording
from tests.store.made import NOON, facts, run
from tracekit import conditions
from tracekit.cli import main
from tracekit.events import LossNoted, RunBegun, RunEnded
from tracekit.journal import Journal
from tracekit.redact import KeyedTagger, load_key
from tracekit.sampling import Sampling
from tracekit.store import Batch, Store, open_store
from tracekit.store.places import journal_folder

KEY = "00112233445566778899aabbccddeeff"


@pytest.fixture(params=["folder", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    name = "traces.duckdb" if request.param == "file" else "traces"
    made = open_store(tmp_path / name, create=True)
    made.append(run("good"))
    return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_CALLS", "_SYNCS"):
        monkeypatch.setattr(doctor_cost, name, 3)


def doctor(store: Store | Path, *args: str, **environment: str | None) -> Result:
    path = store if isinstance(store, Path) else store.path
    return CliRunner(env=environment).invoke(main, ["doctor", "--store", str(path), *args])


def told(store: Store | Path, **environment: str | None) -> dict[str, Any]:
    """What is told as JSON, where nothing prevents it."""
    result = doctor(store, "--json", **environment)
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (1 if found["findings"] else 0)
    return found


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode,
        )
        for path in folder.rglob("*")
    }  # fmt: skip


def test_all_is_well(store: Store) -> None:
    found = told(store)
    assert (found["findings"], found["advice"]) == ([], [])
    assert list(found["facts"]) == [
        "recording", "keeps", "redaction", "spans", "versions", "integrations", "walls", "store",
        "holds", "journals", "size", "lost", "cost",
    ]  # fmt: skip
    facts = found["facts"]
    assert facts["recording"] == "on, unless the code says enabled=False"
    assert facts["keeps"].startswith(
        "all runs; durability os, on loss record; limits: value 64 MiB"
    )
    assert facts["holds"].startswith("1 run, 3 events; ")
    assert facts["holds"].endswith("schema 1")
    assert facts["lost"] == "events: 0 times; values cut or kept as digests: 0"
    assert "a recorded call with 200 B in and 1 KB out takes" in facts["cost"]
    for name in ("python 3.", "tracekit-replay ", "duckdb ", "pyarrow ", "pydantic "):
        assert name in facts["versions"]
    assert "openai " in facts["integrations"]
    assert facts["walls"].startswith("replays run behind ")


def test_it_says_how_to_get_the_walls_of_the_kernel(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "the package sandlock is not installed: pip install 'tracekit-replay[kernel]'"
    monkeypatch.setattr("replay.isolation.kernel_available", lambda: (False, why))
    assert told(store)["facts"]["walls"].endswith(f"; for the kernel's: {why}")


def test_it_changes_nothing(store: Store, tmp_path: Path) -> None:
    journal = Journal(journal_folder(store.path))
    for fact, blobs in facts("left", journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()
    (tmp_path / "config").mkdir()
    before = state(tmp_path)
    result = doctor(store, TRACEKIT_REDACTION_KEY=None, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert result.exit_code == 0, result.output
    assert "no key yet: the first process that records makes" in result.stdout
    assert state(tmp_path) == before


def test_journals_that_nobody_has_moved_are_told(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    for fact, blobs in facts("left", journal.stamp()[0]):
        journal.write(fact, blobs)
    assert told(store)["facts"]["journals"] == "1, of which 1 are being written"
    journal.close()
    found = told(store)
    assert found["facts"]["journals"] == "1, of which 0 are being written"
    (advice,) = found["advice"]
    assert advice.startswith("journals whose process is gone and that nobody has moved yet: 1;")
    assert f"tracekit compact --store {store.path}" in advice


def test_a_torn_journal_is_a_finding(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    for fact, blobs in facts("torn", journal.stamp()[0]):
        journal.write(fact, blobs)
    path = journal.path
    journal.close()
    path.write_bytes(path.read_bytes()[:-20])
    assert any("the last line is torn; lost: 1 line" in one for one in told(store)["findings"])


def _note(journal: Journal, fact: type[Any], run_id: str, at: int = NOON, **fields: Any) -> None:
    writer, seq = journal.stamp()
    journal.write(
        fact(
            writer=writer, seq=seq, timestamp_ns=at, run_id=run_id, trace_id="c" * 32,
            span_id=f"{seq:016x}" if fact is LossNoted else "d" * 16, **fields,
        ),
        [],
    )  # fmt: skip


def test_what_was_lost_is_a_finding_with_run_count_and_time(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    _note(journal, RunBegun, "r", actor="a")
    for number in range(25):
        _note(journal, LossNoted, "r", at=NOON + number, count=7, reason="disk full")
    found = told(store)
    assert found["findings"][0].startswith(
        "run r: 7 events lost: disk full (2026-11-30 12:00:00); see that there is room"
    )
    assert found["findings"][-1].startswith("events were lost 5 more times: tracekit sql")
    assert found["facts"]["lost"].startswith("events: 25 times")
    journal.close()


def test_what_no_disk_is_to_blame_for_is_told_without_a_word_about_room(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    with recording(journal), tracekit.run(run_id="r"):
        tracekit.policy("denied")  # type: ignore[arg-type]  # a mistake
    journal.close()
    (finding,) = told(store)["findings"]
    assert finding.startswith("run r: 1 event lost: policy('denied') in run is no decision: give")
    assert "room" not in finding


def test_values_that_were_cut_are_counted(store: Store) -> None:
    batch = run("cut")
    cut = [replace(row, argument_state="truncated") for row in batch.events[1:]]
    store.append(Batch((batch.events[0], *cut), batch.blobs))
    found = told(store)
    assert found["facts"]["lost"] == "events: 0 times; values cut or kept as digests: 2"
    assert found["findings"] == []


def test_what_sampling_dropped_is_told(store: Store) -> None:
    journal = Journal(journal_folder(store.path), sampling=Sampling(rate=0))
    for fact, blobs in facts("quiet", journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()
    store.settle()
    assert told(store)["facts"]["sampled"] == "1 run with 2 events dropped"


def test_what_is_off_is_told_and_by_what(store: Store) -> None:
    assert (
        told(store, TRACEKIT_DISABLED="true")["facts"]["recording"] == "off: TRACEKIT_DISABLED=true"
    )


def test_what_the_environment_says_is_told(store: Store) -> None:
    found = told(
        store,
        TRACEKIT_DURABILITY="disk",
        TRACEKIT_ON_LOSS="refuse_writes",
        TRACEKIT_LIMIT_RUN_BYTES="1MiB",
        TRACEKIT_SAMPLE_RATE="0.25",
        TRACEKIT_KEEP_IF="error,slow>30s",
        TRACEKIT_OTLP="grpc://collector:4317",
        TRACEKIT_SPANS="true",
        TRACEKIT_REDACT="name,$.a",
        TRACEKIT_REDACTION_KEY=KEY,
    )
    facts = found["facts"]
    assert facts["keeps"] == (
        "25% of runs, and those with: error, slow>30s; durability disk, on loss refuse_writes;"
        " limits: value 64 MiB, run 1 MiB"
    )
    assert facts["spans"] == (
        "ours sent to grpc://collector:4317, without content; those of other instrumentations"
        " recorded"
    )
    key_id = KeyedTagger(bytes.fromhex(KEY)).key_id
    assert facts["redaction"] == (
        f"built-in rules and 2 of the environment; key {key_id} from TRACEKIT_REDACTION_KEY"
    )
    assert KEY not in json.dumps(found)
    assert found["findings"] == []


def test_a_variable_that_is_not_understood_is_a_finding(store: Store) -> None:
    found = told(store, TRACEKIT_STOER="x", TRACEKIT_SPANS="2")
    assert found["findings"] == [
        "TRACEKIT_SPANS is not understood, it has no effect: '2' is neither true nor false"
        " (write true or false)",
        "TRACEKIT_STOER is no variable of tracekit: did you mean TRACEKIT_STORE?",
    ]


def test_a_rule_that_is_not_understood_is_told_with_what_it_does(store: Store) -> None:
    found = told(store, TRACEKIT_REDACT="re:(")
    assert found["facts"]["recording"] == "nothing is recorded: TRACEKIT_REDACT is not understood"
    (finding,) = found["findings"]
    assert "nothing is recorded until it is" in finding


def test_a_key_that_others_may_read_is_a_finding(store: Store, tmp_path: Path) -> None:
    key = tmp_path / "config" / "tracekit" / "redaction.key"
    key.parent.mkdir(parents=True)
    key.write_text(KEY)
    key.chmod(0o644)
    found = told(store, TRACEKIT_REDACTION_KEY=None, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert any("can be read by others (its mode is 0644)" in one for one in found["findings"])
    assert any("chmod 600" in one for one in found["findings"])
    assert KEY not in json.dumps(found)


def test_another_key_and_a_key_that_is_missing_are_findings(tmp_path: Path) -> None:
    mine = KeyedTagger(load_key()).key_id
    store = open_store(tmp_path / "s", create=True, redaction_key_id="0" * 16)
    (finding,) = told(store)["findings"]
    assert finding == (
        f"the redaction key here ({mine}) is not the one this store was made with ({'0' * 16})"
    )
    (finding,) = told(
        store, TRACEKIT_REDACTION_KEY=None, XDG_CONFIG_HOME=str(tmp_path / "nowhere")
    )["findings"]
    assert finding.startswith(f"the redaction key of this store ({'0' * 16}) is not here: bring it")


def test_a_file_that_others_may_read_is_a_finding(store: Store) -> None:
    place = store.path / "store.toml" if store.path.is_dir() else store.path
    place.chmod(0o640)
    (finding,) = told(store)["findings"]
    assert finding == f"{place} is open to others (mode 640): chmod -R go= {store.path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_a_finding(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", create=True)
    place = store.path / "store.toml"
    os.chown(place, 12345, -1)
    (finding,) = told(store)["findings"]
    assert finding == f"{place} belongs to user 12345, the store to user 0: chown it"


def test_events_from_the_future_and_clocks_set_back_are_told(store: Store) -> None:
    ahead = conditions.now_ns() + 3_600_000_000_000
    journal = Journal(journal_folder(store.path))
    _note(journal, RunBegun, "ahead", at=ahead, actor="a")
    _note(journal, RunEnded, "ahead", at=ahead - 1, status="ok")
    future, backwards = told(store)["advice"]
    assert future.startswith("events from the future: 1, up to ")
    assert backwards.startswith("steps that ended before they began: 1: a clock was set back")
    journal.close()


def test_many_small_files_want_to_be_joined(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", create=True)
    store.append(run("r"))
    (batch,) = (store.path / "runs").iterdir()
    for number in range(201):
        shutil.copy2(batch, batch.with_name(f"{number:03}.parquet"))
    assert any("many small batches: tracekit compact" in one for one in _told_in_full(store))


def _told_in_full(store: Store) -> list[str]:
    found: dict[str, list[str]] = json.loads(doctor(store, "--json").stdout)
    return [*found["advice"], *found["findings"]]


def test_a_store_that_is_nearly_full_is_a_finding(store: Store) -> None:
    size = sum(path.stat().st_size for path in store.path.parent.rglob("*") if path.is_file())
    assert told(store, TRACEKIT_LIMIT_STORE_BYTES=str(size * 2))["findings"] == []
    (finding,) = told(store, TRACEKIT_LIMIT_STORE_BYTES=str(size))["findings"]
    assert "above which values are kept as digests only: prune it, or raise" in finding


def test_a_disk_that_is_nearly_full_is_a_finding(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    (finding,) = told(store)["findings"]
    assert finding.startswith("the disk of the store has 1 MiB left: make room, or tracekit prune")


def test_slow_recording_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_cost, "_SLOW_US", 0)
    monkeypatch.setattr(doctor_cost, "_SLOW_SYNC_MS", 0)
    slow, dear = told(store)["advice"]
    assert slow.startswith("recording is slow: ")
    assert dear.startswith("durability disk is dear here: each wait takes")


def test_where_nothing_can_be_written_the_rest_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor_cost, "_sync_ms", full)
    assert told(store)["facts"]["cost"] == "cannot be measured: No space left on device"
    monkeypatch.setattr("tempfile.mkdtemp", full)
    result = doctor(store, TRACEKIT_SPANS="2")
    assert result.exit_code == 2
    assert "TRACEKIT_SPANS is not understood" in result.stdout
    assert f"{store.path} cannot be looked at: No space left on device" in result.stderr


def test_without_a_store_what_is_known_here_is_told_and_it_exits_with_2(tmp_path: Path) -> None:
    result = doctor(tmp_path / "nowhere", TRACEKIT_SPANS="2")
    assert result.exit_code == 2
    assert "TRACEKIT_SPANS is not understood" in result.stdout
    assert "there is no trace store at" in result.stderr
    as_json = doctor(tmp_path / "nowhere", "--json")
    assert as_json.exit_code == 2
    assert "there is no trace store at" in json.loads(as_json.stdout)["findings"][0]
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_somebody_is_writing_can_be_looked_at(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", create=True)
    store.append(run("r"))
    with (store.path / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert told(store)["findings"] == []


def test_a_redaction_key_that_cannot_be_looked_at_is_a_finding(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("no folder")
    home = str(tmp_path / "home")
    found = told(store, HOME=home, XDG_CONFIG_HOME=home, TRACEKIT_REDACTION_KEY=None)
    assert any("the redaction key" in one for one in found["findings"])
    assert found["facts"]["holds"].startswith("1 run,")
