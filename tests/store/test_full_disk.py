"""A disk that takes no more stops what writes, with its reason; what is there is read all the same.

A limit on the size of files stands in for the disk: the system refuses the same writes.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from tests.store.made import facts, run
from tracekit.cli import main
from tracekit.journal import Journal
from tracekit.store import open_store
from tracekit.store.places import journal_folder

NO_ROOM = "File too large"


@contextmanager
def _room(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _record(path: Path, run_id: str) -> None:
    journal = Journal(journal_folder(path))
    for fact, blobs in facts(run_id, journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()


def _call(store: Path, *args: str) -> Result:
    return CliRunner().invoke(main, [*args, "--store", str(store)])


@pytest.fixture(params=["folder", "file"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("size", [0, 4096, 12_288, 100_000, 270_000])
def test_a_store_that_could_not_be_made_yet_is_read_from_its_journals(
    path: Path, size: int
) -> None:
    _record(path, "kept")
    with _room(size):
        listed = _call(path, "runs")
        checked = _call(path, "verify")

    assert (listed.exit_code, checked.exit_code) == (0, 0)
    assert "kept" in listed.stdout
    assert "1 run, 2 events" in checked.stdout
    assert _call(path, "compact").exit_code == 0
    assert "1 run, 2 events" in _call(path, "verify").stdout
    assert list(journal_folder(path).glob("*.jsonl")) == []


@pytest.mark.parametrize("filled", [False, True])
def test_compacting_says_what_was_not_settled_and_why(path: Path, filled: bool) -> None:
    if filled:
        open_store(path, create=True).append(run("before"))
    _record(path, "kept")
    with _room(0):
        told = _call(path, "compact")

    assert told.exit_code == 2
    assert told.stderr.startswith(f"Error: the journals of {path} could not be settled: ")
    assert NO_ROOM in told.stderr
    assert len(list(journal_folder(path).glob("*.jsonl"))) == 1


@pytest.mark.parametrize("filled", [False, True])
def test_every_command_that_reads_goes_on(path: Path, filled: bool) -> None:
    if filled:
        open_store(path, create=True).append(run("before"))
    _record(path, "kept")
    with _room(0):
        for command in (
            ["runs"], ["show", "kept"], ["sql", "SELECT * FROM runs"], ["verify"], ["scan"],
            ["prune", "--tenant", "nobody", "--dry-run"],
        ):  # fmt: skip
            told = _call(path, *command)
            assert told.exit_code == 0, (command, told.output)


def test_what_cannot_be_pruned_is_an_error_and_says_why(path: Path) -> None:
    store = open_store(path, create=True)
    both = run("old"), run("new", tenant="acme")
    for batch in both:
        store.append(batch)
    _record(path, "kept")
    with _room(0):
        told = _call(path, "prune", "--older-than", "2027-01-01")

    assert told.exit_code in ({1, 2} if path.is_dir() else {2})
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert "kept" in _call(path, "runs").stdout


def test_a_file_of_which_nothing_was_made_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "traces.duckdb"
    _record(path, "kept")
    duckdb.connect(str(path)).close()

    assert [row.run_id for row in open_store(path).runs()] == ["kept"]
    assert len(open_store(path).sql("SELECT * FROM payloads").rows) == 1
    assert "1 run, 2 events" in _call(path, "verify").stdout
    assert list(journal_folder(path).glob("*.jsonl")) == []
    with duckdb.connect(str(path), read_only=True) as base:
        assert base.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]


def test_an_empty_database_of_somebody_else_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    duckdb.connect(str(path)).close()
    told = _call(path, "runs")
    assert told.exit_code == 2
    assert "is a DuckDB file, but no trace store" in told.stderr


@pytest.mark.parametrize("target", ["new.duckdb", "new"])
@pytest.mark.parametrize("size", [0, 4096, 12_288, 100_000, 500_000])
def test_converting_without_room_is_one_sentence_and_leaves_nothing(
    path: Path, tmp_path: Path, target: str, size: int
) -> None:
    store = open_store(path, create=True)
    for number in range(3):
        store.append(run(f"run-{number}", calls=200))
    new = tmp_path / "there" / target
    with _room(size):
        told = CliRunner().invoke(main, ["convert", str(path), str(new)])
    if told.exit_code == 0:
        assert len(open_store(new).runs()) == 3
        return
    assert told.exit_code == 2
    assert NO_ROOM in told.stderr
    assert told.stderr.startswith("Error: ")
    assert [entry.name for entry in new.parent.glob("*")] == []
