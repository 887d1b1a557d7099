"""What a store holds is not removed, and what it lost is told, whatever happened to it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from tests.store.made import facts, files, run
from tracekit.cli import main
from tracekit.journal import Journal
from tracekit.store import Store, open_store


def _call(store: Store, *line: str) -> Result:
    return CliRunner(env={"TRACEKIT_STORE": str(store.path)}).invoke(main, [*line])


def _parquet(store: Store) -> set[str]:
    return {name for name in files(store.path) if name.endswith(".parquet")}


@pytest.mark.parametrize("lost", ["one file", "the folder"])
def test_rows_whose_catalogue_file_is_gone_are_named_and_never_removed(
    store: Store, lost: str
) -> None:
    store.append(run("first"))
    store.append(run("second"))
    (first, second) = sorted((store.path / "runs").iterdir())
    gone = [first] if lost == "one file" else [first, second]
    saved = {path: path.read_bytes() for path in gone}
    for path in gone:
        path.unlink()
    if lost == "the folder":
        (store.path / "runs").rmdir()
        (store.path / "runs").write_text("")
    before = _parquet(store)

    told = _call(store, "doctor")
    assert open_store(store.path).compact().removed_files == 0

    assert told.exit_code == 1
    assert f"events/day=2026-11-30/{first.name}: it has rows that are nowhere else" in told.stdout
    assert f"lost runs/{first.name}" in told.stdout
    assert before <= _parquet(store)
    if lost == "the folder":
        (store.path / "runs").unlink()
        (store.path / "runs").mkdir()
    for path, data in saved.items():
        path.write_bytes(data)
    assert {row.run_id for row in open_store(store.path).runs()} == {"first", "second"}


def test_left_overs_go_once_what_they_hold_is_kept(store: Store) -> None:
    store.append(run("other"))
    before = _parquet(store)
    store.append(run("again"))
    (late,) = {name for name in _parquet(store) - before if name.startswith("runs/")}
    (store.path / late).unlink()
    assert _call(store, "doctor").exit_code == 1

    again = open_store(store.path)
    again.append(run("again"))

    assert again.compact().removed_files > 0
    assert _call(store, "doctor").exit_code == 0
    assert {row.run_id for row in again.runs()} == {"other", "again"}
    assert again.verify().sound


def test_a_torn_journal_is_told_by_every_command_until_somebody_removed_it(store: Store) -> None:
    journal = Journal(store.path / "journal")
    for fact, blobs in facts("torn", journal.stamp()[0]):
        journal.write(fact, blobs)
    path = journal.path
    journal.close()
    path.write_bytes(path.read_bytes()[:-20])

    for _ in range(2):
        shown = _call(store, "runs")
        assert (shown.exit_code, "torn" in shown.stdout) == (0, True)
        assert f"Warning: damaged/{path.name}: the last line is torn" in shown.stderr
        assert "lost: 1 line" in shown.stderr
        for command in ("verify", "doctor"):
            checked = _call(store, command)
            assert checked.exit_code == 1
            assert f"damaged/{path.name}: the last line is torn" in checked.stdout

    (store.path / "damaged" / path.name).unlink()
    assert [_call(store, command).exit_code for command in ("verify", "doctor")] == [0, 0]
