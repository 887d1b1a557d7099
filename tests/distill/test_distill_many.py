"""Many failing runs become one case an incident, through the command as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

AGENT = """
import sys
import tracekit

tracekit.configure(store="traces")

@tracekit.tool(effect="read")
def look(what: str) -> dict:
    return {"note": what, "weather": "fine"}

@tracekit.tool(effect="write")
def pay(whom: str) -> str:
    return "paid"

@tracekit.agent
def ask(what: str, often: int = 1) -> str:
    for _ in range(often):
        note = look(what)["note"]
    if "crash" in note:
        raise ValueError(f"cannot read {note}")
    if "pay" in note:
        pay(note.split()[-1])
    return "it says " + note

def careful(what: str, often: int = 1) -> str:
    return "it says " + look(what)["note"]

if __name__ == "__main__":
    for what in sys.argv[1:]:
        try:
            ask(what, often=what.count("!") + 1)
        except ValueError:
            pass
"""
RUNS = ["all is well", "crash here !!!", "crash there", "please pay bob !", "crash everywhere !"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("recorded")
    (place / "agent.py").write_text(AGENT)
    _run(place, [sys.executable, "agent.py", *RUNS], code=0)
    return place


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "work"))


def _run(folder: Path, line: Sequence[str], *, code: int) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "TRACEKIT_STORE": "traces"}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _distill(folder: Path, *line: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "tracekit", "distill", "--planner", "agent:ask", *line]
    return _run(folder, command, code=code)


def _groups(text: str) -> dict[str, Any]:
    told = json.loads(text)
    assert told["format"] == "tracekit/distill-many/v1"
    return {group["reason"]["oracle"]: group for group in told["groups"]}


def test_runs_that_fail_alike_get_one_case_and_a_second_time_none(folder: Path) -> None:
    first = _groups(_distill(folder, "--since", "1d", "--signature", "error:ValueError", "--json"))
    group = first["error"]
    assert len(group["runs"]) == 3
    assert len(list((folder / "cases").glob("*.case.yaml"))) == 1
    (path,) = (folder / "cases").glob("*.case.yaml")
    text = path.read_text()
    assert group["runs"][0] in text  # the smallest stands for all
    assert group["result"]["before"]["observations"] == 1

    again = _groups(_distill(folder, "--since", "1d", "--signature", "error:ValueError", "--json"))
    assert again["error"]["covered_by"].endswith(path.name)
    assert again["error"]["result"] is None
    assert path.read_text() == text


def test_each_reason_is_a_group_and_what_does_not_fail_is_told(folder: Path) -> None:
    told = _distill(folder, "--limit", "9", "--fixed", "agent:careful")
    assert told.startswith("4 runs of 5 fail with agent:ask, for 2 reasons\n\nerror ValueError")
    assert "forbidden tools pay  (1 run)" in told
    assert "no case for 1 run:" in told
    assert len(list((folder / "cases").glob("*.case.yaml"))) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ((), "no run is named and none are chosen"),
        (("--run-id", "01", "--failed"), "--run-id names one run"),
        (("--failed", "--reference", "01"), "are about one run"),
        (("--tag", "nowhere"), "no runs match"),
        (("--failed", "--budget-seconds", "nan"), "'nan' is no amount"),
        (("--failed", "--budget-usd", "nan", "--model", "live"), "'nan' is no amount"),
        (("--failed", "--budget-usd", "0"), "--budget-usd is about --model live"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(
    folder: Path, line: tuple[str, ...], said: str
) -> None:
    told = _distill(folder, *line, code=2)
    assert said in told
    assert "Traceback" not in told
    assert not (folder / "cases").exists()
