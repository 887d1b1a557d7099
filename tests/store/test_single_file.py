"""The DuckDB file: its holder and what is wrong with it are told, and a kill costs nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from tests.store.made import NOON, facts, run
from tracekit.cli import main
from tracekit.errors import StoreBusy, StoreError, StoreVersionError
from tracekit.journal import Journal
from tracekit.store import Batch, Store, open_store
from tracekit.store.places import journal_folder

HOLD = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""
APPEND = """
import sys
from tests.store.made import run
from tracekit.store import Batch, open_store
store = open_store(sys.argv[1], create=True)
for number in range(10_000):
    many = [run(f"{number}-{place}") for place in range(20)]
    batch = Batch(sum((one.events for one in many), ()), sum((one.blobs for one in many), ()))
    print(number, flush=True)
    store.append(batch)
"""


@pytest.fixture
def form() -> str:
    return "file"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.store.database._LOOKS", 1)


@contextmanager
def _held(path: Path) -> Iterator[subprocess.Popen[str]]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        yield holder
    finally:
        holder.communicate("done\n")


def _record(store: Store, run_id: str) -> None:
    journal = Journal(journal_folder(store.path))
    for fact, blobs in facts(run_id, journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()


def _call(store: Store, *line: str) -> Result:
    return CliRunner(env={"TRACEKIT_STORE": str(store.path)}).invoke(main, [*line])


def _whole(path: Path) -> None:
    """Check that the store holds whole batches only, and no digest is wrong."""
    store = open_store(path)
    assert store.verify().findings == ()
    counts = store.sql(
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM events),"
        " (SELECT count(DISTINCT run_id) FROM events)"
    ).rows[0]
    assert counts[0] == counts[2]
    assert (counts[0] % 20, counts[1]) == (0, counts[0] * 3)


@pytest.mark.usefixtures("impatient")
def test_a_file_that_another_process_holds_names_it_and_the_way_out(store: Store) -> None:
    store.append(run("kept"))
    with _held(store.path) as holder:
        for act in (lambda: store.append(run("r")), store.runs, lambda: open_store(store.path)):
            with pytest.raises(StoreBusy) as caught:
                act()
            message, hint = caught.value.message, caught.value.hint or ""
            assert f"is held by process {holder.pid} ({sys.executable} -c" in message
            assert "\n" not in message
            assert f"tracekit convert {store.path}" in hint
            assert str(journal_folder(store.path)) in hint
        told = _call(store, "runs")
        assert (told.exit_code, told.stdout) == (2, "")
        assert told.stderr.startswith(f"Error: {store.path} is held by process {holder.pid} (")

    assert [row.run_id for row in store.runs()] == ["kept"]


@pytest.mark.usefixtures("impatient")
def test_what_is_recorded_while_the_file_is_held_is_kept_and_settled_later(store: Store) -> None:
    with _held(store.path):
        _record(store, "meanwhile")
        settled = store.settle()
        assert settled.journals == 0
        assert "is held by process" in (settled.skipped or "")
        assert list(journal_folder(store.path).glob("*.jsonl"))

    assert store.settle().journals == 1
    assert [row.run_id for row in store.runs()] == ["meanwhile"]
    assert list(journal_folder(store.path).glob("*.jsonl")) == []


def test_the_file_is_let_go_of_between_calls(store: Store) -> None:
    store.append(run("kept"))
    store.runs()
    with _held(store.path):
        pass
    assert [row.run_id for row in store.runs()] == ["kept"]


def test_a_holder_that_is_done_in_a_moment_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracekit.store.database._LOOKS", 300)
    with _held(store.path) as holder:
        assert holder.stdin is not None
        holder.stdin.write("done\n")
        holder.stdin.flush()
        assert store.runs() == []


@pytest.mark.parametrize("after", [1, 4])
def test_a_kill_in_the_middle_leaves_whole_batches_only(path: Path, after: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", APPEND, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) == after:
            break
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()

    _whole(path)
    assert len(open_store(path).runs()) in (after * 20, after * 20 + 20)
    open_store(path).append(run("later"))
    assert open_store(path).known_runs(["later", "0-0"]) == {"later", "0-0"}


def test_an_append_that_fails_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(run("kept"))
    monkeypatch.setattr("tracekit.store.single.runs_table", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.append(run("r"))
    monkeypatch.undo()

    assert store.sql("SELECT count(*) FROM events").rows == ((3,),)
    assert [row.run_id for row in store.runs()] == ["kept"]


def test_no_file_of_it_is_open_to_others_while_it_is_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracekit.store.single as single

    seen: list[int] = []
    real = single.runs_table

    def look(rows: list[object]) -> object:
        seen.extend(path.stat().st_mode & 0o077 for path in tmp_path.rglob("*"))
        return real(rows)  # type: ignore[arg-type]  # rows as they came

    monkeypatch.setattr(single, "runs_table", look)
    store.append(run("r"))

    assert len(seen) >= 3
    assert set(seen) == {0}


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 100_000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(StoreError, match="is no DuckDB file, or its beginning is damaged"):
            open_store(path, create=create)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused_and_left_alone(path: Path) -> None:
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE thesis AS SELECT 1 AS page")
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(StoreError, match="but no trace store"):
            open_store(path, create=create)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_version_is_refused(store: Store) -> None:
    store.append(run("r"))
    with duckdb.connect(str(store.path)) as base:
        base.execute("UPDATE tracekit SET schema_version = 2")
    with pytest.raises(StoreVersionError, match=r"newer version of tracekit \(schema 2"):
        open_store(store.path)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_that_was_cut_off_is_told_in_a_sentence(store: Store, share: float) -> None:
    store.append(Batch(sum((run(f"r-{number}").events for number in range(2000)), ())))
    data = store.path.read_bytes()
    store.path.write_bytes(data[: int(len(data) * share)])

    for command in ("verify", "doctor", "runs"):
        told = _call(store, command)
        assert told.exit_code in (1, 2)
        assert not isinstance(told.exception, Exception)
        assert "cannot be read" in told.stdout + told.stderr


def test_a_flipped_byte_is_found_by_verify(store: Store) -> None:
    store.append(Batch(sum((run(f"r-{number}").events for number in range(2000)), ())))
    data = bytearray(store.path.read_bytes())
    for place in range(20_000, len(data), 50_000):
        data[place] ^= 0xFF
    store.path.write_bytes(data)

    told = _call(store, "verify")

    assert told.exit_code in (1, 2)
    assert "cannot be read" in told.stdout + told.stderr


def test_a_folder_of_the_name_is_no_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="is a folder"):
        open_store(path, create=True)


def test_nothing_is_made_where_nothing_is(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no trace store at"):
        open_store(path)
    assert list(path.parent.iterdir()) == []


def test_what_was_recorded_before_there_is_a_file_is_read(path: Path) -> None:
    journal = Journal(journal_folder(path))
    for fact, blobs in facts("r", journal.stamp()[0]):
        journal.write(fact, blobs)

    assert [row.run_id for row in open_store(path).runs()] == ["r"]
    journal.close()
    assert open_store(path).settle().journals == 1
    assert path.exists()
    assert [row.run_id for row in open_store(path).runs()] == ["r"]


def test_a_column_that_an_older_version_did_not_know_is_added(store: Store) -> None:
    store.append(run("old"))
    with duckdb.connect(str(store.path)) as base:
        base.execute("ALTER TABLE events DROP COLUMN rung")
    assert open_store(store.path).events("old") == list(run("old").events)

    later = run("new", start=NOON + 1, rung="exact")
    store.append(later)

    assert store.events("new") == list(later.events)
    assert store.events("old") == list(run("old").events)


def test_a_column_of_a_later_version_is_passed_over(store: Store) -> None:
    store.append(run("r"))
    with duckdb.connect(str(store.path)) as base:
        base.execute("ALTER TABLE events ADD COLUMN mood VARCHAR DEFAULT 'fine'")
    store.append(run("s"))

    assert store.events("r") == list(run("r").events)
    assert store.sql("SELECT DISTINCT mood FROM events").rows == (("fine",),)


def test_the_commands_work_on_a_file(store: Store) -> None:
    store.append(run("kept"))
    _record(store, "recorded")

    assert "recorded" in _call(store, "runs").stdout
    assert "search" in _call(store, "show", "kept").stdout
    assert "5" in _call(store, "sql", "SELECT count(*) FROM events").stdout
    assert "one DuckDB file" in _call(store, "doctor").stdout
    for command in ("verify", "doctor", "compact"):
        assert _call(store, command).exit_code == 0


def test_the_key_of_its_placeholders_is_kept(path: Path) -> None:
    open_store(path, create=True, redaction_key_id="00ff")
    assert open_store(path).redaction_key_id == "00ff"
