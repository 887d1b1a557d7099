"""Files that are written in vain: told in any case, and a finding where a tool or a failure is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.isolation import Level


@tracekit.tool(effect="read")
def look(what: str) -> str:
    """Look at something."""
    return f"seen {what}"


@tracekit.agent
def looks(what: str) -> str:
    """Look at one thing."""
    return look(what)


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[..., ReplayResult]:
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="looked"):
        looks("a")
    tracekit.configure(store=tmp_path / "elsewhere")

    def replay(beside: Callable[[], object]) -> ReplayResult:
        def planner(what: str) -> str:
            found = look(what)
            beside()
            return found

        return replay_run("looked", planner=planner, store=tmp_path / "store")

    return replay


def test_a_refused_file_that_ordinary_code_copes_with_is_told_and_no_finding(
    replayed: Callable[..., ReplayResult], tmp_path: Path
) -> None:
    def copes() -> None:
        with suppress(OSError):
            (tmp_path / "log").write_text("seen")

    result = replayed(copes)
    assert (result.verdict.kind, result.findings) == ("pass", ())
    assert str(tmp_path / "log") in result.refused[0]
    assert not (tmp_path / "log").exists()


def test_a_refused_file_that_the_planner_fails_on_is_a_finding(
    replayed: Callable[..., ReplayResult], tmp_path: Path
) -> None:
    result = replayed(lambda: (tmp_path / "log").write_text("seen"))
    assert result.verdict.kind == "fail"
    assert [finding.kind for finding in result.findings] == ["planner"]


@pytest.mark.parametrize("isolation", ["guard", "process"])
def test_json_says_where_no_wall_but_the_guard_held(tmp_path: Path, isolation: Level) -> None:
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="looked"):
        looks("a")
    options = ReplayOptions(isolation=isolation)
    result = replay_run("looked", planner=looks, store=tmp_path / "store", options=options)
    only = [note for note in result.as_dict()["notes"] if note.startswith("no wall but the guard")]
    assert (only != []) == (isolation == "guard")
