"""`tracekit metrics`: what it prints, which runs it means, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.metrics.schema import MetricsForm, json_schema
from replay.recording import short_digest
from tests.store.made import run
from tracekit.canonical import json_text
from tracekit.cli import main
from tracekit.importers.ingest import import_paths
from tracekit.store import Batch, Store, open_store

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
FILE = "tau-bench.gpt-4o-airline.tasks-00-24"
CASE = """\
format: tracekit/case/v1
name: look-it-up
input: x
expected: {required_tools: [get_reservation_details], forbidden_tools: [cancel_reservation]}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three runs of tau-bench, and a replay of one."""
    store = open_store(tmp_path_factory.mktemp("metrics") / "traces", create=True)
    import_paths([TRACES / "tau-bench"], store)
    again = run("again", attributes=json_text({"replay_of": f"{FILE}.task-12.trial-1"}))
    store.append(Batch(again.events, again.blobs))
    return store


def metrics(store: Store, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["metrics", *arguments, "--store", str(store.path)])


def report(store: Store, *arguments: str) -> Any:
    result = metrics(store, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    MetricsForm.model_validate(found)
    return found


def test_without_a_selection_all_recorded_runs_are_measured_and_no_replay(store: Store) -> None:
    result = metrics(store)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "runs: 3"
    told = [" ".join(line.split()) for line in lines]
    assert "task_success 66.7 % 20.8 % – 93.9 % 2 3 3 of 3" in told
    assert "pass@1 75.0 % (50.0 – 100.0) pass^1 75.0 % (50.0 – 100.0) of 2" in told
    assert "  tokens                 its record says nothing of tokens" in lines
    assert report(store, "replays")["runs"] == 1


def test_selections_are_added_up_and_ids_are_selections_too(store: Store) -> None:
    assert report(store, "tag=trial-0", f"{FILE}.task-12", "tag=trial-1")["runs"] == 2


def test_runs_are_sorted_by_what_is_asked(store: Store) -> None:
    buckets = report(store, "--by", "task")["buckets"]
    success = [(one["name"], one["metrics"]["task_success"]["value"]) for one in buckets]
    assert success == [("tau-bench/12", 1.0), ("tau-bench/15", 0.5)]


def test_runs_are_measured_against_the_reference_of_their_task(store: Store) -> None:
    found = report(store, "--gold", f"{FILE}.task-15.trial-2")["metrics"]
    # The reference itself, and the other trial of its task; the third run has no reference.
    assert (found["excess_step_ratio"]["n"], found["excess_step_ratio"]["of"]) == (2, 3)
    # Of the reference's three calls the other trial lacks get_user_details.
    assert (found["tool_recall"]["numerator"], found["tool_recall"]["denominator"]) == (5, 6)


def test_all_runs_are_measured_against_a_case(store: Store, tmp_path: Path) -> None:
    case = tmp_path / "look.case.yaml"
    case.write_text(CASE, encoding="utf-8")
    found = report(store, "--gold", str(case))["metrics"]
    assert found["tool_recall"]["value"] == 1
    assert (found["unsafe_action_rate"]["numerator"], found["unsafe_action_rate"]["n"]) == (1, 3)
    assert found["task_success"]["numerator"] == 2


def test_runs_are_measured_against_the_case_in_a_folder_that_is_theirs(
    store: Store, tmp_path: Path
) -> None:
    def made_of(run: str, name: str) -> str:
        return CASE.replace("look-it-up", name) + f"source: {{run: {run}}}\n"

    (tmp_path / "a.case.yaml").write_text(made_of("gone", "of-another"), "utf-8")
    (tmp_path / "b.case.yaml").write_text(made_of(f"{FILE}.task-15.trial-2", "its-own"), "utf-8")
    (tmp_path / "c.case.yaml").write_text(CASE, "utf-8")
    told = metrics(store, "--gold", str(tmp_path), "--json")
    assert told.exit_code == 0
    assert told.stderr == (
        f"Error: {tmp_path}/c.case.yaml is left out: it does not say of which run it was made\n"
    )
    found = json.loads(told.stdout)["metrics"]
    # The run itself and the other trial of its task; the third run has no case.
    assert (found["tool_recall"]["n"], found["tool_recall"]["of"]) == (2, 3)

    (tmp_path / "a.case.yaml").write_text(made_of(f"{FILE}.task-12.trial-1", "replayed"), "utf-8")
    replayed = metrics(store, "replays", "--gold", str(tmp_path), "--json")
    assert json.loads(replayed.stdout)["metrics"]["tool_recall"]["n"] == 1


@pytest.mark.parametrize("arguments", [(), ("replays",)])
def test_another_run_under_the_id_of_a_case_gets_no_gold_of_it(
    store: Store, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    made_of = f"{FILE}.task-12.trial-1"
    its_own = short_digest(store.trajectory(made_of))

    def measured(did: str) -> tuple[int, bool]:
        case = CASE + f"source: {{run: {made_of}, digest: {did!r}}}\n"
        (tmp_path / "a.case.yaml").write_text(case, "utf-8")
        told = metrics(store, *arguments, "--gold", str(tmp_path), "--json")
        recall = json.loads(told.stdout)["metrics"]["tool_recall"]
        return recall["n"], "it was made of another of that id" in told.stderr

    assert measured(its_own) == (1, False)
    assert measured("0123456789ab") == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tag=nobody",), "no run is meant"),
        (("--by", "tusk"), "no run says its 'tusk'"),
        (("--gold", "nothing"), "no run 'nothing'"),
        (("--gold", "a.case.yaml", "--gold", "b"), "goes with no other --gold"),
        (("--gold", "a.case.yaml"), "cannot be read"),
        (("--gold", str(TRACES)), "there is no *.case.yaml in"),
        (("tag",), "no run 'tag'"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence_and_exits_with_2(
    store: Store, arguments: tuple[str, ...], words: str
) -> None:
    result = metrics(store, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_that_is_damaged_is_told_and_the_others_are_measured(tmp_path: Path) -> None:
    store = open_store(tmp_path / "traces", create=True)
    for name in ("good", "bad"):
        made = run(name)
        store.append(Batch(made.events, made.blobs))
    damaged = sorted((store.path / "events").rglob("*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    result = metrics(open_store(store.path), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"] == 1
    assert "is left out" in result.stderr


def test_the_schema_of_the_json_is_the_published_one() -> None:
    published = Path(__file__).parents[2] / "docs" / "metrics.schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema(), (
        "write docs/metrics.schema.json anew with replay.metrics.schema.json_schema"
    )
