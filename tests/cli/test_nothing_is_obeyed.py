"""What strangers named tools, fields, runs and versions is shown on one line by every command."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click.testing
import pytest
from click.testing import CliRunner

from tests.store.made import run, value
from tracekit.canonical import canonical_text
from tracekit.cli import main
from tracekit.events import event_id
from tracekit.store import Batch, open_store

PLANTED = "x\x1b[2J\x1b]0;owned\x07\x1b[8m\r\nFORGED SAME\u202eliam\u2028FORGED\x85FORGED"
PLANTED += "\x0bFORGED\x9b2J\u200b"
_OURS = re.compile(r"\r?\x1b\[(?:[\d;]*m|\?25[lh]|2K|K|\d*A)|\r$", re.MULTILINE)
"""The colours, and the bars of progress, that the commands draw themselves on a terminal."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SOUND = re.compile(r"click\.echo\((json_report\(|listing\.\w+_json\(|view\.as_json\(\)|\))")
"""JSON, and a line with nothing on it."""
COMMANDS: dict[str, list[str]] = {
    "runs": ["runs"],
    "failed": ["runs", "--failed"],
    "show": ["show", "{0}"],
    "show --full": ["show", "{0}", "--full"],
    "diff": ["diff", "{0}", "{1}"],
    "diff --full": ["diff", "{0}", "{1}", "--full"],
    "diff named": ["diff", "{0}", "{1}", "--old-name", PLANTED],
    "diff many": ["diff", "--baseline", "version.a=one", "--candidate", "version.a=two"],
    "metrics": ["metrics"],
    "metrics --by": ["metrics", "--by", "agent"],
    "gate": ["gate", "{gates}", "--candidate", "version.a=one"],
    "doctor": ["doctor"],
    "verify": ["verify"],
    "scan": ["scan"],
    "prune": ["prune", "--tenant", PLANTED, "--dry-run"],
    "sql": ["sql", "select run_id, tool_name, error_message from events"],
    "sql error": ["sql", "select cast(run_id as int) from runs"],
    "replay": ["replay", "--run-id", "{0}", "--planner", "{planner}:pay", "--isolation", "process"],
    "replay many": ["replay", "--limit", "5", "--planner", "{planner}:pay"],
    "case show": ["case", "show", "{case}"],
    "case lint": ["case", "lint", "{case}"],
    "case run": ["case", "run", "{case}", "--planner", "{planner}:pay"],
    "import": ["import", "{trace}"],
    "no run": ["show", PLANTED],
    "no tool": ["replay", "--run-id", "{0}", "--planner", "m:p", "--ignore", f"{PLANTED}:/a"],
}


CASE = f"""
format: tracekit/case/v1
name: planted
planner: planted_planner:pay
input: {{{json.dumps(PLANTED)}: 1}}
tools: [{{name: {json.dumps(PLANTED)}, effect: read}}, {{name: other, effect: write}}]
observations:
- {{id: o1, tool: {json.dumps(PLANTED)}, arguments: {{{json.dumps(PLANTED)}: 3}}, returns: 1}}
expected:
  forbidden_tools: [{json.dumps(PLANTED)}]
"""


def _run(name: str, number: str) -> Batch:
    """Make a run in which everything that has a name has the planted one."""
    given = value({PLANTED: number, "q": PLANTED})
    made = run(
        f"{name}{PLANTED}", calls=1, actor=PLANTED, task_id=PLANTED,
        attributes=canonical_text({"tags": [PLANTED], "versions": {PLANTED: number, "a": name}}),
        status="error", error_type=PLANTED, error_message=PLANTED, tenant=PLANTED,
        operator=PLANTED, argument_blob=given[0].digest, argument_digest=given[1],
        argument_state="captured",
    )  # fmt: skip
    events = [made.events[0]]
    for effect in ("write", "read"):
        events.append(
            replace(
                made.events[1], event_id=event_id("made", name, effect, "tool_call", 0),
                seq=len(events), actor=PLANTED + effect, tool_name=PLANTED + effect,
                effect=effect, argument_blob=given[0].digest,
                argument_digest=given[1], evidence_ids=(PLANTED, number), policy_decision="deny",
                policy_id=PLANTED, policy_reason=PLANTED, error_type=PLANTED, status="error",
                error_message=PLANTED, observation_is_error=True, span_id=f"{len(events):016x}",
            )
        )  # fmt: skip
    return Batch(tuple(events), (*made.blobs, given[0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, a gate file, a case, a planner and a trace, all planted."""
    made = tmp_path_factory.mktemp("planted")
    store = open_store(made / "store", create=True)
    for name, number in (("one", "1"), ("two", "2")):
        store.append(_run(name, number))
    (made / "gates.toml").write_text(
        'gates = ["run_error_rate == 0", "cost_per_success == 0USD"]\n'
    )
    (made / "planted_planner.py").write_text(
        f"NAME = {PLANTED!r}\nCALL = {{'tool': NAME, 'arguments': {{NAME: 3}}}}\n\n\n"
        "def pay(history, tools):\n"
        "    return {'calls': [CALL]} if len(history) < 2 else {'answer': NAME}\n"
    )
    (made / "trace.json").write_text(json.dumps({"suite_name": PLANTED, "user_task_id": PLANTED}))
    (made / "planted.case.yaml").write_text(CASE)
    return made


def _words(folder: Path, words: list[str]) -> list[str]:
    named = {
        "gates": folder / "gates.toml", "case": folder / "planted.case.yaml",
        "planner": "planted_planner", "trace": folder / "trace.json",
    }  # fmt: skip
    runs = [f"one{PLANTED}", f"two{PLANTED}"]
    return [word if word.startswith("x\x1b") else word.format(*runs, **named) for word in words]


def faults(text: str) -> list[str]:
    """Name what a terminal would obey, and lines that are none of ours."""
    text = _OURS.sub("", text)
    hidden = {sign for sign in text if unicodedata.category(sign) in _HIDDEN} - {"\n"}
    forged = [line for line in text.split("\n") if line.startswith("FORGED")]
    return [*sorted(map(ascii, hidden)), *forged]


def _printed(folder: Path, names: Iterable[str], *, terminal: bool) -> dict[str, object]:
    """Run commands, and name what is wrong with what they print."""
    environment = {"TRACEKIT_STORE": str(folder / "store"), "COLUMNS": "1000"}
    wrong: dict[str, object] = {}
    for name in names:
        for form in ([], ["--json"]):
            done = CliRunner(env=environment).invoke(
                main, [*_words(folder, COMMANDS[name]), *form], color=terminal
            )
            found: list[object] = [*faults(done.output)]
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                found.append(done.exception)
            if found:
                wrong[" ".join([name, *form])] = found
    return wrong


def _as_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper: Any = click.testing._NamedTextIOWrapper  # what stands for the terminal
    monkeypatch.setattr(wrapper, "isatty", lambda _: True)


QUICK = ("runs", "show", "diff", "no run")


def test_what_strangers_named_stays_text_on_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _printed(folder, QUICK, terminal=False) == {}
    _as_terminal(monkeypatch)
    assert _printed(folder, QUICK, terminal=True) == {}


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_no_command_prints_what_a_terminal_obeys_or_a_line_that_is_not_ours(
    folder: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    if terminal:
        _as_terminal(monkeypatch)
    assert _printed(folder, COMMANDS, terminal=terminal) == {}


def test_all_that_commands_print_goes_through_one_place_or_is_json() -> None:
    strangers = []
    for path in sorted((Path(__file__).parents[2] / "tracekit" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "click.echo",
                "click.secho",
            ):
                said = ast.unparse(node)
                if path.name != "text.py" and not _SOUND.match(said):
                    strangers.append(f"{path.name}: {said}")
    assert strangers == []
