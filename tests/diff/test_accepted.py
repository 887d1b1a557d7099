"""Accepted trajectories: a run is known again by what it did, not by its id alone."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from replay import compare_many
from replay.comparing.references import folder_of, read_references
from tests.diff.many_runs import kept, made
from tests.store.made import value
from tracekit.cli import main
from tracekit.store import Batch, Store

SIDES = ("--baseline", "tag=v6", "--candidate", "tag=v7")
OLD = made("old", tags=["v6"], task_id="T")
NEW = made("new", tags=["v7"], task_id="T", arguments=("a", "evil"))


def good(*arguments: str, **said: str) -> Batch:
    """The run that is accepted, or another under its id."""
    return made("good", tags=["tried"], task_id="T", arguments=arguments, **said)


def _diff(store: Store, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments, "--store", str(store.path)])


def accepted(tmp_path: Path, *batches: Batch) -> tuple[str, str]:
    """Accept ``good`` in one store, and give the option that names its folder."""
    folder = tmp_path / "accepted"
    first = kept(tmp_path / "first", *batches)
    ran = _diff(first, "old", "good", "--accept", "--references", str(folder))
    assert ran.exit_code == 0, ran.output
    return "--references", str(folder)


def test_another_run_under_an_accepted_id_accepts_nothing(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "c"))
    store = kept(tmp_path / "traces", OLD, good("a", "evil"), NEW)

    result = _diff(store, *SIDES, *mine)
    assert result.exit_code == 1
    assert "note: accepted run good is not compared with: it is not the run" in result.stdout


def test_nor_is_it_its_own_reference(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "c"))
    store = kept(tmp_path / "traces", OLD, good("a", "evil"))
    result = _diff(store, "--baseline", "tag=v6", "--candidate", "good", *mine)
    assert result.exit_code == 1


def test_what_a_comparison_looks_at_beside_the_steps_counts_too(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "c"))
    asked, name = value({"pay": "mallory"})
    said = {"argument_digest": name, "argument_blob": asked.digest, "argument_state": "captured"}
    candidate = made("new", tags=["v7"], task_id="T", arguments=("a", "c"), **said)
    store = kept(tmp_path / "traces", OLD, good("a", "c", **said), candidate, Batch((), (asked,)))
    result = _diff(store, *SIDES, *mine)
    assert (result.exit_code, "it is not the run" in result.stdout) == (1, True)


def test_the_same_run_in_another_store_is_what_was_accepted(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "evil"))
    store = kept(tmp_path / "traces.duckdb", OLD, good("a", "evil"), NEW)
    result = _diff(store, *SIDES, *mine)
    assert (result.exit_code, "note:" in result.stdout) == (0, False)


def test_an_accepted_run_that_is_gone_is_told_wherever_its_task_is_compared(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "evil"))
    store = kept(tmp_path / "traces", OLD, NEW)
    junit, markdown = tmp_path / "d.xml", tmp_path / "d.md"
    result = _diff(
        store, *SIDES, *mine, "--json", "--junit", str(junit), "--markdown", str(markdown)
    )
    said = "accepted run good is not compared with: it is not in the store any more"
    assert (result.exit_code, json.loads(result.stdout)["notes"]) == (1, [said])
    assert f"note: {said}" in markdown.read_text("utf-8")
    assert next(ElementTree.parse(junit).iter("system-out")).text == said

    elsewhere = kept(
        tmp_path / "other",
        made("old", tags=["v6"], task_id="U"),
        made("new", tags=["v7"], task_id="U"),
    )
    assert "note:" not in _diff(elsewhere, *SIDES, *mine).stdout


def test_a_file_that_does_not_say_the_trajectory_is_not_used_until_it_is_accepted_again(
    tmp_path: Path,
) -> None:
    store = kept(tmp_path / "traces", OLD, good("a", "evil"), NEW)
    folder = folder_of(store.path)
    folder.mkdir()
    before = {"format": "tracekit/reference/v1", "run_id": "good", "task": "T", "accepted_ns": 1}
    (folder / "before.json").write_text(json.dumps(before), "utf-8")

    found = _diff(store, *SIDES)
    assert (found.exit_code, "accept it again" in found.stdout) == (1, True)
    assert _diff(store, "old", "good", "--accept").exit_code == 0
    again = _diff(store, *SIDES)
    assert (again.exit_code, "note:" in again.stdout) == (0, False)


def test_accepted_runs_that_are_selected_are_those_that_were_accepted(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "c"))
    store = kept(tmp_path / "traces", OLD, good("a", "evil"), NEW)
    result = _diff(store, "--baseline", "accepted", "--candidate", "tag=v7", *mine)
    assert (result.exit_code, "accepted run good is not compared with" in result.stderr) == (
        2,
        True,
    )

    both = ("--baseline", "accepted", "--baseline", "tag=v6", "--candidate", "tag=v7")
    result = _diff(store, *both, *mine)
    assert (result.exit_code, result.stdout.count("note:")) == (1, 1)


@pytest.mark.parametrize("selects", [("accepted",), ("tag=v6", "accepted")])
def test_accepted_runs_are_not_taken_for_all_runs_where_nothing_is_compared(
    tmp_path: Path, selects: tuple[str, ...]
) -> None:
    store = kept(tmp_path / "traces", OLD, NEW)
    gates = tmp_path / "gates.toml"
    gates.write_text('[[gates]]\ncheck = "steps <= 12"\n', "utf-8")
    candidates = [word for select in selects for word in ("--candidate", select)]
    for command in (["metrics", *selects], ["gate", str(gates), *candidates]):
        ran = CliRunner().invoke(main, [*command, "--store", str(store.path)])
        assert (ran.exit_code, "'accepted' means runs only where" in ran.stderr) == (2, True)


def test_a_damaged_accepted_run_is_told(tmp_path: Path) -> None:
    mine = accepted(tmp_path, OLD, good("a", "gone"))
    store = kept(tmp_path / "traces", OLD, Batch(good("a", "gone").events, ()), NEW)
    found = compare_many("tag=v6", "tag=v7", store=store, references=read_references(Path(mine[1])))
    assert (found.different, len(found.notes)) == (True, 1)
