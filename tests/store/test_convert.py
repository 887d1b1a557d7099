"""A store of one form becomes one of the other, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.store.made import DAY, NOON, facts, run, text
from tracekit.canonical import digest_bytes
from tracekit.cli import main
from tracekit.events import Blob
from tracekit.journal import Journal
from tracekit.store import Batch, Store, open_store
from tracekit.store.places import journal_folder

STRANGE = Blob(
    digest=digest_bytes(b"\x00\xff"), media_type="application/vnd.test.part+x", data=b"\x00\xff"
)
WAYS = [("from", "to.duckdb"), ("from.duckdb", "to"), ("from", "to"), ("from.duckdb", "to.duckdb")]

CONVERT = """
import sys
from pathlib import Path
import tracekit.store.converting as converting
from tracekit.store import open_store

def told(done, total):
    print(done, flush=True)
    sys.stdin.readline()

make = lambda path: open_store(path, create=True)
converting._CHUNK_EVENTS = 1
converting.convert(open_store(sys.argv[1]), Path(sys.argv[2]), make, progress=told)
"""


def _filled(path: Path) -> Store:
    store = open_store(path, create=True, redaction_key_id="00ff")
    for number in range(5):
        store.append(run(f"r-{number}", start=NOON + (number % 2) * DAY, calls=number))
    store.append(run("r-1", calls=9))
    store.append(Batch((), (STRANGE, text("named by no row")[0])))
    store.append(run("timeless", calls=0, ts_start_ns=None, attributes='{"b":1,"a":[1.0,null]}'))
    return store


def _content(store: Store) -> object:
    runs = store.runs()
    digests = [row[0] for row in store.sql("SELECT digest FROM payloads ORDER BY ALL").rows]
    return runs, [store.events(row.run_id) for row in runs], [store.blob(one) for one in digests]


def _convert(*line: str) -> Result:
    return CliRunner().invoke(main, ["convert", *line])


@pytest.mark.parametrize(("before", "after"), WAYS)
def test_nothing_is_lost_either_way(tmp_path: Path, before: str, after: str) -> None:
    source = _filled(tmp_path / before)
    content = _content(source)

    done = _convert(str(source.path), str(tmp_path / after))

    assert (done.exit_code, done.stderr) == (0, "")
    made = open_store(tmp_path / after)
    assert _content(made) == content
    assert _content(source) == content
    assert made.blob(STRANGE.digest) == STRANGE
    assert made.verify().findings == ()
    assert made.redaction_key_id == "00ff"
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077] == []


def test_there_and_back_is_the_same(tmp_path: Path) -> None:
    source = _filled(tmp_path / "from")
    for before, after in (("from", "there.duckdb"), ("there.duckdb", "back")):
        assert _convert(str(tmp_path / before), str(tmp_path / after)).exit_code == 0
    assert _content(open_store(tmp_path / "back")) == _content(source)


# Of 29 values: in 16 pages, and in 256.
@pytest.mark.parametrize("page_values", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_values_that_are_listed_a_page_at_a_time_all_go_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_values: int
) -> None:
    source = _filled(tmp_path / "from")
    assert source.sql("SELECT count(*) > 3 FROM payloads").rows == ((True,),)
    monkeypatch.setattr("tracekit.store.converting._PAGE_VALUES", page_values)
    monkeypatch.setattr("tracekit.store.converting._CHUNK_EVENTS", 1)

    assert _convert(str(source.path), str(tmp_path / "to.duckdb")).exit_code == 0
    assert _content(open_store(tmp_path / "to.duckdb")) == _content(source)


@pytest.mark.parametrize(("before", "after"), WAYS[:2])
def test_what_is_being_recorded_goes_along(tmp_path: Path, before: str, after: str) -> None:
    source = _filled(tmp_path / before)
    journal = Journal(journal_folder(source.path))
    for fact, blobs in facts("live", journal.stamp()[0], ended=False):
        journal.write(fact, blobs)
    content = _content(source)

    assert _convert(str(source.path), str(tmp_path / after)).exit_code == 0

    assert _content(open_store(tmp_path / after)) == content
    assert journal.path.exists()


@pytest.mark.parametrize("after", ["to", "to.duckdb"])
def test_what_is_there_is_refused_and_left_alone(tmp_path: Path, after: str) -> None:
    source = _filled(tmp_path / "from")
    there = open_store(tmp_path / after, create=True)
    there.append(run("mine"))

    done = _convert(str(source.path), str(there.path))

    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert [row.run_id for row in there.runs()] == ["mine"]


def test_journals_of_another_store_of_the_name_are_not_taken_over(tmp_path: Path) -> None:
    source = _filled(tmp_path / "from")
    target = tmp_path / "to.duckdb"
    journal = Journal(journal_folder(target))
    for fact, blobs in facts("other", journal.stamp()[0]):
        journal.write(fact, blobs)

    done = _convert(str(source.path), str(target))

    assert done.exit_code == 2
    assert "journals of another store" in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("after", ["to", "to.duckdb"])
def test_who_is_killed_leaves_nothing_and_may_begin_again(tmp_path: Path, after: str) -> None:
    source = _filled(tmp_path / "from")
    target = tmp_path / after
    converting = subprocess.Popen(
        [sys.executable, "-c", CONVERT, str(source.path), str(target)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert converting.stdout is not None
    assert converting.stdout.readline()
    busy = _convert(str(source.path), str(target))
    os.kill(converting.pid, signal.SIGKILL)
    converting.communicate()

    assert busy.exit_code == 2
    assert "another process is just converting" in busy.stderr
    assert not target.exists()
    assert _convert(str(source.path), str(target)).exit_code == 0
    assert _content(open_store(target)) == _content(source)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["from", after])


def test_a_damaged_store_goes_over_as_far_as_it_is_read_and_says_so(tmp_path: Path) -> None:
    source = open_store(tmp_path / "from", create=True)
    source.append(run("first"))
    source.append(run("second", start=NOON + DAY))
    (lost,) = (source.path / "events" / "day=2026-11-30").iterdir()
    lost.unlink()

    done = _convert(str(source.path), str(tmp_path / "to.duckdb"))

    assert done.exit_code == 1
    assert "it is missing" in done.stderr
    assert [row.run_id for row in open_store(tmp_path / "to.duckdb").runs()] == ["second"]


def test_a_file_is_no_source(tmp_path: Path) -> None:
    done = _convert(str(tmp_path / "none"), str(tmp_path / "to.duckdb"))
    assert (done.exit_code, "there is no trace store" in done.stderr) == (2, True)
