"""Which paths are stores, and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.made import facts, run
from tracekit.errors import StoreError, StoreVersionError
from tracekit.journal import Journal
from tracekit.store import open_store


def test_a_path_where_nothing_is_needs_create(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no trace store at"):
        open_store(path)
    assert not path.exists()

    open_store(path, create=True)
    assert "schema_version = 1" in (path / "store.toml").read_text()


def test_a_folder_with_other_things_is_left_alone(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("mine")

    with pytest.raises(StoreError, match="no trace store"):
        open_store(path)
    with pytest.raises(StoreError, match="other things in it"):
        open_store(path, create=True)
    assert [item.name for item in path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("create", [True, False])
def test_a_file_is_no_store(path: Path, create: bool) -> None:
    path.write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        open_store(path, create=create)


def test_a_store_of_a_newer_version_is_refused_and_untouched(path: Path) -> None:
    open_store(path, create=True).append(run("r"))
    (path / "store.toml").write_text("schema_version = 2\n")
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}

    with pytest.raises(StoreVersionError, match="newer version"):
        open_store(path)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


@pytest.mark.parametrize("text", ["", "schema_version = 'x'", "][", "schema_version ="])
def test_a_damaged_store_toml_says_so(path: Path, text: str) -> None:
    open_store(path, create=True)
    (path / "store.toml").write_text(text)
    with pytest.raises(StoreError, match="does not say which schema_version"):
        open_store(path)


def test_a_folder_that_a_recorder_made_is_a_store(path: Path) -> None:
    journal = Journal(path / "journal")
    for fact, blobs in facts("r", journal.stamp()[0]):
        journal.write(fact, blobs)

    assert [row.run_id for row in open_store(path).runs()] == ["r"]
    assert [place.stat().st_mode & 0o777 for place in (path, path / "journal")] == [0o700] * 2
    journal.close()
    assert open_store(path).settle().journals == 1
    assert (path / "store.toml").exists()


def test_a_new_store_names_the_key_of_its_placeholders(path: Path) -> None:
    open_store(path, create=True, redaction_key_id="00ff")
    assert 'redaction_key_id = "00ff"' in (path / "store.toml").read_text()
