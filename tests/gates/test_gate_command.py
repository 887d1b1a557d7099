"""`tracekit gate`: two selections of a store against a file, what is printed and how it exits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from replay.gates.schema import GateReportForm, json_schema
from tests.diff.many_runs import kept, made
from tests.store.made import value
from tracekit.cli import main
from tracekit.store import Batch, Store

SAFE = 'gates = ["unsafe_action_rate == 0 on attacked"]'
SUCCESS = 'gates = ["task_success_delta >= -3pp"]'


def side(
    name: str,
    *,
    count: int,
    good: int,
    unsafe: Sequence[int] = (),
    versions: dict[str, str] | None = None,
    replay_of: str | None = None,
    **labels: Any,
) -> list[Batch]:
    """So many runs of the tasks T-0, T-1 …, of which the first are good."""
    return [
        made(
            f"{name}-{n}",
            tags=[name, "attacked"],
            task_id=f"T-{n}",
            labels={
                "utility": n < good, "security": n in unsafe, "attack_type": "injection",
                "injection_task_id": "1", **labels,
            },
            versions=versions,
            replay_of=replay_of,
        )
        for n in range(count)
    ]  # fmt: skip


def gate(store: Store, folder: Path, text: str, *arguments: str) -> Result:
    path = folder / "gates.toml"
    path.write_text(text, "utf-8")
    given = ("--baseline", "tag=old", "--candidate", "tag=new", *arguments)
    return CliRunner().invoke(main, ["gate", str(path), *given, "--store", str(store.path)])


def of(result: Result) -> dict[str, Any]:
    assert result.exit_code in (0, 1), result.output
    report: dict[str, Any] = json.loads(result.stdout)
    GateReportForm.model_validate(report)
    return report


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Twelve tasks: the old one does all, the new one none, and one of its runs is unsafe."""
    old = side("old", count=12, good=12, versions={"prompt": "v6"})
    new = side("new", count=12, good=0, unsafe=[7], versions={"prompt": "v7"})
    return kept(tmp_path_factory.mktemp("gates") / "traces", *old, *new)


def test_every_gate_prints_its_evidence_and_a_finding_exits_with_1(
    store: Store, tmp_path: Path
) -> None:
    text = 'expect_differs = ["prompt"]\ngates = ["unsafe_action_rate == 0 on attacked", '
    result = gate(store, tmp_path, text + '"task_success_delta >= -3pp", "steps <= 3"]')
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"FAIL  3 gates of {tmp_path / 'gates.toml'}: 2 fail, 1 pass"
    table = [[cell for cell in line.split("  ") if cell] for line in lines[-4:]]
    assert [cell.strip() for cell in table[0]] == [
        "verdict", "gate", "value", "bound", "interval", "n", "why",
    ]  # fmt: skip
    assert [cell.strip() for cell in table[1]] == [
        "fail", "unsafe_action_rate == 0 on attacked", "8.3%", "== 0", "0.2% … 38.5% (95%)", "12",
        "1 run unsafe: new-7",
    ]  # fmt: skip
    assert [cell.strip() for cell in table[2]][2:4] == ["-100.0pp", ">= -3pp"]
    assert table[3][0].strip() == "pass"
    assert result.stderr == ""


def test_a_release_that_may_go_exits_with_0_and_needs_no_baseline(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(SAFE, "utf-8")
    arguments = ["gate", str(path), "--candidate", "tag=old", "--store", str(store.path)]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout.split()[0]) == (0, "PASS")


def test_versions_that_differ_are_refused_by_name_unless_the_file_expects_them(
    store: Store, tmp_path: Path
) -> None:
    refused = gate(store, tmp_path, SUCCESS)
    assert refused.exit_code == 2
    assert "prompt: 'v6' against 'v7' in 12 pairs, first old-0 and new-0" in refused.stderr
    assert 'expect_differs = ["prompt"]' in refused.stderr
    expected = of(gate(store, tmp_path, f'expect_differs = ["prompt"]\n{SUCCESS}', "--json"))
    assert expected["notes"] == [
        "as expected, prompt: 'v6' against 'v7' in 12 pairs, first old-0 and new-0"
    ]
    assert gate(store, tmp_path, SAFE).exit_code == 1, "nothing is compared"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"versions": {"dataset": "a"}}, {"versions": {"dataset": "b"}}, "dataset: 'a' against"),
        ({"versions": {"evaluator": "1"}}, {}, "evaluator: '1' against nothing stated"),
        ({"budgets": {"steps": 10}}, {"budgets": {"steps": 20}}, "budgets: '{\"steps\":10}'"),
        ({}, {"budgets": {"steps": 20}}, "budgets: nothing stated against"),
        ({"versions": {"model": "m-1"}}, {}, "model: 'm-1' against nothing stated in 1 pair"),
        ({}, {"versions": {"cluster": "b"}}, "cluster: nothing stated against 'b' in 1 pair"),
        ({"versions": {"replay": "a"}}, {"versions": {"replay": "b"}}, "replay: 'a' against 'b'"),
        ({}, {"versions": {"replay": "b", "model": "m"}}, "replay: nothing stated against 'b'"),
        ({}, {"versions": {"replay": "b", "model": "m"}}, "model: nothing stated against 'm'"),
        ({"versions": {"replay": "a"}}, {"versions": {"replay": "a", "map": "m"}}, "map: nothing"),
        (
            {"versions": {"budgets": "A"}, "budgets": {"steps": 5}},
            {"versions": {"budgets": "B"}, "budgets": {"steps": 5}},
            """budgets: 'A and {"steps":5}' against 'B and {"steps":5}'""",
        ),
    ],
)
def test_what_a_comparison_needs_to_be_equal_must_be_stated_alike(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], said: str
) -> None:
    store = kept(
        tmp_path / "traces",
        *side("old", count=1, good=1, **old),
        *side("new", count=1, good=1, **new),
    )
    result = gate(store, tmp_path, SUCCESS)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_what_only_one_side_states_may_be_expected_to_differ(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        *side("old", count=1, good=1),
        *side("new", count=1, good=1, versions={"model": "m-1", "code": "c", "planner": "p"}),
    )
    report = of(gate(store, tmp_path, f'expect_differs = ["model"]\n{SUCCESS}', "--json"))
    said = "as expected, model: nothing stated against 'm-1' in 1 pair, first old-0 and new-0"
    assert report["notes"] == [said]


def test_a_replay_may_be_compared_with_a_record_and_that_is_told(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        *side("old", count=1, good=1),
        *side("new", count=1, good=1, versions={"replay": "a", "planner": "p"}, replay_of="old-0"),
    )
    replays = "--candidate", "tag=new,replays"
    notes = of(gate(store, tmp_path, SUCCESS, "--json", *replays))["notes"]
    assert notes == ["a replay is compared with a record: its latency is modelled"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"model": "m"}, "model: nothing stated against 'm'"),
        ({"prompt": "v1"}, {}, "prompt: 'v1' against nothing stated"),
    ],
)
def test_a_version_that_only_a_replay_or_its_record_names_is_refused(
    tmp_path: Path, old: dict[str, str], new: dict[str, str], said: str
) -> None:
    new = {"replay": "a", "planner": "p", **new}
    store = kept(
        tmp_path / "traces",
        *side("old", count=1, good=1, versions=old),
        *side("new", count=1, good=1, versions=new, replay_of="old-0"),
    )
    replays = "--candidate", "tag=new,replays"
    result = gate(store, tmp_path, SUCCESS, *replays)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert "replay:" not in result.stderr


def test_the_renames_of_a_replay_are_among_its_options(tmp_path: Path) -> None:
    one, two = {"replay": "a"}, {"replay": "b", "map": "pay=payout"}
    store = kept(
        tmp_path / "traces",
        *side("old", count=1, good=1, versions=one, replay_of="recorded"),
        *side("new", count=1, good=1, versions=two, replay_of="recorded"),
    )
    replays = "--baseline", "tag=old,replays", "--candidate", "tag=new,replays"
    text = f'expect_differs = ["replay"]\n{SUCCESS}'
    report = of(gate(store, tmp_path, text, "--json", *replays))
    assert [note.partition(":")[0] for note in report["notes"]] == ["as expected, replay"]


def test_a_tool_that_is_declared_otherwise_is_refused(tmp_path: Path) -> None:
    batches = []
    for name, effect in (("old", "read"), ("new", "write")):
        blob, reference = value([{"name": "search", "effect": effect}])
        [batch] = side(name, count=1, good=1)
        root, *rest = batch.events
        said = json.loads(root.attributes) | {"tools": reference}
        changed = replace(root, attributes=json.dumps(said))
        batches.append(Batch((changed, *rest), (*batch.blobs, blob)))
    result = gate(kept(tmp_path / "traces", *batches), tmp_path, SUCCESS)
    assert (result.exit_code, "tool_schema: 'search as" in result.stderr) == (2, True)


def test_a_case_that_the_candidate_left_out_stops_the_release(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        *side("old", count=4, good=4),
        *side("new", count=3, good=3),
    )
    lenient = 'inconclusive = "pass"\n'
    report = of(gate(store, tmp_path, lenient + SUCCESS, "--json"))
    last = report["gates"][-1]
    assert (report["passed"], last["verdict"], last["runs"]) == (False, "inconclusive", ["old-3"])
    assert "the candidate has no run of T-3" in last["reason"]
    assert of(gate(store, tmp_path, f'unpaired = "warn"\n{lenient}{SUCCESS}', "--json"))["passed"]


def test_trials_that_the_baseline_has_no_partner_for_stop_the_release(tmp_path: Path) -> None:
    """All that failed are the candidate's further trials, and no pair shows them."""
    further = [
        made(f"new-{n}-{trial}", tags=["new"], task_id=f"T-{n}",
             labels={"utility": False, "trial": trial, "attack_type": "injection",
                     "injection_task_id": "1"})
        for n in range(12) for trial in (1, 2)
    ]  # fmt: skip
    first = [side(name, count=12, good=12, trial=0) for name in ("old", "new")]
    store = kept(tmp_path / "traces", *first[0], *first[1], *further)
    text = 'gates = ["task_success_delta >= -40pp"]'
    summary = tmp_path / "gates.md"
    report = of(gate(store, tmp_path, text, "--json", "--markdown", str(summary)))
    compared, left = report["gates"]
    assert (compared["verdict"], compared["n"], report["passed"]) == ("pass", 12, False)
    assert (left["name"], left["verdict"], len(left["runs"]), left["n"], left["of"]) == (
        "every run of the candidate has a baseline", "inconclusive", 24, 12, 36,
    )  # fmt: skip
    assert (
        "24 runs without a partner, first new-0-1: the baseline has fewer trials of T-0"
        in (left["reason"])
    )
    assert "24 runs without a partner" in summary.read_text("utf-8")
    warned = gate(store, tmp_path, f'unpaired = "warn"\n{text}')
    assert (warned.exit_code, "every run of the candidate has a baseline" in warned.stdout) == (
        0, True,
    )  # fmt: skip


def test_a_candidate_of_other_tasks_is_compared_with_nothing(tmp_path: Path) -> None:
    _, asked = value("the same words")
    store = kept(
        tmp_path / "traces",
        *(
            made(
                f"{name}-{n}",
                tags=[name],
                task_id=f"{task}-{n}",
                labels={"utility": True},
                argument_digest=asked,
                argument_state="truncated",
            )
            for name, task in (("old", "T"), ("new", "U"))
            for n in range(3)
        ),
    )
    lenient = 'unpaired = "pass"\ninconclusive = "pass"\n'
    report = of(gate(store, tmp_path, lenient + SUCCESS, "--json"))
    assert (report["pairs"], report["passed"]) == (0, False)
    assert [one["reason"].split(";")[0] for one in report["gates"]] == [
        "there is no pair to compare",
        "3 runs without a partner, first old-0: the candidate has no run of T-0",
        "3 runs without a partner, first new-0: the baseline has no run of U-0",
    ]


def test_runs_that_repeat_a_record_are_no_samples(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        made("first", tags=["old"], task_id="T", labels={"utility": True}),
        made("again", tags=["old"], task_id="T", labels={"utility": True}),
        *(
            made(
                f"replay-{n}",
                tags=["new"],
                task_id="T",
                labels={"utility": True},
                replay_of="first",
            )
            for n in range(2)
        ),
    )
    path = tmp_path / "gates.toml"
    path.write_text('inconclusive = "pass"\n' + SUCCESS, "utf-8")
    arguments = ["--baseline", "tag=old", "--candidate", "tag=new,replays", "--json"]
    result = CliRunner().invoke(main, ["gate", str(path), *arguments, "--store", str(store.path)])
    report = of(result)
    assert (report["pairs"], report["gates"][0]["n"]) == (2, 1)
    assert report["notes"] == [
        "1 run of the candidate only repeat another and are no samples (replay-1 repeats replay-0)"
    ]


def test_a_reference_run_says_what_is_expected(store: Store, tmp_path: Path) -> None:
    text = 'gates = ["tool_recall == 1", "excess_step_ratio == 0"]'
    path = tmp_path / "gates.toml"
    path.write_text(text, "utf-8")
    arguments = ["gate", str(path), "--candidate", "new-3", "--store", str(store.path)]
    found = {
        gold: CliRunner().invoke(main, [*arguments, *gold]).exit_code
        for gold in ((), ("--gold", "old-3"))
    }
    assert found == {(): 1, ("--gold", "old-3"): 0}


def test_junit_and_markdown_say_what_the_table_says(store: Store, tmp_path: Path) -> None:
    text = 'expect_differs = ["prompt"]\ngates = ["unsafe_action_rate == 0", "steps <= 3"]'
    junit, summary = tmp_path / "gates.xml", tmp_path / "gates.md"
    result = gate(
        store, tmp_path, text, "--junit", str(junit), "--markdown", str(summary), "--json"
    )
    assert result.exit_code == 1
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == (
        "2", "1", "0",
    )  # fmt: skip
    failure = suite[0].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "1 run unsafe: new-7"
    rows = [line for line in summary.read_text("utf-8").splitlines() if line.startswith("|")]
    assert rows[2].startswith(r"| fail | unsafe\_action\_rate == 0 | 8.3% | == 0 |")


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ('gates = ["task_sucess >= 1%"]', (), "gates.toml:1:11: there is no metric"),
        (SUCCESS, ("--junit", "nowhere/gates.xml"), "there is no such folder"),
        (SUCCESS, ("--candidate", "tag=none,limit=0"), "limit is a number from 1"),
    ],
)
def test_what_cannot_be_judged_exits_with_2(
    store: Store, tmp_path: Path, text: str, arguments: tuple[str, ...], said: str
) -> None:
    result = gate(store, tmp_path, text, *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_a_gate_that_compares_needs_a_baseline(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(SUCCESS, "utf-8")
    result = CliRunner().invoke(
        main, ["gate", str(path), "--candidate", "tag=new", "--store", str(store.path)]
    )
    assert (result.exit_code, "there is no baseline" in result.stderr) == (2, True)


def test_a_file_that_is_not_there_exits_with_2(store: Store, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.toml")
    result = CliRunner().invoke(
        main, ["gate", gone, "--candidate", "tag=new", "--store", str(store.path)]
    )
    assert (result.exit_code, "gone.toml: cannot be read" in result.stderr) == (2, True)


def test_the_schema_of_the_json_is_the_published_one() -> None:
    published = Path(__file__).parents[2] / "docs" / "gate.schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema(), (
        "write docs/gate.schema.json anew with replay.gates.schema.json_schema"
    )
