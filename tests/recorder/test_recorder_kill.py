"""A real process ends badly, and `tracekit show` tells all that it had begun and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracekit.journal import owner_alive
from tracekit.store import open_store

ROOT = Path(__file__).parents[2]
AGENT = """
import multiprocessing, os, signal, sys, threading, time
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return {"n": n}

@tracekit.tool(effect="write")
def slow(how):
    if how == "wait":
        print("under way", flush=True)
        signal.pause()
    if how == "os._exit":
        os._exit(3)
    if how == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)

@tracekit.agent
def work(how):
    for n in range(3):
        look(n)
    slow(how)
    return "never"

@tracekit.agent
def forking():
    look(0)
    child = os.fork()
    if child == 0:
        look(1)
        os._exit(0)
    os.waitpid(child, 0)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(look, [2])
    look(3)
    return "done"

with tracekit.run(run_id="the-run", name="outer"):
    forking() if sys.argv[1] == "fork" else work(sys.argv[1])
"""


def _start(tmp_path: Path, how: str) -> subprocess.Popen[str]:
    (tmp_path / "agent.py").write_text(AGENT)
    return subprocess.Popen(
        [sys.executable, "agent.py", how],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def _show(tmp_path: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "show", "the-run", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _steps(tmp_path: Path) -> list[tuple[str, str, bool]]:
    rows: Any = open_store(tmp_path / ".tracekit").events("the-run")
    return [(row.event_type, row.actor, row.ts_end_ns is not None) for row in rows]


ALL_STEPS = [
    ("run", "outer", False),
    ("agent", "work", False),
    ("tool_call", "look", True),
    ("tool_call", "look", True),
    ("tool_call", "look", True),
    ("tool_call", "slow", False),
]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
def test_a_killed_run_shows_its_finished_steps_and_the_one_under_way(
    tmp_path: Path, how: signal.Signals
) -> None:
    child = _start(tmp_path, "wait")
    assert child.stdout is not None
    assert child.stdout.readline() == "under way\n"
    child.send_signal(how)
    child.communicate()
    assert child.returncode == -how
    text = _show(tmp_path)
    assert text.count("look") == 3
    assert text.count("slow") == 1
    assert "under way" in text
    assert _steps(tmp_path) == ALL_STEPS
    assert json.loads(_show(tmp_path, "--json"))["run"]["status"] == "open"


def test_a_process_that_leaves_without_a_word_loses_nothing(tmp_path: Path) -> None:
    child = _start(tmp_path, "os._exit")
    child.communicate()
    assert child.returncode == 3
    assert _steps(tmp_path) == ALL_STEPS


def test_a_frozen_process_is_complete_on_disk_and_is_not_taken_for_gone(tmp_path: Path) -> None:
    child = _start(tmp_path, "freeze")
    try:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        (journal,) = (tmp_path / ".tracekit" / "journal").iterdir()
        assert owner_alive(journal)
        assert _steps(tmp_path) == ALL_STEPS
        assert journal.exists()
    finally:
        child.kill()
        child.communicate()


def test_forked_children_write_their_own_journals_into_the_same_run(tmp_path: Path) -> None:
    child = _start(tmp_path, "fork")
    child.communicate()
    assert child.returncode == 0
    rows = open_store(tmp_path / ".tracekit").events("the-run")
    looks = [row for row in rows if row.actor == "look"]
    agent = next(row for row in rows if row.actor == "forking")
    assert len({row.writer for row in looks}) == 3
    assert {row.parent_span_id for row in looks} == {agent.span_id}
    assert all(row.status == "ok" for row in rows)
    assert len({row.span_id for row in rows}) == len(rows)


def test_the_journal_and_its_folder_are_the_users_alone(tmp_path: Path) -> None:
    _start(tmp_path, "os._exit").communicate()
    folder = tmp_path / ".tracekit" / "journal"
    (journal,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, journal.stat().st_mode & 0o777) == (0o700, 0o600)
