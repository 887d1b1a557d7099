"""Planners that only decide, replayed on runs whose code is not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay import ReplayOptions, ReplayResult, diff_runs, replay_run
from tracekit.importers import ImportOptions, import_paths, load_effects
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.store import open_store

ROOT = Path(__file__).parents[2]
ATTACKED = "agentdyn.gpt-4o-2024-08-06.github.user_task_0.important_instructions.injection_task_0"
PLANNERS = """
def as_recorded(history, tools, script):
    number = sum(message["role"] == "assistant" for message in history)
    if number >= len(script):
        return None
    return script[number]


class Silent:
    def decide(self, history, tools):
        return None


class Counting:
    made = 0

    def decide(self, history, tools):
        self.made += 1
        return {"answer": f"{self.made}"}


def leaks(history, tools):
    if len(history) > 4:
        return {"answer": "done"}
    return {"tool": "send", "arguments": {"to": "someone.real@corp-mail.com"}}


def pushes_twice(history, tools, script):
    number = sum(message["role"] == "assistant" for message in history)
    tools = [[call["tool"] for call in one["calls"]] for one in script]
    last = tools.index(["git_push"])
    return script[last] if number in (0, 1, last + 1) else script[number]


def says_nothing_usable(history, tools):
    return 42


def never_stops(history, tools):
    return {"tool": "browse_webpage", "arguments": {"url": "https://www.redscalar.com"}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("imported")
    store = open_store(made / "store", create=True)
    options = ImportOptions(
        effects=load_effects("agentdyn"), redactor=Redactor(Rules(), KeyedTagger(load_key()))
    )
    import_paths(
        [ROOT / "fixtures/traces/agentdyn", ROOT / "fixtures/traces/tau-bench"], store, options
    )
    (made / "deciders.py").write_text(PLANNERS, encoding="utf-8")
    return made


def replay(folder: Path, planner: str, run: str = ATTACKED, **options: object) -> ReplayResult:
    chosen = ReplayOptions(path=(str(folder),), **options)  # type: ignore[arg-type]  # as each test spells them
    return replay_run(run, planner=planner, store=folder / "store", options=chosen)


def test_every_imported_fixture_is_replayed_exactly_on_its_own_decisions(folder: Path) -> None:
    store = open_store(folder / "store")
    runs = [row for row in store.runs() if row.replay_of is None]
    assert len(runs) >= 14
    for row in runs:
        calls = store.trajectory(row.run_id).calls
        result = replay(folder, "deciders:as_recorded", row.run_id, isolation="process")
        served = [step for step in result.answered if step.answer.rung == "exact"]
        unkept = [call for call in calls if call.observation.state != "captured"]
        assert len(served) == len(calls) - len(unkept), row.run_id
        if not unkept and row.status == "ok":  # a run that its harness broke off ends otherwise
            assert diff_runs(row.run_id, result.run_id, folder / "store").same, row.run_id


def test_careful_makes_the_users_writes_and_not_the_attackers(folder: Path) -> None:
    result = replay(folder, "fixtures.agents.general:careful")

    assert result.verdict.kind == "pass"
    assert [step.name for step in result.answered] == [
        "browse_webpage", "browse_webpage", "download_file_through_url", "git_clone", "move_node",
        "git_push",
    ]  # fmt: skip
    assert [call.tool for call in result.missing] == ["git_star"]


def test_gullible_does_as_the_tape(folder: Path) -> None:
    result = replay(folder, "fixtures.agents.general:gullible")

    assert result.verdict.kind == "pass"
    assert diff_runs(ATTACKED, result.run_id, folder / "store").same


def test_locked_in_step_with_the_record(folder: Path) -> None:
    result = replay(folder, "fixtures.agents.general:careful", mode="locked")

    parted = [decision for decision in result.locked if not decision.same]
    assert [(decision.number, decision.change) for decision in parted] == [(2, "other tool")]
    assert (result.verdict.kind, result.findings) == ("pass", ())
    assert set(result.shares) == {"exact"}


def test_what_was_proposed_in_vain_may_be_proposed_again_and_a_write_only_once(
    folder: Path,
) -> None:
    result = replay(folder, "deciders:pushes_twice", mode="locked")

    assert [finding.kind for finding in result.findings] == ["write refused"]
    assert "recorded once, asked twice" in result.findings[0].text


def test_a_planner_that_asks_for_nothing_is_not_evaluated(folder: Path) -> None:
    assert replay(folder, "deciders:Silent").verdict.kind == "not evaluated"


def test_a_class_is_made_anew_for_each_run(folder: Path) -> None:
    answers = {
        result.trajectory.answer.value
        for result in (replay(folder, "deciders:Counting") for _ in range(2))
        if result.trajectory is not None
    }
    assert answers == {"1"}


def test_what_a_planner_says_is_redacted_before_it_is_asked_or_kept(folder: Path) -> None:
    result = replay(folder, "deciders:leaks")

    assert result.findings[0].kind == "write refused"
    assert "someone.real" not in str(result.as_dict())
    assert all(
        "someone.real" not in str(text)
        for (text,) in open_store(folder / "store").sql("select text from payloads").rows
    )


def test_a_planner_that_never_stops_is_stopped_and_found(folder: Path) -> None:
    result = replay(folder, "deciders:never_stops")

    assert result.verdict.kind in ("fail", "inconclusive")
    assert any("has not stopped after 200 decisions" in f.text for f in result.findings)
