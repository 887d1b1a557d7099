"""``tracekit replay`` for many runs: which, what is told of them, and how it exits."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replay.isolation import Wall
from replay.many.junit import junit_xml
from replay.many.outcome import ManyResult, RunOutcome, worst_first
from replay.many.schema import ManyReplaysForm, json_schema
from replay.many.telling import head_lines, rest_line, rows_to_look_at
from tests.replay.many_kit import add_unreplayable, make_shop, replays
from tracekit.cli import main
from tracekit.cli.replay_many import _Bar
from tracekit.store import RunQuery, Store

ROOT = Path(__file__).parents[2]
Call = Callable[..., Result]


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    return make_shop(tmp_path, runs=4)


@pytest.fixture
def call(shop: Store, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Replay runs of the shop, in one worker and behind the hook."""
    monkeypatch.syspath_prepend(str(shop.path.parent))

    def invoke(planner: str, *args: str) -> Result:
        words = ["replay", "--planner", f"shop:{planner}", "--isolation", "process", *args]
        words += ["--jobs", "1"] if "--run-id" not in args else []
        return CliRunner(env={"TRACEKIT_STORE": str(shop.path)}).invoke(main, words)

    return invoke


def test_runs_are_chosen_as_with_runs_and_told_worst_first(shop: Store, call: Call) -> None:
    (last, *_, first) = [row.run_id for row in shop.runs(RunQuery())]

    result = call("moody", "--since", "1h", "--limit", "3", "--timeout", "1")

    assert (result.exit_code, result.stderr) == (1, "")
    head, isolation, *unseen, blank, columns, one, two, three = result.stdout.splitlines()
    rows = [one, two, three]
    assert "".join(unseen).startswith("  the process wall does not list data sent on sockets")
    assert head.startswith("3 runs replayed with shop:moody in ")
    assert head.endswith(": 3 fail")
    assert isolation.startswith("  isolation process: its walls proved themselves before")
    assert blank == ""
    assert columns.split("  ")[0] == "verdict"
    assert [row.split()[0] for row in rows] == ["fail"] * 3
    assert "ValueError: out of tea" in result.stdout
    assert "Decision 2: " in result.stdout
    assert f"tracekit diff {last} " in result.stdout
    assert first not in result.stdout


def test_all_that_passes_exits_with_0_and_needs_no_table(shop: Store, call: Call) -> None:
    result = call("buy", "--tag", "odd")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "look closer" not in result.stdout
    assert result.stdout.splitlines()[0].endswith(": 2 pass")


def test_what_could_not_be_decided_exits_with_2(shop: Store, call: Call) -> None:
    add_unreplayable(shop)
    ManyReplaysForm.model_validate_json(call("buy", "--until", "2020-01-01", "--json").stdout)
    result = call("buy", "--until", "2020-01-01")

    assert result.exit_code == 2
    assert "not replayed  without-input" in result.stdout
    assert "its input was not recorded" in result.stdout


def test_the_result_as_json_and_as_junit(shop: Store, call: Call, tmp_path: Path) -> None:
    result = call(
        "moody", "--limit", "3", "--timeout", "1", "--json", "--junit", f"{tmp_path}/j.xml"
    )

    told = json.loads(result.stdout)
    ManyReplaysForm.model_validate(told)
    assert told["format"] == "tracekit/replay-many/v1"
    assert (told["counts"], told["isolation"]) == ({"fail": 3}, "process")
    assert [(wall["name"], wall["held"]) for wall in told["walls"]] == [("process", True)]
    assert {run["replay_id"] for run in told["runs"]} <= {r.run_id for r in shop.runs(RunQuery())}
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == (
        "3", "3", "0",
    )  # fmt: skip
    assert [case.attrib["name"] for case in suite] == [run["run_id"] for run in told["runs"]]
    assert all(case.find("failure") is not None for case in suite)


def test_the_schema_of_the_json_is_the_published_one() -> None:
    published = ROOT / "docs" / "replay-many.schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema(), (
        "write docs/replay-many.schema.json anew with replay.many.schema.json_schema"
    )


def test_resume_does_the_rest(shop: Store, call: Call) -> None:
    call("buy", "--limit", "2")
    result = call("buy", "--limit", "4", "--resume")

    assert result.exit_code == 0
    assert ", 2 of them before: 4 pass" in result.stdout
    assert len(replays(shop)) == 4


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "no run is named and none are chosen"),
        (["--run-id", "01J", "--failed"], "--run-id names one run, and options that choose many"),
        (["--run-id", "01J", "--resume"], "--run-id names one run, and options that choose many"),
        (["--agent", "nobody"], "no runs match"),
        (["--limit", "1", "--junit", "nowhere/j.xml"], "there is no such folder"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_misuse_is_told_and_nothing_is_replayed(
    shop: Store, call: Call, args: list[str], told: str
) -> None:
    result = call("buy", *args)
    assert result.exit_code == 2
    assert told in result.stderr
    assert replays(shop) == []


def test_a_planner_that_is_not_there_is_told_once(call: Call) -> None:
    result = call("sell", "--limit", "4")
    assert result.exit_code == 2
    assert result.stderr.count("has no 'sell'") == 1


@pytest.mark.slow
def test_a_bar_is_drawn_on_a_terminal_and_a_killed_command_is_resumed(shop: Store) -> None:
    words = [
        sys.executable, "-m", "tracekit", "replay", "--planner", "shop:buy", "--limit", "4",
        "--isolation", "process", "--store", str(shop.path), "--resume",
    ]  # fmt: skip
    terminal, stderr = pty.openpty()
    path = os.pathsep.join([str(ROOT), str(shop.path.parent)])
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, "PYTHONPATH": path}
    )
    os.close(stderr)
    seen = b""
    while b"replaying" not in seen:
        seen += os.read(terminal, 1000)
    child.kill()
    child.communicate()
    os.close(terminal)
    again = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert ": 4 pass" in again.stdout
    assert len(set(replays(shop))) == 4


def test_the_bar_counts_what_is_to_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", terminal := Terminal())

    def interrupted() -> None:
        with _Bar() as bar:
            bar.note(RunOutcome("a", "fail"), 1, 3)
            bar.note(RunOutcome("b", "pass"), 2, 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "2/3 1 to look at" in terminal.getvalue()
    assert "interrupted; 2 runs are done: go on with --resume" in terminal.getvalue()


def test_what_is_done_when_the_command_is_told_to_end_is_kept(
    shop: Store, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(bar: _Bar, outcome: RunOutcome, done: int, total: int) -> None:
        bar._done = done
        if done == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(_Bar, "note", end)
    result = call("buy", "--limit", "4")

    assert result.exit_code == 143
    assert result.stderr == "interrupted; 2 runs are done: go on with --resume\n"
    assert len(replays(shop)) == 2
    assert signal.getsignal(signal.SIGTERM) is before


# --- what is told ---------------------------------------------------------------------------------


def many(*outcomes: RunOutcome) -> ManyResult:
    walls = (Wall("kernel", held=False, evidence="no Linux"),)
    return ManyResult("m:p", "traces", worst_first(list(outcomes)), "guard", walls, ("threads",))


def test_the_worst_comes_first_and_clean_passes_are_only_counted() -> None:
    result = many(
        RunOutcome("good", "pass"),
        RunOutcome("other", "pass", replay_id="r1", divergence="decision 3: x"),
        RunOutcome("idle", "not evaluated"),
        RunOutcome("vague", "inconclusive"),
        RunOutcome("gone", "not replayed", ("lost",)),
        RunOutcome("bad", "fail", findings=1),
        RunOutcome("worse", "fail", findings=9),
    )
    assert [row[1] for row in rows_to_look_at(result)] == [
        "worse", "bad", "gone", "vague", "idle", "other",
    ]  # fmt: skip
    assert list(head_lines(result)) == [
        "7 runs replayed with m:p in 0.0 s: 2 fail, 1 not replayed, 1 inconclusive, "
        "1 not evaluated, 2 pass",
        "  1 of those that pass differ from the record",
        "  isolation guard: no wall but the guard",
        "  kernel: no Linux",
        "  threads",
    ]
    assert rows_to_look_at(result)[2][4] == (
        "tracekit replay --run-id gone --planner m:p --store traces"
    )
    assert rest_line(result) is None


def test_of_very_many_the_worst_are_told() -> None:
    result = many(*(RunOutcome(f"r{n}", "fail") for n in range(100)))
    assert len(rows_to_look_at(result)) == 40
    assert rest_line(result) == "and 60 more (--json and --junit list them)"


def test_junit_holds_no_sign_that_xml_may_not() -> None:
    result = many(RunOutcome("a\x00", "inconclusive", ("bell \x07 & <tag>",)))
    case = ET.fromstring(junit_xml(result))[0][0]
    assert case.attrib["name"] == "a\ufffd"
    error = case.find("error")
    assert error is not None
    assert error.attrib["message"] == "bell \ufffd & <tag>"
