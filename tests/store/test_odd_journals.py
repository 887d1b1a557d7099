"""What stands among the journals and is none is named, and stops nobody; the rest is read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.store.made import facts
from tracekit import journal_reading
from tracekit.cli import main
from tracekit.journal import Journal
from tracekit.store import Store, open_store
from tracekit.store.places import journal_folder

ODD = ["folder", "loop", "link", "pipe"]
pytestmark = pytest.mark.parametrize("form", ["folder", "file"])


def _record(store: Path, run_id: str) -> Path:
    journal = Journal(journal_folder(store))
    for fact, blobs in facts(run_id, journal.stamp()[0]):
        journal.write(fact, blobs)
    path = journal.path
    journal.close()
    return path


def _put(folder: Path, kind: str) -> Path:
    odd = folder / "odd.jsonl"
    match kind:
        case "folder":
            odd.mkdir()
        case "loop":
            odd.symlink_to(odd)
        case "link":
            odd.symlink_to(folder.parent / "elsewhere")
        case "pipe":
            os.mkfifo(odd)
        case _:
            raise AssertionError(kind)
    return odd


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_among_the_journals_is_named_and_the_rest_is_read(
    path: Path, kind: str
) -> None:
    _record(path, "kept")
    _put(journal_folder(path), kind)
    store = open_store(path)

    assert [row.run_id for row in store.runs()] == ["kept"]
    assert store.settle().journals == 1
    assert [row.run_id for row in store.runs()] == ["kept"]
    (problem,) = store.problems
    word = {"loop": "link"}.get(kind, kind)
    assert str(problem).startswith(f"journal/odd.jsonl: it is a {word}, and a journal is a file;")
    assert store.verify().findings == (str(problem),)


@pytest.mark.parametrize("kind", ODD)
def test_every_command_goes_on_past_what_is_no_file(path: Path, kind: str) -> None:
    _record(path, "kept")
    _put(journal_folder(path), kind)
    runner = CliRunner(env={"TRACEKIT_STORE": str(path)})

    listed = runner.invoke(main, ["runs"])
    assert (listed.exit_code, "kept" in listed.stdout) == (0, True)
    assert "Warning: journal/odd.jsonl: it is a" in listed.stderr
    told = runner.invoke(main, ["doctor"])
    assert told.exit_code == 1
    assert "finding       journal/odd.jsonl: it is a" in told.stdout
    assert runner.invoke(main, ["show", "kept"]).exit_code == 0
    assert runner.invoke(main, ["sql", "SELECT * FROM events"]).exit_code == 0
    assert runner.invoke(main, ["scan"]).exit_code == 0
    joined = runner.invoke(main, ["compact"])
    assert joined.exit_code == 2
    assert "Error: not settled: journal/odd.jsonl: it is a" in joined.stderr


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EIO])
def test_a_journal_that_cannot_be_read_is_named_and_left_and_the_others_are_settled(
    path: Path, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _record(path, "kept")
    bad = _record(path, "lost")
    real = os.open

    def failing(name: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(name) == bad:
            raise OSError(fault, os.strerror(fault), str(name))
        return real(name, flags, mode)

    store = open_store(path)
    with monkeypatch.context() as patch:
        patch.setattr(journal_reading.os, "open", failing)
        assert store.settle().journals == 1
        assert [row.run_id for row in store.runs()] == ["kept"]
        (problem,) = store.problems
        assert problem.path == f"journal/{bad.name}"
        assert problem.what == f"it cannot be read ({os.strerror(fault)})"

    assert sorted(row.run_id for row in open_store(path).runs()) == ["kept", "lost"]


def test_a_line_that_the_model_refuses_is_named_by_its_field(store: Store) -> None:
    path = _record(store.path, "kept")
    lines = path.read_text().splitlines()
    assert '"actor":"live"' in lines[1]
    lines[1] = lines[1].replace('"actor":"live"', '"actor":5')
    path.write_text("\n".join(lines) + "\n")

    (problem,) = store.problems
    assert str(problem) == (
        f"journal/{path.name}: line 2 cannot be read (its field 'actor': input should be a valid"
        " string); lost: 1 line"
    )


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_among_the_journals_put_aside_stops_nobody(path: Path, kind: str) -> None:
    _record(path, "kept")
    folder = path if path.suffix != ".duckdb" else journal_folder(path)
    (folder / "damaged").mkdir()
    _put(folder / "damaged", kind)

    assert len(open_store(path).problems) == 1
    assert CliRunner().invoke(main, ["scan", "--store", str(path)]).exit_code == 0


def test_what_is_verified_is_what_is_asked_for_while_begins_are_held_back(path: Path) -> None:
    journal = Journal(journal_folder(path), max_bytes=500)
    writer = journal.stamp()[0]
    for fact, blobs in (*facts("alive", writer)[:-1], *facts("next", writer, ended=False)):
        journal.write(fact, blobs)
    store = open_store(path)
    assert store.settle().events == 1
    report = store.verify()

    counts = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM payloads)"
    assert store.sql(counts).rows == ((report.events, report.blobs),)
    assert (report.events, report.findings) == (4, ())
    journal.close()
