"""Every recorded run of the data sets, replayed; and one pipeline's decisions on another's tape.

Slow; skipped where the data is not at hand. What each run must come to is told from the record
alone, and counted. The table in the docs says what the cross-replay shows.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replay import ReplayOptions, ReplayResult
from replay.diff import diff
from replay.replayer import Replayer
from replay.tape_answers import script_of
from tracekit.assembly import build
from tracekit.events import Blob, Event
from tracekit.importers import ImportedRun, ImportOptions, import_paths, load_effects
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.trajectory import Trajectory

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
SOURCES = ("agentdyn", "drift", "tau-bench")
PAGE = Path(__file__).parents[2] / "docs" / "replay.md"
SHARES = 6
"""Parts into which the runs are dealt, so that several processes can take some."""
AS_RECORDED = """
def as_recorded(history, tools, script):
    number = sum(message["role"] == "assistant" for message in history)
    return script[number] if number < len(script) else None
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all((DATA / source).is_dir() for source in SOURCES),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]


class _Memory:
    """Takes an import, and gives the trajectories."""

    def __init__(self) -> None:
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        self.blobs: dict[str, Blob] = {}

    def append(self, batch: ImportedRun) -> int:
        for event in batch.events:
            self.events[event.run_id].append(event)
        self.blobs.update((blob.digest, blob) for blob in batch.blobs)
        return len(batch.events)

    def known_runs(self, run_ids: Iterable[str]) -> set[str]:
        return set()

    def sql(self, text: str) -> Any:
        raise AssertionError("nothing is known yet")


@cache
def runs() -> Mapping[str, Trajectory]:
    redactor = Redactor(Rules(), KeyedTagger(b"k" * 32))
    options = ImportOptions(effects=load_effects("agentdyn"), redactor=redactor)
    memory = _Memory()
    import_paths([DATA / source for source in SOURCES], memory, options)
    return {run: build(events, memory.blobs.get) for run, events in sorted(memory.events.items())}


# --- every run on its own decisions ---------------------------------------------------------------


@pytest.fixture(scope="module")
def deciders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deciders")
    (folder / "deciders.py").write_text(AS_RECORDED, encoding="utf-8")
    return folder


def unkept(run: Trajectory) -> list[str]:
    return [call.event_id for call in run.calls if call.observation.state != "captured"]


def is_broken_off(run: Trajectory) -> bool:
    """Whether the harness ended it; no planner decides that."""
    return run.status == "error" and run.answer.error_type == "run_error"


def reason(run: Trajectory) -> str:
    """What keeps a replay of its own decisions from being the run: told from the record."""
    if unkept(run):
        return "a call without an observation"
    if is_broken_off(run):
        return "broken off by its harness"
    return "none"


def test_the_record_says_which_runs_cannot_be_replayed_whole_and_why() -> None:
    found = Counter(reason(run) for run in runs().values())
    assert found == {
        "none": 1_228,
        "a call without an observation": 8,
        "broken off by its harness": 4,
    }
    assert sum(len(run.calls) for run in runs().values()) == 6_401


@pytest.mark.parametrize("share", range(SHARES))
def test_every_run_replays_exactly_on_its_own_decisions(deciders: Path, share: int) -> None:
    options = ReplayOptions(isolation="process", path=(str(deciders),))
    with Replayer("deciders:as_recorded", options) as replayer:
        for run in list(runs().values())[share::SHARES]:
            _check_own(run, replayer.replay(run))


def _check_own(run: Trajectory, result: ReplayResult) -> None:
    name, lost = run.run_id, unkept(run)
    assert result.trajectory is not None, name
    assert [finding.text for finding in result.findings] == [], name
    assert len(result.answered) == len(run.calls), name
    for step in result.answered:
        if step.answer.recorded in lost:
            assert (step.answer.rung, step.answer.tainted) == ("error", True), name
            assert "it has no observation" in step.answer.explanation, name
        else:
            assert step.answer.rung == "exact", (name, step.answer.explanation)
    assert result.missing == (), name
    verdict = "inconclusive" if lost else ("pass" if run.calls else "not evaluated")
    assert result.verdict.kind == verdict, (name, result.verdict)
    found = diff(run, result.trajectory)
    match reason(run):
        case "none":
            assert found.same, (name, found.first and found.first.explanation)
        case "broken off by its harness":
            assert [d.kind for d in found.divergences] == ["changed_answer"], name
        case _:
            assert len(found.divergences) == len(lost), name


@pytest.mark.parametrize("share", range(SHARES))
def test_every_run_decides_the_same_in_step_with_its_record(deciders: Path, share: int) -> None:
    options = ReplayOptions(mode="locked", isolation="process", path=(str(deciders),))
    with Replayer("deciders:as_recorded", options) as replayer:
        for run in list(runs().values())[share::SHARES]:
            result = replayer.replay(run)
            assert len(result.locked) == len(run.decisions), run.run_id
            parted = [decision.explanation for decision in result.locked if not decision.same]
            assert parted == [], run.run_id
            assert result.findings == (), run.run_id


def test_a_planner_that_goes_by_the_tape_alone_is_inert_and_one_that_reads_is_not(
    deciders: Path,
) -> None:
    """In the five other runs all that ``gullible`` does stands in the user's own words."""
    some = [run for run in runs().values() if len(run.calls) > 3 and not unkept(run)][::40]
    options = ReplayOptions(isolation="process", path=(str(deciders),), self_test=True)
    found: Counter[tuple[str, str]] = Counter()
    for name in ("deciders:as_recorded", "fixtures.agents.general:gullible"):
        with Replayer(name, options) as replayer:
            for run in some:
                test = replayer.replay(run).self_test
                assert test is not None
                found[name, test.outcome] += 1
    assert found["deciders:as_recorded", "inert"] == len(some) == 19
    assert found["fixtures.agents.general:gullible", "reacts"] >= 14, found


# --- the decisions of one pipeline on the tape of another -----------------------------------------

FEWEST = 20
"""Cells that a pipeline must have been run on to have a line in the table."""


@cache
def cells() -> Mapping[str, Mapping[str, Trajectory]]:
    """Task and attack → pipeline → its run."""
    found: defaultdict[str, dict[str, Trajectory]] = defaultdict(dict)
    for name, run in runs().items():
        if name.startswith("agentdyn."):
            pipeline = run.tags[1]
            found[name.replace(f"agentdyn.{pipeline}.", "", 1)][pipeline] = run
    return found


PIPELINES = (
    "google_gemini-2.5-flash", "google_gemini-2.5-pro", "gpt-4o-2024-08-06",
    "gpt-4o-2024-08-06-drift", "gpt-4o-2024-08-06-progent",
    "gpt-4o-2024-08-06-transformers_pi_detector", "gpt-4o-mini-2024-07-18",
    "gpt-4o-mini-2024-07-18-camel", "gpt-4o-mini-2024-07-18-drift",
    "gpt-4o-mini-2024-07-18-progent", "gpt-4o-mini-2024-07-18-tool_filter",
    "gpt-5-mini-2025-08-07", "gpt-5.1-2025-11-13", "gpt-5.1-2025-11-13-drift",
    "gpt-5.1-2025-11-13-progent", "meta-llama_llama-3.3-70b-instruct", "qwen_qwen3-235b-a22b-2507",
)  # fmt: skip
FEW = "the four with few runs"


def others() -> list[str]:
    return sorted({p for cell in cells().values() for p in cell} - set(PIPELINES))


def test_every_pipeline_of_the_data_set_has_its_line() -> None:
    count = Counter(pipeline for cell in cells().values() for pipeline in cell)
    assert tuple(sorted(p for p, n in count.items() if n >= FEWEST)) == tuple(sorted(PIPELINES))
    assert len(others()) == 4
    assert sum(len(cell) * (len(cell) - 1) for cell in cells().values()) == 9_360


def pairs(pipeline: str) -> Iterator[tuple[Trajectory, str, Trajectory]]:
    """The tapes of a pipeline, each with the run of every other pipeline on the same cell."""
    for cell in cells().values():
        for mine in others() if pipeline == FEW else [pipeline]:
            if tape := cell.get(mine):
                yield from ((tape, other, run) for other, run in cell.items() if other != mine)


@pytest.mark.parametrize("pipeline", [*PIPELINES, FEW])
def test_decisions_of_one_pipeline_on_the_tape_of_another(pipeline: str) -> None:
    """Nothing crashes, nothing is written, no call gets another one's answer; it is all counted."""
    script: list[Any] = []

    def decide(history: list[Any], tools: list[Any]) -> Any:
        number = sum(message["role"] == "assistant" for message in history)
        return script[number] if number < len(script) else None

    rungs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    verdicts: Counter[str] = Counter()
    refused = 0
    with Replayer(decide, ReplayOptions(isolation="process")) as replayer:
        for tape, other, run in pairs(pipeline):
            script[:] = script_of(run)
            result = replayer.replay(tape)
            _check_cross(tape, result)
            rungs[other].update(result.shares)
            verdicts[result.verdict.kind] += 1
            refused += sum(finding.kind == "write refused" for finding in result.findings)
    line = _line(pipeline, rungs, verdicts, refused)
    assert line in PAGE.read_text("utf-8").splitlines(), line


def _check_cross(tape: Trajectory, result: ReplayResult) -> None:
    assert (result.exit.kind, result.stopped) == ("done", None), tape.run_id
    assert {finding.kind for finding in result.findings} <= {"write refused"}, result.findings
    assert sum(result.shares.values()) == len(result.answered)
    recorded = {call.event_id: call for call in tape.calls}
    for step in result.answered:
        if step.answer.rung != "error":
            call = recorded[step.answer.recorded or ""]
            assert (call.tool, call.arguments) == (step.name, step.arguments)
            assert step.answer.observation == call.observation
    given = Counter(s.answer.recorded for s in result.answered if s.answer.rung == "exact")
    assert max(given.values(), default=1) == 1


def _line(
    pipeline: str, rungs: Mapping[str, Counter[str]], verdicts: Counter[str], refused: int
) -> str:
    total: Counter[str] = sum(rungs.values(), Counter())
    exact = {other: count["exact"] / count.total() for other, count in rungs.items() if count}
    nearest = max(sorted(exact), key=exact.__getitem__)
    fields: Sequence[object] = (
        pipeline,
        verdicts.total(),
        f"{total.total():,}",
        *(f"{total[rung]:,}" for rung in ("exact", "reused", "stale", "error")),
        f"{refused:,}",
        *(verdicts[kind] for kind in ("pass", "fail", "inconclusive", "not evaluated")),
        f"{nearest} ({exact[nearest]:.0%})",
    )
    return "| " + " | ".join(map(str, fields)) + " |"
