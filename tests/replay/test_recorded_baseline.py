"""The old planner, where the record says which it was: taken only if its code is what it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.baseline import recorded_planner
from tracekit.cli import main
from tracekit.errors import ReplayNotPossible, UsageError
from tracekit.origin import Origin, source_digest
from tracekit.store import open_store
from tracekit.trajectory import Trajectory

FILES = {
    "desk/__init__.py": "",
    "desk/words.py": "ASK = 'errors of checkout'\n",
    "desk/unused.py": "",
    "desk/tools.py": """
        import tracekit

        @tracekit.tool(effect="read")
        def search(query):
            return [query, "rollback"]
        """,
    "desk/sre.py": """
        import tracekit
        from desk.tools import search
        from . import words

        @tracekit.agent
        def investigate(question):
            found = search(words.ASK)
            return found[1]
        """,
    "desk/new.py": """
        import tracekit
        from desk.tools import search

        @tracekit.agent(name="investigate")
        def investigate(question):
            return search("errors of checkout")[1]
        """,
    "alone.py": """
        import tracekit

        @tracekit.tool(effect="read")
        def look():
            return 1

        @tracekit.agent
        def go():
            return look()

        if __name__ == "__main__":
            go()
        """,
}


def _write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines() if "\n" in text.strip() else [text]
        dedented = [line.removeprefix("        ") for line in lines]
        (folder / name).write_text("\n".join(dedented) + "\n", encoding="utf-8")


def _record(folder: Path, store: Path, *command: str) -> Trajectory:
    """Record in a process of its own, as agents are."""
    env = {**os.environ, "TRACEKIT_STORE": str(store), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, *command], cwd=folder, env=env, check=True)
    opened = open_store(store)
    (row,) = opened.runs()
    return opened.trajectory(row.run_id)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Trajectory]:
    """The code, the store, and its one run."""
    folder = tmp_path_factory.mktemp("code")
    _write(folder)
    store = tmp_path_factory.mktemp("kept") / "store"
    told = "import desk.sre; desk.sre.investigate('why')"
    return folder, store, _record(folder, store, "-c", told)


@pytest.fixture
def code(made: tuple[Path, Path, Trajectory], tmp_path: Path) -> Path:
    """A copy of the code, to be changed."""
    shutil.copytree(made[0], tmp_path / "code", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "code"


def _replay(
    made: tuple[Path, Path, Trajectory], code: Path, *, baseline_path: tuple[str, ...] = ()
) -> ReplayResult:
    options = ReplayOptions(
        path=(str(code),), baseline="recorded", baseline_path=baseline_path, isolation="process"
    )
    return replay_run(
        made[2].run_id, planner="desk.new:investigate", store=made[1], options=options
    )


def test_a_run_says_which_code_made_it(made: tuple[Path, Path, Trajectory]) -> None:
    folder, _, run = made
    assert run.made_by == Origin(
        "desk.sre:investigate", source_digest("desk.sre", folder / "desk/sre.py")
    )
    assert run.made_by.code is not None


def test_the_recorded_planner_is_the_baseline(
    made: tuple[Path, Path, Trajectory], code: Path
) -> None:
    (code / "desk/unused.py").write_text("that = 'the agent does not import'\n")
    (code / "desk/another.py").write_text("")
    result = _replay(made, code)
    assert result.baseline is not None
    assert (result.baseline.planner, result.baseline.sound) == ("desk.sre:investigate", True)
    assert (result.verdict.kind, result.self_test and result.self_test.outcome) == (
        "pass",
        "reacts",
    )


@pytest.mark.parametrize("name", ["desk/sre.py", "desk/words.py", "desk/__init__.py"])
def test_other_code_is_no_baseline_and_the_old_one_may_lie_elsewhere(
    made: tuple[Path, Path, Trajectory], code: Path, name: str
) -> None:
    with (code / name).open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ReplayNotPossible, match="with other code than is here: sha256:") as caught:
        _replay(made, code)
    assert "--baseline-path" in str(caught.value)
    result = _replay(made, code, baseline_path=(str(made[0]),))
    assert result.baseline is not None
    assert result.baseline.sound


def test_code_that_is_gone_is_no_baseline(made: tuple[Path, Path, Trajectory], code: Path) -> None:
    (code / "desk/sre.py").unlink()
    with pytest.raises(ReplayNotPossible, match=r"there is no module desk\.sre here"):
        _replay(made, code)


def test_a_run_that_does_not_say_who_made_it_has_no_recorded_planner(
    made: tuple[Path, Path, Trajectory],
) -> None:
    from dataclasses import replace

    with pytest.raises(ReplayNotPossible, match="does not say which planner made it"):
        recorded_planner(replace(made[2], made_by=None), [])
    with pytest.raises(ReplayNotPossible, match="does not say with which code"):
        recorded_planner(replace(made[2], made_by=Origin("desk.sre:investigate", None)), [])
    with pytest.raises(UsageError, match="--baseline-path says where to look"):
        ReplayOptions(baseline_path=("here",))


def test_a_program_is_known_by_the_name_under_which_it_can_be_imported(
    made: tuple[Path, Path, Trajectory], tmp_path: Path
) -> None:
    for number, command in enumerate([("alone.py",), ("-m", "alone")]):
        run = _record(made[0], tmp_path / str(number), *command)
        code = source_digest("alone", made[0] / "alone.py")
        assert run.made_by == Origin("alone:go", code)
        assert recorded_planner(run, [str(made[0])]) == "alone:go"


def test_code_that_was_changed_after_it_was_loaded_is_not_told(code: Path, tmp_path: Path) -> None:
    told = "import desk.sre, os; os.utime('desk/words.py', (9e9, 9e9)); desk.sre.investigate('why')"
    run = _record(code, tmp_path / "store", "-c", told)
    assert run.made_by == Origin("desk.sre:investigate", None)


def test_an_agent_that_nothing_could_import_is_not_told() -> None:
    from tests.recorder.record_kit import recording

    @tracekit.agent
    def here() -> None:
        pass

    with recording() as recorded:
        here()
    assert recorded.trajectory().made_by is None


def test_an_agent_that_is_a_method_does_not_say_on_which_object_so_nobody_is_named(
    tmp_path: Path,
) -> None:
    text = """
import tracekit

class Desk:
    @tracekit.agent
    def handle(self, question):
        return question

    @staticmethod
    @tracekit.agent
    def of_all(question):
        return question

    @tracekit.agent
    @classmethod
    def of_class(cls, question):
        return question
"""
    (tmp_path / "method.py").write_text(text, encoding="utf-8")
    told = {"Desk().handle": None, "Desk.of_all": "of_all", "Desk.of_class": "of_class"}
    for number, (agent, named) in enumerate(told.items()):
        call = f"import method; method.{agent}('why')"
        run = _record(tmp_path, tmp_path / str(number), "-c", call)
        planner = None if run.made_by is None else run.made_by.planner
        assert planner == (None if named is None else f"method:Desk.{named}")


def test_the_command_line_takes_it(made: tuple[Path, Path, Trajectory]) -> None:
    folder, store, run = made
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        asked = ["--run-id", run.run_id, "--planner", "desk.new:investigate", "--store", str(store)]
        more = ["--baseline", "recorded", "--baseline-path", str(folder), "--json"]
        done = CliRunner().invoke(main, ["replay", *asked, *more])
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert told["baseline"]["planner"] == "desk.sre:investigate"
        ran = ["--limit", "5", "--planner", "desk.new:investigate", "--store", str(store)]
        bulk = CliRunner().invoke(main, ["replay", *ran, "--baseline", "recorded", "--json"])
        assert bulk.exit_code == 0, bulk.output
