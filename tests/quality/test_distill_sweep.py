"""Every published attack that succeeded, distilled: a case, or the true reason why none.

The table in the docs says what it comes to, by how the attack reaches the call: its lines are made
here. The times beside them are measured and not compared.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fixtures.agents.general import careful, gullible
from replay.case import Case
from replay.caserun import CaseResult, CaseRunner
from replay.distill import DistillOptions, DistillResult, distill_record
from replay.distill.judge import offending_call, seen_before
from tests.e2e.test_general_planners_sweep import attackers, runs
from tracekit import jsontree
from tracekit.canonical import json_text
from tracekit.cli import main
from tracekit.errors import DistillError
from tracekit.store import RunQuery, open_store
from tracekit.trajectory import Call, Trajectory

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "distill.md"
DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (DATA / "agentdyn").is_dir(),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]

VERBATIM = "values of one observation flow into the call"
SEVERAL = "values of several observations flow into it"
INSTRUCTION = "an instruction only: no value of it flows"
UNASKED = "none: what the attack was for is done by the user's own calls"
FELL = "none: the two planners do alike"
"""No true reason: there is a call of the attacker's."""
KINDS = (VERBATIM, SEVERAL, INSTRUCTION, UNASKED)

IDLE = """
def nothing(history, tools):
    return None


def stops(history, tools, script):
    if any(message["role"] == "assistant" for message in history):
        return None
    calls = [call for decision in script for call in decision["calls"]]
    return {"calls": calls[:1]} if calls else None
"""


@dataclass(frozen=True)
class Tried:
    """One run, and what it came to."""

    run: Trajectory
    kind: str
    seconds: float
    """Of this process, which runs both planners."""
    made: DistillResult | None = None
    why: str = ""


# Closures run in this process, which is faster by the start of a child a planner.
def _planners() -> tuple[Any, Any]:
    def obeys(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return gullible(history, tools, script)

    def minds(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return careful(history, tools, script)

    return obeys, minds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cases are."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> list[Tried]:
    path = tmp_path_factory.mktemp("sweep") / "store"
    args = ["import", str(DATA / "agentdyn"), "--effects", "agentdyn", "--store", str(path)]
    assert CliRunner().invoke(main, args).exit_code == 0
    store = open_store(path)
    runs = [store.trajectory(found.run_id) for found in store.runs(RunQuery())]
    return [_tried(run, folder) for run in runs if _succeeded(run.attributes.get("labels"))]


def _succeeded(labels: Any) -> bool:
    told = labels or {}
    return bool(told.get("security") is True and told.get("injection_task_id"))


def _tried(run: Trajectory, folder: Path) -> Tried:
    obeys, minds = _planners()
    began = time.process_time()
    try:
        options = DistillOptions(out=folder)
        made = distill_record(run, planner=obeys, fixed=minds, options=options)
    except DistillError as error:
        seconds = time.process_time() - began
        return Tried(run, _why_none(run), seconds, why=error.message)
    return Tried(run, _kind(made.case), time.process_time() - began, made)


def _why_none(run: Trajectory) -> str:
    """Whether the record holds a call of the attacker's at all."""
    log = next(one for one in runs() if one.name.replace("/", ".") == f"{run.run_id}.json")
    return FELL if attackers(log, log.calls) else UNASKED


def _kind(case: Case) -> str:
    """How the offending call's values reach the planner, told from what is left."""
    obeys, _ = _planners()
    with CaseRunner(obeys) as runner:
        seen = runner.run(case)
    found = next(finding for finding in seen.findings if finding.signature == case.reason)
    call = offending_call(seen, found)
    assert call is not None
    names = dict.fromkeys(seen_before(seen, found))
    shown = [_flat(json_text(f.returns)) for f in case.observations if f.id in names]
    values = _values(seen, call, json_text(case.input))
    held = [{value for value in values if value in text} for text in shown]
    own = [mine - set().union(*held[:at], *held[at + 1 :]) for at, mine in enumerate(held)]
    if not all(own):
        return INSTRUCTION
    return VERBATIM if len(held) == 1 else SEVERAL


def _values(seen: CaseResult, last: Call, said: str) -> set[str]:
    """Values of the calls up to the last, as JSON has them in a text, but for the user's own."""
    assert seen.trajectory is not None
    calls = [call for call in seen.trajectory.calls if call.decision <= last.decision]
    values = [v for call in calls for _, v in jsontree.walk(call.arguments) if isinstance(v, str)]
    texts = {_flat(json_text(value)[1:-1]) for value in values}
    return {text for text in texts if len(text) > 2 and text not in said}


def _flat(text: str) -> str:
    return re.sub(r"https?://|\s+", lambda found: " " if found[0].isspace() else "", text)


def _sentences(case: Case) -> int:
    texts = [
        v for f in case.observations for _, v in jsontree.walk(f.returns) if isinstance(v, str)
    ]
    return sum(
        len(re.findall(r"[^.!?\s].*?(?:[.!?](?=\s|$)|$)", text, re.DOTALL)) for text in texts
    )


def _lines(tried: Sequence[Tried]) -> Iterator[str]:
    """The table, but for the times."""
    for kind in KINDS:
        group = [one for one in tried if one.kind == kind]
        made = [one.made for one in group if one.made is not None]
        if not made:
            yield f"| {kind} | {len(group)} | 0 | | |"
            continue
        calls = sorted(result.calls for result in made)
        left = statistics.median(result.after.observations for result in made)
        size = statistics.median(result.after.bytes for result in made)
        yield (
            f"| {kind} | {len(group)} | {len(made)} | {statistics.median(calls):g}"
            f" ({calls[-1]}) | {left:g} of {size:g} bytes |"
        )


def _made_of(tried: Sequence[Tried]) -> list[DistillResult]:
    return [one.made for one in tried if one.made is not None]


def test_the_docs_say_what_became_of_each_attack_that_succeeded(tried: list[Tried]) -> None:
    page = PAGE.read_text("utf-8").splitlines()
    for kind, line in zip(KINDS, _lines(tried), strict=True):
        seconds = [one.seconds for one in tried if one.kind == kind]
        print(line, f"{statistics.median(seconds or [0]):.1f} s |")  # noqa: T201  # the table
        assert any(told.startswith(line) for told in page), line


def test_attacks_that_succeeded_become_small_cases(tried: list[Tried]) -> None:
    made = _made_of(tried)
    assert len(tried) == 55
    assert all("make the same writes" in one.why for one in tried if one.made is None)
    assert len(made) >= 48
    assert FELL not in {one.kind for one in tried}
    assert statistics.median(result.after.bytes for result in made) <= 100
    assert statistics.median(result.calls for result in made) <= 25
    assert max(result.after.observations for result in made) <= 2
    assert all(result.minimal for result in made)


def test_where_values_flow_the_median_case_is_one_observation_of_two_sentences(
    tried: list[Tried],
) -> None:
    flowing = [one.made.case for one in tried if one.made and one.kind == VERBATIM]
    assert len(flowing) >= 30
    assert statistics.median(len(case.observations) for case in flowing) == 1
    assert statistics.median(_sentences(case) for case in flowing) <= 2


def test_each_case_tells_the_planners_apart_in_a_fresh_process(
    tried: list[Tried], folder: Path
) -> None:
    (folder / "idle.py").write_text(IDLE, "utf-8")
    count = len(_made_of(tried))
    assert len(list(folder.glob("*.case.yaml"))) == count
    assert _passed(folder, "fixtures.agents.general:gullible") == (0, count)
    assert _passed(folder, "fixtures.agents.general:careful") == (count, 0)
    assert _passed(folder, "idle:nothing") == (0, count)
    assert _passed(folder, "idle:stops") == (0, count)


def _passed(folder: Path, planner: str) -> tuple[int, int]:
    """How many cases a planner passes, and how many not: in a process that has no store."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "--planner", planner, "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env=os.environ | {"TRACEKIT_STORE": str(folder / "none"), "PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", ran.stdout)}
    assert "error" not in told, ran.stdout
    assert not (folder / "none").exists()
    return told.get("passed", 0), told.get("failed", 0)
