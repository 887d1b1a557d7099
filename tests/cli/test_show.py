"""How a run looks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.store.made import NOON, facts, run, text, value
from tracekit.cli import main
from tracekit.events import Event
from tracekit.journal import Journal
from tracekit.store import Batch, open_store

Call = Callable[..., Result]
SECOND = 1_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces"


def _shown(path: Path, *args: str) -> list[str]:
    runner = CliRunner(env={"TRACEKIT_STORE": str(path), "COLUMNS": "100"})
    result = runner.invoke(main, ["show", "r", *args])
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.rstrip() for line in result.stdout.splitlines()]


def _steps(path: Path, **columns: Any) -> list[str]:
    """Show a run of one call with the given columns; only the lines of its steps."""
    batch = run("r", calls=1)
    call = replace(batch.events[1], **columns)
    open_store(path, create=True).append(Batch((batch.events[0], call), batch.blobs))
    lines = _shown(path)
    return [line.strip() for line in lines[lines.index("") + 1 :] if line][:-2]


def test_a_run_reads_from_question_to_answer(path: Path) -> None:
    batch = run("r", calls=1, task_id="T-1", tenant="acme")
    question, question_digest = value({"question": "why 5xx?"})
    answer, answer_digest = text("the pool is exhausted")
    root = replace(
        batch.events[0],
        argument_blob=question.digest, argument_digest=question_digest, argument_state="captured",
        observation_blob=answer.digest, observation_digest=answer_digest,
        observation_state="captured", attributes='{"versions":{"prompt":"v7"},"tags":["night"]}',
    )  # fmt: skip
    call = replace(batch.events[1], ts_start_ns=NOON + SECOND * 3 // 2, latency_ns=SECOND // 4)
    open_store(path, create=True).append(Batch((root, call), (*batch.blobs, question, answer)))

    assert _shown(path) == [
        "run r · sre · ok · 2026-11-30 12:00:00 UTC · 10.0 s",
        "task T-1 · tenant acme · from made · versions prompt=v7 · #night",
        "asked   why 5xx?",
        "",
        "        +1.5 s     250 ms  read     search(query='r 0')",
        "                                    → answer 0",
        "                                    evidence metric-17",
        "",
        "answer  the pool is exhausted",
        "2 events · 0 model calls · 1 tool call · 0 writes · 0 errors · 0 refusals",
    ]


@pytest.mark.parametrize("effect", ["write", "unknown"])
def test_a_refused_write_catches_the_eye(path: Path, effect: str) -> None:
    shown = _steps(
        path, effect=effect, policy_decision="deny", policy_id="no-rollback", policy_reason="night",
        status="error", observation_is_error=True, error_type="CallRefused", evidence_ids=(),
        error_message="night",
    )  # fmt: skip

    assert shown[0].startswith("!! ")
    assert "WRITE" in shown[0]
    assert shown[1:] == ["DENIED by no-rollback: night"]


def test_a_failed_write_is_marked_like_a_refused_one(path: Path) -> None:
    shown = _steps(
        path, effect="write", status="error", error_type="Timeout", error_message="no answer"
    )
    assert shown[0].startswith("!! ")
    assert shown[1] == "✗ Timeout: no answer"


def test_a_failed_read_is_marked_less(path: Path) -> None:
    shown = _steps(path, observation_is_error=True, error_type="Timeout")
    assert shown[0].startswith("!  ")
    assert shown[1] == "✗ Timeout"


def test_how_an_observation_was_found_is_told(path: Path) -> None:
    shown = _steps(path, rung="stale", tainted=True, evidence_ids=())
    assert shown[-1] == "answered stale, tainted"


def test_a_model_call_whose_values_are_not_kept_says_why(path: Path) -> None:
    cut = {"argument_blob": None, "observation_blob": None, "evidence_ids": ()}
    states = {"argument_state": "truncated", "observation_state": "truncated"}
    shown = _steps(path, event_type="llm_call", model="m", **cut, **states)
    why = "only its digest was kept: the limit of the run or of the sto"  # the line is cut
    assert f"m({why}" in shown[0]
    assert shown[1].startswith(f"→ ({why}")


def test_a_value_that_is_not_kept_says_why(path: Path) -> None:
    shown = _steps(
        path,
        observation_blob=None,
        observation_state="redacted",
        argument_blob=None,
        evidence_ids=(),
    )
    assert shown[0].endswith("search(only its digest was kept)")
    assert shown[1] == "→ (redacted)"


def test_a_step_under_way_says_so(path: Path) -> None:
    journal = Journal(path / "journal")
    for fact, blobs in facts("r", journal.stamp()[0], ended=False):
        journal.write(fact, blobs)

    shown = _shown(path)

    assert shown[0].startswith("run r · live · under way")
    assert "under way  read     search(query='r')" in shown[2]
    assert shown[-2] == "answer  none: the run was under way when the record stops"


def test_steps_are_indented_beneath_what_caused_them(path: Path) -> None:
    batch = run("r", calls=3)
    root, first, second, third = batch.events
    deeper = replace(second, parent_span_id=first.span_id)
    loop = replace(third, parent_span_id=third.span_id)
    open_store(path, create=True).append(Batch((root, first, deeper, loop), batch.blobs))

    steps = [line.index("read") for line in _shown(path) if " read " in line]

    assert [place - steps[0] for place in steps] == [0, 2, 0]


def test_steps_whose_parents_name_each_other_are_shown(path: Path) -> None:
    batch = run("r", calls=2)
    root, first, second = batch.events
    rows = (
        root,
        replace(first, parent_span_id=second.span_id),
        replace(second, parent_span_id=first.span_id),
    )
    open_store(path, create=True).append(Batch(rows, batch.blobs))
    assert sum(" read " in line for line in _shown(path)) == 2


def test_what_a_trace_says_cannot_command_the_terminal(path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b1m"
    batch = run("r", calls=0, actor=evil)
    answer, digest = text(evil)
    root = replace(
        batch.events[0], observation_blob=answer.digest, observation_digest=digest,
        observation_state="captured", error_message=evil, status="error",
    )  # fmt: skip
    open_store(path, create=True).append(Batch((root,), (answer,)))

    for args in ((), ("--full",)):
        shown = "\n".join(_shown(path, *args))
        assert not set(shown) & set("\x1b\x07\u202e\x9b")
        assert "\\x1b]0;owned" in shown


def test_full_shows_values_whole(path: Path) -> None:
    long = {"rows": [{"name": "x" * 300}, {"name": "two\nlines"}], "empty": {}}
    batch = run("r", calls=1)
    blob, digest = value(long)
    call = replace(batch.events[1], observation_blob=blob.digest, observation_digest=digest)
    open_store(path, create=True).append(Batch((batch.events[0], call), (*batch.blobs, blob)))

    short, full = _shown(path), _shown(path, "--full")

    assert max(map(len, short)) <= 100
    assert any("x" * 300 in line for line in full)
    assert {"lines", "empty: {}"} <= {line.strip() for line in full}


def test_json_has_the_values(path: Path) -> None:
    open_store(path, create=True).append(run("r", calls=1))

    shown = json.loads("\n".join(_shown(path, "--json")))

    assert set(shown) == {"run", "input", "answer", "events"}
    assert shown["run"]["tools"] == ["search"]
    call = shown["events"][1]
    assert (call["argument"], call["observation"]) == ({"query": "r 0"}, "answer 0")
    assert (call["offset_ns"], call["under_way"], call["attributes"]) == (0, False, {})
    assert set(Event.__dataclass_fields__) <= set(call)
