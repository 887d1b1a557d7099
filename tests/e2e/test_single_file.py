"""An agent records into a DuckDB file, and everything after that works on the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = """
import os, sys
import tracekit

tracekit.configure(store="traces.duckdb")

@tracekit.tool(effect="read")
def look(what: str) -> str:
    return what * 2

@tracekit.agent
def ask(what: str) -> str:
    found = look(what)
    if "bad" in what:
        raise ValueError(f"cannot use {found}")
    return found

if __name__ == "__main__":
    for what in sys.argv[1:]:
        try:
            ask(what)
        except ValueError:
            pass
    os._exit(0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    _run(tmp_path, sys.executable, "agent.py", "good", "bad")
    return tmp_path


def _run(folder: Path, *line: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "TRACEKIT_STORE": "traces.duckdb"}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _tracekit(folder: Path, *line: str) -> str:
    return _run(folder, sys.executable, "-m", "tracekit", *line)


def test_a_run_is_recorded_replayed_and_distilled_in_one_file(folder: Path) -> None:
    assert not (folder / "traces.duckdb").exists()  # the process that recorded never touched it
    runs = {row["status"]: row["run_id"] for row in json.loads(_tracekit(folder, "runs", "--json"))}

    replayed = _tracekit(folder, "replay", "--run-id", runs["ok"], "--planner", "agent:ask")
    assert replayed.startswith("PASS")
    line = ("--run-id", runs["error"], "--planner", "agent:ask", "--out", "cases")
    _tracekit(folder, "distill", *line)
    assert list((folder / "cases").glob("*.case.yaml"))

    kept = json.loads(_tracekit(folder, "runs", "--json"))
    assert {row["replay_of"] for row in kept} >= {None, runs["ok"]}
    assert "sound" in _tracekit(folder, "verify")
    _tracekit(folder, "convert", "traces.duckdb", "folder")
    assert json.loads(_tracekit(folder, "runs", "--store", "folder", "--json")) == kept
