"""What the commands print, and how they exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.store.made import NOON, facts, run
from tracekit.cli import main
from tracekit.errors import RunNotFound
from tracekit.journal import Journal
from tracekit.store import Store, open_store

ROOT = Path(__file__).parents[2]
Call = Callable[..., Result]


def test_runs_are_a_table_newest_first(call: Call) -> None:
    result = call("runs")

    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][:2] == ["run", "began"]
    assert [line[:3] for line in lines[1:]] == [
        ["good", "2026-11-30", "12:00:00"], ["bad", "2026-11-29", "12:00:00"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "error"], ["bad"]),
        (["--failed"], ["bad"]),
        (["--since", "2026-11-30"], ["good"]),
        (["--since", "2026-11-29T12:00:01+00:00"], ["good"]),
        (["--until", "2026-11-30"], ["bad"]),
        (["--since", "100000d"], ["good", "bad"]),
        (["--since", "99999999999w"], ["good", "bad"]),
        (["--limit", "1"], ["good"]),
        (["--agent", "sre", "--tool", "search"], ["good", "bad"]),
        (["--tag", "none"], []),
        (["--task", "none"], []),
    ],
)
def test_runs_are_filtered(call: Call, options: list[str], found: list[str]) -> None:
    rows = json.loads(call("runs", "--json", *options).stdout)
    assert [row["run_id"] for row in rows] == found


def test_how_long_ago_is_counted_from_now(call: Call, store: Store) -> None:
    store.append(run("now", start=time.time_ns()))
    rows = json.loads(call("runs", "--json", "--since", "1h", "--until", "2100-01-01").stdout)
    assert "now" in [row["run_id"] for row in rows]


@pytest.mark.parametrize(
    "options", [["--since", "yesterday"], ["--status", "fine"], ["--limit", "0"], ["--colour"]]
)
def test_an_option_that_makes_no_sense_is_misuse(call: Call, options: list[str]) -> None:
    assert call("runs", *options).exit_code == 2


def test_no_runs_is_no_error(call: Call) -> None:
    result = call("runs", "--agent", "nobody")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs match" in result.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["runs", "--store", "nowhere"], "there is no trace store at nowhere"),
        (["show", "nothing"], "no run 'nothing'"),
        (["show", ""], "no run ''"),
        (["sql", "SELEKT"], "the query cannot be answered"),
        (["sql", "SELECT 1", "--csv", "--json"], "contradict"),
        (["compact", "--store", "nowhere"], "there is no trace store"),
    ],
)
def test_what_cannot_be_done_is_one_clear_message(call: Call, args: list[str], told: str) -> None:
    result = call(*args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_an_error_came_from(call: Call) -> None:
    result = call("show", "nothing", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert RunNotFound.__name__ in result.stderr


def test_a_bug_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tracekit.cli.looking.open_for_reading", bug)
    assert isinstance(call("runs").exception, ZeroDivisionError)


def test_an_interrupt_exits_with_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tracekit.cli.looking.open_for_reading", interrupt)
    result = call("runs")
    assert (result.exit_code, result.output) == (130, "")


def test_a_reader_that_leaves_is_no_error(store: Store) -> None:
    query = "SELECT repeat('x', 1000) FROM range(10000)"
    command = [sys.executable, "-m", "tracekit", "sql", query, "--store", str(store.path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (128 + signal.SIGPIPE, b"")


def test_sql_is_a_table_json_or_csv(call: Call) -> None:
    query = "SELECT run_id, tool_calls, tools, NULL AS nothing FROM runs ORDER BY 1"

    assert call("sql", query).stdout == (
        'run_id  tool_calls  tools       nothing\nbad     2           ["search"]\n'
        'good    2           ["search"]\n'
    )
    assert json.loads(call("sql", "--json", query).stdout) == [
        {"run_id": "bad", "tool_calls": 2, "tools": ["search"], "nothing": None},
        {"run_id": "good", "tool_calls": 2, "tools": ["search"], "nothing": None},
    ]
    assert call("sql", "--csv", query).stdout == (
        'run_id,tool_calls,tools,nothing\nbad,2,"[""search""]",\ngood,2,"[""search""]",\n'
    )


def test_sql_is_read_from_standard_input(call: Call) -> None:
    assert call("sql", "--csv", "-", text="SELECT 1 AS one").stdout == "one\n1\n"


def test_every_type_of_the_database_can_be_written(call: Call) -> None:
    query = (
        "SELECT 1.5::DECIMAL(5,2) AS a, DATE '2026-11-30' AS b, uuid() AS c, 'x'::BLOB AS d,"
        " {'k': [1, 2]} AS e, INTERVAL 1 DAY AS f, MAP {'k': 1} AS g, 'nan'::DOUBLE AS h,"
        " '\\xFF'::BLOB AS i, TIME '12:00' AS j, 170141183460469231731687303715884105727 AS k"
    )
    for form in ("--json", "--csv"):
        result = call("sql", form, query)
        assert (result.exit_code, result.stderr) == (0, "")


def test_a_sound_store_verifies(call: Call) -> None:
    result = call("verify")
    assert (result.exit_code, result.stdout.split(":")[0]) == (0, "sound")
    assert json.loads(call("verify", "--json").stdout)["sound"] is True


def _damage(store: Store) -> Path:
    file = next((store.path / "events").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:8])
    return file


def test_damage_is_a_warning_to_readers_and_a_finding_to_verify(call: Call, store: Store) -> None:
    file = _damage(store)
    name = file.relative_to(store.path).as_posix()

    result = call("sql", "SELECT count(*) AS n FROM events", "--csv")
    assert (result.exit_code, result.stdout) == (0, "n\n3\n")
    assert result.stderr.count("\n") == 1
    assert f"Warning: {name}: it cannot be read" in result.stderr
    for command in ("verify", "doctor"):
        result = call(command)
        assert result.exit_code == 1
        assert name in result.stdout


def test_compact_says_what_it_did(call: Call, store: Store) -> None:
    store.append(run("more"))
    assert call("compact").stdout == "2 batches are now 1; 8 files removed\n"
    assert json.loads(call("compact", "--json").stdout) == {
        "batches_before": 1, "batches_after": 1, "removed_files": 0,
    }  # fmt: skip


def test_doctor_tells_of_a_healthy_store(call: Call) -> None:
    result = call("doctor", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["facts"]["holds"].startswith("2 runs, 6 events")


def test_doctor_finds_what_was_lost(call: Call, store: Store) -> None:
    from tracekit.events import LossNoted

    journal = Journal(store.path / "journal")
    (begin, blobs), *_ = facts("live", journal.stamp()[0])
    loss: dict[str, Any] = {
        name: getattr(begin, name) for name in ("writer", "run_id", "trace_id", "span_id")
    }
    journal.write(begin, blobs)
    journal.write(LossNoted(**loss, seq=9, timestamp_ns=NOON, count=7, reason="disk full"), [])

    result = call("doctor")

    assert result.exit_code == 1
    assert "run live: 7 events lost: disk full" in result.stdout
    assert "1, of which 1 are being written" in result.stdout


def test_doctor_finds_a_store_that_is_open_to_others(call: Call, store: Store) -> None:
    (store.path / "store.toml").chmod(0o644)
    result = call("doctor")
    assert result.exit_code == 1
    assert "open to others" in result.stdout


def test_doctor_finds_another_redaction_key(tmp_path: Path) -> None:
    open_store(tmp_path / "s", create=True, redaction_key_id="0" * 16)
    result = CliRunner().invoke(main, ["doctor", "--store", str(tmp_path / "s")])
    assert result.exit_code == 1
    assert "is not the one this store was made with" in result.stdout


def test_a_command_that_reads_settles_what_gone_processes_left(call: Call, store: Store) -> None:
    journal = Journal(store.path / "journal")
    for fact, blobs in facts("live", journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()

    assert "live" in call("runs").stdout
    assert list((store.path / "journal").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_store_still_reads(call: Call, store: Store) -> None:
    for place in (*store.path.rglob("*"), store.path):
        place.chmod(0o500 if place.is_dir() else 0o400)
    try:
        assert "good" in call("runs").stdout
        assert call("show", "good").exit_code == 0
        assert call("compact").exit_code == 2
    finally:
        for place in (store.path, *store.path.rglob("*")):
            place.chmod(0o700)
