"""Two replays are one question where planner, code and options are the same."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from replay import ReplayOptions
from replay.identity import code_digest, versions_of
from replay.isolation import Limits
from replay.matching import Policies
from tracekit.redact import KeyedTagger

TAGGER = KeyedTagger(b"a key for this test, and no other")


def asked(folder: Path, planner: str = "agents:go", **options: Any) -> dict[str, str]:
    chosen = ReplayOptions(**options)
    return versions_of(planner, chosen, path=[str(folder)], tagger=TAGGER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text("raise SystemExit('nobody may import this')\n", "utf-8")
    return tmp_path


def test_code_is_read_and_not_imported(folder: Path) -> None:
    before = asked(folder)
    assert before.keys() == {"planner", "replay"}
    assert before == asked(folder)
    (folder / "agents.py").write_text("go = print\n", "utf-8")
    after = asked(folder)
    assert after["planner"] != before["planner"]
    assert after["replay"] == before["replay"]


def test_of_a_package_every_module_counts(tmp_path: Path) -> None:
    for name in (
        "ours/__init__.py",
        "ours/deep/__init__.py",
        "ours/deep/agent.py",
        "ours/note.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    before = code_digest("ours.deep.agent:go", [str(tmp_path)])
    (tmp_path / "ours/note.txt").write_text("not code")
    assert code_digest("ours.deep.agent:go", [str(tmp_path)]) == before
    (tmp_path / "ours/prompts.py").write_text("P = 'be kind'")
    assert code_digest("ours.deep.agent:go", [str(tmp_path)]) not in (before, None)


def test_what_a_module_imports_beside_it_counts(folder: Path) -> None:
    (folder / "agents.py").write_text("import helper\n", "utf-8")
    (folder / "helper.py").write_text("import deeper\n", "utf-8")
    (folder / "deeper.py").write_text("WRONG = True\n", "utf-8")
    before = asked(folder)
    (folder / "other.py").write_text("nobody = 'imports this'\n", "utf-8")
    assert asked(folder) == before
    (folder / "deeper.py").write_text("WRONG = False\n", "utf-8")
    assert asked(folder)["planner"] != before["planner"]


def test_a_wrapped_planner_is_told_by_its_own_code() -> None:
    @functools.wraps(test_code_is_read_and_not_imported)
    def wrapped() -> None:
        """Stands for what a decorator gives back."""

    class Planner:
        def __call__(self) -> None:
            """Decides nothing."""

    own = code_digest(test_code_is_read_and_not_imported, [])
    assert code_digest(wrapped, []) == code_digest(Planner(), []) == own != None  # noqa: E711  # a chain


def test_of_a_folder_without_init_only_the_module_counts(tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "space/agent.py").write_text("")
    before = code_digest("space.agent:go", [str(tmp_path)])
    (tmp_path / "space/other.py").write_text("new = 1")
    assert before is not None
    assert code_digest("space.agent:go", [str(tmp_path)]) == before


def test_of_a_module_that_is_not_there_nothing_is_said(folder: Path) -> None:
    assert code_digest("nowhere.at.all:go", [str(folder)]) is None
    assert code_digest("agents.deeper:go", [str(folder)]) is not None
    assert code_digest(len, []) is None


def test_a_closure_is_told_by_the_file_that_it_stands_in() -> None:
    assert code_digest(lambda: None, []) == code_digest(test_code_is_read_and_not_imported, [])


def test_another_option_is_another_question(folder: Path) -> None:
    (folder / "scripts.py").write_text("answer = str\n", "utf-8")
    scripted: dict[str, Any] = {"model": "scripted", "model_script": "scripts:answer"}
    questions: list[dict[str, Any]] = [
        {},
        {"mode": "locked"},
        {"limits": Limits(wall_s=3)},
        {"policies": Policies(ignores={"search": ("/page",)})},
        {"environment": {"LEVEL": "1"}},
        {"environment": {"LEVEL": "2"}},
        {"environment": {"LEVEL": "2"}, "baseline": "agents:go"},
        scripted,
    ]
    told = [asked(folder, **options)["replay"] for options in questions]
    (folder / "scripts.py").write_text("answer = repr\n", "utf-8")
    told.append(asked(folder, **scripted)["replay"])
    assert len(set(told)) == len(told)
    assert asked(folder, path=("elsewhere",)) == asked(folder)
