"""A case knows what it was made of, so that it can be told when the code has outgrown it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replay.case import Source, parse_case, read_case
from replay.caserun import CaseRunner
from replay.caserun.lint import stale
from replay.declared import Declared
from replay.recording import short_digest
from tests.distill.case_kit import INJECTION
from tracekit.store import open_store

AGENT = """
import tracekit

tracekit.configure(store="traces", versions={"prompt": "v7", "model": "m"})

@tracekit.tool(effect="read")
def look(what: str) -> str:
    return what

@tracekit.agent
def ask(what: str) -> str:
    raise ValueError(look(what))

if __name__ == "__main__":
    import agent
    with tracekit.run(run_id="bad"):
        try:
            agent.ask("x")
        except ValueError:
            pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stale")
    (place / "agent.py").write_text(AGENT)
    _run(place, sys.executable, "agent.py")
    line = ("distill", "--run-id", "bad", "--planner", "agent:ask")
    _run(place, sys.executable, "-m", "tracekit", *line)
    return place


def _run(folder: Path, *line: str, code: int = 0) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "TRACEKIT_STORE": "traces"}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _lint(folder: Path, agent: str, *, code: int) -> list[str]:
    (folder / "agent.py").write_text(agent)
    line = (sys.executable, "-m", "tracekit", "case", "lint", "cases", "--stale", "--json")
    told: dict[str, Any] = json.loads(_run(folder, *line, code=code).partition("\nError")[0])
    return [found["text"] for found in told["findings"]]


def test_a_case_is_not_stale_for_the_code_that_it_was_made_of(folder: Path) -> None:
    (path,) = (folder / "cases").glob("*.case.yaml")
    source = read_case(path).source
    assert source is not None
    assert source.run is not None
    assert source.digest == short_digest(open_store(folder / "traces").trajectory(source.run))
    assert source.versions == {"prompt": "v7"}
    assert list(source.tools) == ["look"]
    assert _lint(folder, AGENT, code=0) == []
    same_text_elsewhere = AGENT.replace("return what\n", "return what + ''\n")
    assert _lint(folder, same_text_elsewhere, code=0) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("look(what: str)", "look(what: str, often: int = 1)", "look takes other arguments"),
        ("def look(", "def view(", "look is not declared any more"),
        ('"prompt": "v7"', '"prompt": "v8"', "prompt is 'v8', and the case was made with 'v7'"),
    ],
)
def test_a_tool_or_a_prompt_that_changed_makes_it_stale(
    folder: Path, old: str, new: str, said: str
) -> None:
    (text,) = _lint(folder, AGENT.replace(old, new), code=1)
    assert text.startswith("stale: ")
    assert said in text


def test_a_planner_that_cannot_be_imported_is_no_stale_case(folder: Path) -> None:
    assert "nowhere" in " ".join(_lint(folder, "import nowhere\n" + AGENT, code=2))


def test_what_nobody_said_is_not_compared() -> None:
    case = parse_case(INJECTION)
    assert stale(case, Declared({"look": "abc"}, {"prompt": "v8"})) == []
    source = Source(versions={"prompt": "v7"}, tools={"look": "abc"})
    known = case.model_copy(update={"source": source})
    assert stale(known, Declared()) == []


TOOLBOX = """
import tracekit

class Account:
    @tracekit.tool(name="bank.balance", effect="read")
    def balance(self, currency): return 1
    @staticmethod
    @tracekit.tool(name="bank.rates", effect="read")
    def rates(): return 1

class Savings(Account): pass

def _made(name):
    @tracekit.tool(name=name, effect="read")
    def made(day): return 1
    return made

TOOLS = {name: _made(name) for name in ("made.a", "made.b")}
"""


@pytest.mark.parametrize(
    "told",
    [
        "import toolbox",
        "from toolbox import Savings",
        "from toolbox import Savings\nACCOUNT = Savings()",
        "import between",
    ],
)
def test_tools_live_in_classes_collections_and_other_modules_too(tmp_path: Path, told: str) -> None:
    (tmp_path / "toolbox.py").write_text(TOOLBOX)
    (tmp_path / "between.py").write_text("import toolbox")
    own = "import tracekit\n@tracekit.tool(effect='read')\ndef own(): return 1\n"
    (tmp_path / "planner.py").write_text(f"{own}{told}\ndef ask(): return None\n")
    script = (
        "import json, planner\nfrom replay.declared import declared_by\n"
        "print(json.dumps(declared_by(planner.ask)['tools']))"
    )
    tools = json.loads(_run(tmp_path, sys.executable, "-c", script))
    assert set(tools) == {"own", "bank.balance", "bank.rates", "made.a", "made.b"}
    source = Source(tools={**tools, "bank.rate": "abc"})
    known = parse_case(INJECTION).model_copy(update={"source": source})
    assert stale(known, Declared(tools)) == ["stale: bank.rate is not declared any more"]


def test_of_a_tool_whose_shape_is_not_known_nothing_is_said() -> None:
    source = Source(tools={"look": "abc"})
    known = parse_case(INJECTION).model_copy(update={"source": source})
    assert stale(known, Declared({"look": None})) == []


def test_what_is_declared_is_looked_for_once_and_only_if_somebody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[object] = []

    def counting(planner: object) -> dict[str, Any]:
        looked.append(planner)
        return {"tools": {}, "versions": {}}

    monkeypatch.setattr("replay.planner.declared_by", counting)

    def decide(history: list[Any], tools: list[Any]) -> Any:
        return {"answer": "done"}

    with CaseRunner(decide) as runner:
        for _ in range(3):
            assert runner.run(parse_case(INJECTION)).trajectory is not None
        assert looked == []
        assert runner.declared == runner.declared == Declared()
    assert looked == [decide]
