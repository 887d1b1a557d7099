"""Temporary folders go with the process that made them, also where it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit import leftovers

HOLDS = """
import sys
from tracekit.leftovers import HeldFolder
folder = HeldFolder("test")
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(leftovers.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(leftovers, "_swept", set())
    return tmp_path


def test_a_folder_is_there_until_it_is_removed(folder: Path) -> None:
    with leftovers.HeldFolder("test") as made:
        (made / "file").write_text("x")
        assert [path.name[:14] for path in folder.iterdir()] == ["tracekit-test-"]
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_is_taken_away_and_what_a_living_one_holds_is_not(
    folder: Path,
) -> None:
    (folder / "tracekit-of-somebody-else").mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
        text=True,
    )
    with other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        assert left.parent == folder.resolve()
        with leftovers.HeldFolder("test"):
            assert (left / "file").exists()
        other.send_signal(signal.SIGKILL)
        other.wait()
    with leftovers.HeldFolder("test"):
        assert left.exists()  # one look a process is enough
    leftovers.sweep(str(folder))
    assert [path.name for path in folder.iterdir()] == ["tracekit-of-somebody-else"]
