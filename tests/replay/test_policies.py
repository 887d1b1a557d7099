"""Policies for calls that the record does not hold: by tool, by effect, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracekit
from fixtures.agents import desk
from replay.matching import parse_binding, split_similarity
from tests.replay.tape_kit import asked, call, player, record, value
from tracekit.cli import main
from tracekit.errors import UsageError

RUN = "desk-run"
CODE = """
import tracekit
from fixtures.agents import desk


@tracekit.agent
def rewords(order):
    try:
        return desk.search("refund policies")
    except tracekit.TracekitError as error:
        return str(error)


@tracekit.agent
def pays(order):
    return desk.refund(order, 4200)


def searched(query):
    return [f"simulated {query}"]


def paid(order, amount, reason, idempotency_key):
    return {"refunded": amount, "key": idempotency_key}


def never(tool, arguments):
    return "not in a test"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "policies_code.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(folder / "ledger"))
        tracekit.configure(store=folder / "store")
        with tracekit.run(run_id=RUN):
            desk.desk("A-1")
        tracekit.configure(store=folder / "elsewhere")
    return folder


@pytest.fixture
def command(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(store))

    def run(planner: str, *options: str) -> tuple[int, Any]:
        arguments = ["--run-id", RUN, "--planner", f"policies_code:{planner}", *options]
        where = ["--isolation", "process", "--store", str(store / "store"), "--json"]
        done = CliRunner().invoke(main, ["replay", *arguments, *where])
        told = done.output if done.exit_code == 2 and "{" not in done.output else None
        return done.exit_code, told if told is not None else json.loads(done.stdout)

    return run


# --- likeness -------------------------------------------------------------------------------------


def test_each_tool_has_a_likeness_of_its_own() -> None:
    tape = record(call("look", "read", "a", q="refund policy"), call("find", q="refund policy"))
    replay = player(tape, unmatched={"read": "nearest"}, least={"look": 0.5, "*": 0.99})

    near = replay.call(asked("look", q="refund policies"))
    assert (near.rung, near.tainted, value(near)) == ("nearest", True, "a")
    far = replay.call(asked("find", q="refund policies"))
    assert far.rung == "error"
    assert "below 0.99" in far.explanation


def test_a_likeness_that_is_none_is_misuse() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        player(record(), least={"look": 1.5})


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("nearest=0.8", ("nearest", 0.8)),
        ("look=nearest=0.8", ("look=nearest", 0.8)),
        ("look=nearest", ("look=nearest", None)),
        ("nearest", ("nearest", None)),
        ("stop", ("stop", None)),
    ],
)
def test_a_likeness_is_read(text: str, read: tuple[str, float | None]) -> None:
    assert split_similarity(text) == read


def test_a_likeness_that_is_no_number_is_misuse() -> None:
    with pytest.raises(UsageError, match="no number"):
        split_similarity("look=nearest=much")


def test_a_binding_is_read() -> None:
    assert parse_binding("look=mod:obj") == ("look", "mod:obj")
    assert parse_binding("look") == ("look", "")
    for text in ("look=mod", "=mod:obj", ""):
        with pytest.raises(UsageError):
            parse_binding(text)


# --- on the command line --------------------------------------------------------------------------


def test_the_command_serves_the_nearest_above_a_likeness(command: Any) -> None:
    code, told = command("rewords", "--unmatched", "search=nearest=0.7")
    assert (code, told["verdict"], told["shares"]) == (2, "inconclusive", {"nearest": 1})
    assert told["answer"] == ["refunds need a reason", "refunds up to 50 need no approval"]

    code, told = command("rewords", "--unmatched", "search=nearest=0.99")
    assert told["shares"] == {"error": 1}


def test_the_command_simulates(command: Any) -> None:
    _, told = command("rewords", "--simulate", "search=policies_code:searched")
    assert told["answer"] == ["simulated refund policies"]
    assert [(step["rung"], step["tainted"]) for step in told["steps"]] == [("simulate", True)]


def test_the_command_makes_a_write_in_its_sandbox_under_a_new_key(command: Any) -> None:
    _, told = command("pays", "--sandbox", "refund=policies_code:paid")
    assert told["answer"]["refunded"] == 4200
    assert told["answer"]["key"].startswith("replay-")


def test_the_command_asks_the_guard_first(command: Any) -> None:
    _, told = command(
        "pays", "--sandbox", "refund=policies_code:paid", "--guard", "policies_code:never"
    )
    assert "refused by the guard: not in a test" in told["steps"][0]["explanation"]


def test_the_command_sets_an_observation(command: Any) -> None:
    code, told = command("rewords", "--set", '2.observation=["other"]')
    assert code == 2
    assert told["reasons"][-1].startswith('2.observation=["other"], which you set')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--unmatched", "simulate"), "--simulate TOOL=MOD:OBJ"),
        (("--live-host", "localhost:1"), "opens a wall for nothing"),
        (("--sandbox", "refund"), "names no function"),
        (("--sandbox-folder", "/no/such/folder"), "is not there"),
        (("--set", "1.observation=hello"), "--set"),
        (("--from-step", "99"), "no such decision"),
        (("--until-step", "0"), "counted from 1"),
        (("--live", "x", "--live-host", "no host"), "is not understood"),
    ],
)
def test_misuse_is_told_in_one_sentence(command: Any, options: Any, said: str) -> None:
    code, told = command("pays", *options)
    assert code == 2
    assert said in told
    assert "Traceback" not in told
