"""A writer that dies between any two steps leaves the store as it was, or as it should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.store.made import DAY, NOON, facts, files, run
from tracekit.errors import StoreError
from tracekit.journal import Journal
from tracekit.store import Batch, Store, open_store

LATER = run("later", start=NOON + DAY)


class Killed(BaseException):
    """The process is dead: nothing it does has an effect any more."""


@contextmanager
def dying_at(step: int) -> Iterator[list[str]]:
    """Let the process die at its ``step``-th change to the folder; yield the steps it made."""
    steps: list[str] = []

    def mortal(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(steps) >= step:
                raise Killed
            steps.append(f"{name} {Path(args[-1]).name}")
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "unlink", "rmdir"):
            patch.setattr(os, name, mortal(name))
        yield steps


def _die_everywhere(
    tmp_path: Path, prepare: Callable[[Path], Any], act: Callable[[Path], Any]
) -> Iterator[tuple[Path, bool]]:
    """Yield a store for each step at which the act was killed, and whether it had got through."""
    for step in range(1000):
        path = tmp_path / f"at-{step}"
        prepare(path)
        survived = False
        with dying_at(step) as steps:
            try:
                act(path)
                survived = True
            except Killed:
                pass
        yield path, survived
        if survived:
            assert step > 0
            assert len(steps) <= step
            return


def _state(path: Path) -> list[tuple[str, int]]:
    store = open_store(path)
    counts = [(row.run_id, len(store.events(row.run_id))) for row in store.runs()]
    asked = store.sql("SELECT run_id, count(*) FROM events GROUP BY ALL").rows
    assert sorted(asked) == sorted(counts)
    assert store.verify().findings == ()
    return sorted(counts)


def _filled(path: Path) -> Store:
    store = open_store(path, create=True)
    store.append(run("first"))
    return store


def test_an_append_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    seen = []
    both = Batch((*run("second").events, *LATER.events), (*run("second").blobs, *LATER.blobs))
    for path, survived in _die_everywhere(
        tmp_path, _filled, lambda path: open_store(path).append(both)
    ):
        state = _state(path)
        seen.append(len(state))
        assert len(state) == (3 if survived else 1) or state[1:] == [("later", 3), ("second", 3)]
        assert all(open_store(path).blob(blob.digest) for blob in both.blobs) or len(state) == 1

        store = open_store(path)
        store.append(both)
        assert len(_state(path)) == 3
        store.compact()
        assert len(_state(path)) == 3
        assert not [name for name in files(path) if name.endswith(".tmp")]
    # Five renames: two days of values, two of rows, the catalogue. Only the last one commits.
    assert seen == [1, 1, 1, 1, 1, 3]


def test_a_journal_is_settled_once_wherever_it_is_interrupted(tmp_path: Path) -> None:
    def prepare(path: Path) -> None:
        _filled(path)
        journal = Journal(path / "journal")
        for fact, blobs in facts("live", journal.stamp()[0]):
            journal.write(fact, blobs)
        journal.close()

    for path, _ in _die_everywhere(tmp_path, prepare, lambda path: open_store(path).settle()):
        assert _state(path) == [("first", 3), ("live", 2)]
        open_store(path).settle()
        assert _state(path) == [("first", 3), ("live", 2)]
        assert list((path / "journal").iterdir()) == []


def test_a_compaction_loses_nothing_wherever_it_is_interrupted(tmp_path: Path) -> None:
    def prepare(path: Path) -> None:
        store = _filled(path)
        store.append(run("second", start=NOON + DAY))
        store.append(run("third"))

    expected = [("first", 3), ("second", 3), ("third", 3)]
    for path, _ in _die_everywhere(tmp_path, prepare, lambda path: open_store(path).compact()):
        assert _state(path) == expected
        open_store(path).compact()
        assert _state(path) == expected
        assert len(list((path / "runs").iterdir())) == 1


def test_a_disk_that_is_full_keeps_nothing_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(run("first"))
    before = files(store.path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.append(run("second"))

    assert files(store.path) == before


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from tests.store.made import run
from tracekit.store import open_store

store = open_store(sys.argv[1])
real = os.replace
def replace(source, target):
    if "/runs/" in str(target):
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)
os.replace = replace
store.append(run("second"))
"""


def test_a_process_killed_for_real_leaves_the_store_as_it_was(store: Store) -> None:
    store.append(run("first"))

    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(store.path)], check=False
    )

    assert killed.returncode == -signal.SIGKILL
    assert _state(store.path) == [("first", 3)]
    store.append(run("second"))  # the lock went with the process
    assert _state(store.path) == [("first", 3), ("second", 3)]
