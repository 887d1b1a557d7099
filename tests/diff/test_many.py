"""Many runs compared: which are meant, which belong together, and what all pairs come to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from replay.comparing import (
    Candidate,
    ManyComparison,
    PairOutcome,
    compare_many,
    pair_runs,
    parse_selection,
)
from replay.comparing.outcome import outcome_of
from replay.comparing.references import folder_of, read_references
from replay.comparing.schema import ManyReport, json_schema
from replay.diff import diff
from tests.diff.building import run, write
from tests.diff.many_runs import kept, made, select
from tests.store.made import NOON
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.store import Batch, RunQuery, Store
from tracekit.trajectory import Call


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three tasks: one the same, one with another argument; and one that only the old one has."""
    folder = tmp_path_factory.mktemp("many")
    return kept(
        folder / "traces",
        made("old-same", tags=["v6"], task_id="T-same"),
        made("new-same", tags=["v7"], task_id="T-same"),
        made("old-other", tags=["v6"], task_id="T-other"),
        made("new-other", tags=["v7"], task_id="T-other", arguments=("a", "c")),
        made("old-alone", tags=["v6"], task_id="T-alone"),
    )


# --- which runs are meant -------------------------------------------------------------------------


def test_conditions_must_all_hold_and_selections_are_joined(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        made("both", tags=["gpt", "attacked"], versions={"prompt": "v7"}),
        made("one", tags=["gpt"], versions={"prompt": "v6"}),
        made("replayed", tags=["gpt"]),
    )
    chosen = {
        text: [row.run_id for row in select(text).choose(store)]
        for text in ("tag=gpt,tag=attacked", "version.prompt=v6", "tag=gpt,limit=1", "one,bot")
    }
    assert chosen == {
        "tag=gpt,tag=attacked": ["both"],
        "version.prompt=v6": ["one"],
        "tag=gpt,limit=1": ["replayed"],
        "one,bot": ["one", "both"],
    }


def test_a_time_without_a_zone_is_utc() -> None:
    chosen = parse_selection("since=2026-11-30T12:00")
    assert chosen.query.since == datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_value_may_hold_equals_signs_and_escaped_commas() -> None:
    chosen = select(r"tag=pipeline=gpt-4o,task=buy tea\, then milk,failed")
    assert (chosen.tags, chosen.query) == (
        ("pipeline=gpt-4o",),
        RunQuery(task="buy tea, then milk", failed=True),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("tga=x", "no condition 'tga'"),
        ("tag=x,run-1", "'run-1' is no condition"),
        ("limit=none", "number from 1"),
        ("status=done", "ok, error, open"),
        ("task=a,task=b", "task is given twice"),
        ("accepted,tag=x", "no other condition"),
        ("task=", "no value"),
    ],
)
def test_a_selection_that_is_none_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(text)
    assert said in str(caught.value)


# --- which belong together ------------------------------------------------------------------------


def ids(pairs: Any) -> list[tuple[str, str]]:
    return [(pair.baseline.run_id, pair.candidate.run_id) for pair in pairs.pairs]


def test_the_task_decides_and_where_there_is_none_the_input() -> None:
    found = pair_runs(
        [Candidate("a", task="T", input_digest="1"), Candidate("b", input_digest="2")],
        [Candidate("y", input_digest="2"), Candidate("x", task="T", input_digest="9")],
    )
    assert (ids(found), found.complete) == ([("a", "x"), ("b", "y")], True)


def test_a_run_without_task_finds_its_input_in_a_run_with_one() -> None:
    found = pair_runs([Candidate("a", task="T", input_digest="1")], [Candidate("x", None, "1")])
    assert ids(found) == [("a", "x")]


def test_two_tasks_that_are_asked_in_the_same_words_are_two_cases() -> None:
    found = pair_runs(
        [
            Candidate("a", "T-1", "same"),
            Candidate("b", "T-2", "same"),
            Candidate("c", None, "same"),
        ],
        [
            Candidate("x", "T-3", "same"),
            Candidate("y", "T-2", "same"),
            Candidate("z", "T-4", "same"),
        ],
    )
    assert ids(found) == [("b", "y"), ("c", "x")]
    assert [one.reason for one in found.baseline_only] == ["the candidate has no run of T-1"]
    assert [one.reason for one in found.candidate_only] == ["the baseline has no run of T-4"]


def test_where_both_name_no_task_the_input_pairs_them_first() -> None:
    found = pair_runs(
        [Candidate("a", "T", "same"), Candidate("b", None, "same")],
        [Candidate("x", None, "same"), Candidate("y", "U", "same")],
    )
    assert ids(found) == [("b", "x")]


def test_trials_of_one_number_belong_together_and_the_rest_goes_by_order() -> None:
    found = pair_runs(
        [Candidate("a0", "T", trial="0"), Candidate("a1", "T", trial="1"), Candidate("a", "T")],
        [Candidate("b1", "T", trial="1"), Candidate("b7", "T", trial="7")],
    )
    assert ids(found) == [("a0", "b7"), ("a1", "b1")]
    assert [(one.run.run_id, one.reason) for one in found.baseline_only] == [
        ("a", "the candidate has fewer trials of T")
    ]


def test_another_attack_on_the_same_task_is_another_case() -> None:
    found = pair_runs(
        [Candidate("clean", "T"), Candidate("attacked", "T", attack=("injection", "1"))],
        [Candidate("other", "T", attack=("injection", "2")), Candidate("calm", "T")],
    )
    assert ids(found) == [("clean", "calm")]
    assert [one.reason for one in found.candidate_only] == [
        "the baseline has no run of T injection 2"
    ]


def test_a_replay_belongs_to_what_it_replays() -> None:
    found = pair_runs(
        [Candidate("a", "T"), Candidate("b", "T")], [Candidate("x", "T", replay_of="b")]
    )
    assert ids(found) == [("b", "x")]


def test_no_replay_belongs_to_a_run_of_another_task_that_came_to_have_the_id() -> None:
    found = pair_runs(
        [Candidate("a", "T"), Candidate("b", "U")],
        [Candidate("x", "T", replay_of="b"), Candidate("y", replay_of="b")],
    )
    assert ids(found) == [("a", "x"), ("b", "y")]


def test_a_replay_of_what_stood_under_the_id_before_is_not_compared_with_what_stands_there(
    tmp_path: Path,
) -> None:
    old, new = made("R", tags=["v6"]), made("R", tags=["v6"], arguments=("a", "z"))
    before = kept(tmp_path / "before", old).trajectory("R")
    replay = made("replay", tags=["v7"], replay_of="R", replayed=before, arguments=("a", "c"))
    verdicts = []
    for place, recorded in (("as-it-was", old), ("anew", new)):
        store = kept(tmp_path / place, recorded, replay)
        (pair,) = compare_many("R", "replay", store=store).outcomes
        verdicts.append((pair.verdict, pair.reason))
    assert verdicts == [
        ("different", None),
        ("not compared", "run R was recorded anew since; replay it again"),
    ]


def test_a_run_of_which_nothing_is_known_is_listed() -> None:
    found = pair_runs([Candidate("a")], [Candidate("b")])
    assert [one.reason for one in (*found.baseline_only, *found.candidate_only)] == [
        "it says neither task nor input"
    ] * 2


# --- what all pairs come to -----------------------------------------------------------------------


def test_pairs_are_compared_grouped_and_what_has_no_partner_is_listed(store: Store) -> None:
    found = compare_many("tag=v6", "tag=v7", store=store.path)

    assert found.counts == {"different": 1, "not compared": 0, "same": 1}
    assert (found.different, found.same) == (True, False)
    [group] = found.groups
    assert (group.name, group.cases) == ("changed arguments search /query", ("T-other",))
    first = found.outcomes[0]
    assert (first.case, first.baseline, first.candidate) == ("T-other", "old-other", "new-other")
    assert [one.run.run_id for one in found.baseline_only] == ["old-alone"]


def test_pairs_that_part_in_words_are_grouped_by_the_first_call_that_differs() -> None:
    def pair(case: str, ours: str, theirs: str, *calls: Call) -> PairOutcome:
        one, two = (
            run(said, look, run_id=f"{case} {said}")
            for said, look in zip((ours, theirs), calls, strict=True)
        )
        return outcome_of(case, one.run_id, diff(one, two))

    paid, other = (write("pay", {"to": name}, "ok") for name in ("ann", "bob"))
    outcomes = (
        pair("A", "hello", "hi", paid, other),
        pair("B", "hello", "well", paid, other),
        pair("C", "hello", "hello", paid, other),
        pair("D", "hello", "hi", paid, paid),
    )
    found = ManyComparison("old", "new", "traces", outcomes)
    assert [(group.name, group.cases) for group in found.groups] == [
        ("changed arguments pay /to", ("A", "B", "C")),
        ("changed message (said)", ("D",)),
    ]
    told = found.as_dict()["pairs"]
    assert [pair["first"]["kind"] for pair in told] == [
        *["changed_message"] * 2, "changed_arguments", "changed_message",
    ]  # fmt: skip
    assert [pair["first_call"] and pair["first_call"]["tool"] for pair in told] == [
        "pay", "pay", None, None,
    ]  # fmt: skip


def test_processes_find_what_one_process_finds(store: Store) -> None:
    sides = [select("tag=v6")], [select("tag=v7")]
    told: list[tuple[int, int]] = []
    here = compare_many(*sides, store=store, jobs=1)
    there = compare_many(
        *sides, store=store, jobs=2, progress=lambda done, total: told.append((done, total))
    )
    assert there.outcomes == here.outcomes
    assert told[-1] == (2, 2)


def test_a_run_on_both_sides_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="'old-alone' and 2 more would be compared with itself"):
        compare_many([select("tag=v6")], [select("tag=v6")], store=store)


def test_a_damaged_run_is_an_outcome_and_the_rest_is_compared(tmp_path: Path) -> None:
    gone = made("new-b", tags=["new"], task_id="B")
    store = kept(
        tmp_path / "traces",
        made("old-a", tags=["old"], task_id="A"),
        made("new-a", tags=["new"], task_id="A"),
        made("old-b", tags=["old"], task_id="B"),
        Batch(gone.events, ()),
    )
    found = compare_many([select("tag=old")], [select("tag=new")], store=store)
    assert {one.case: one.verdict for one in found.outcomes}["A"] == "same"
    assert len(found.outcomes) == 2


# --- accepted trajectories ------------------------------------------------------------------------


def _diff(store: Store, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments, "--store", str(store.path)])


SIDES = ("--baseline", "tag=v6", "--candidate", "tag=v7")


def test_the_nearest_accepted_trajectory_is_what_counts(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        made("old", tags=["v6"], task_id="T"),
        made("good", tags=["tried"], task_id="T", arguments=("a", "c")),
        made("new", tags=["v7"], task_id="T", arguments=("a", "c")),
    )
    assert _diff(store, *SIDES).exit_code == 1

    accepted = _diff(store, "old", "good", "--accept")
    assert (accepted.exit_code, "accepted 1 trajectory" in accepted.stderr) == (0, True)
    files = sorted(folder_of(store.path).iterdir())

    assert _diff(store, *SIDES).exit_code == 0
    found = json.loads(_diff(store, *SIDES, "--json").stdout)
    assert (found["same"], found["pairs"][0]["nearest"]) == (True, "good")
    assert _diff(store, "old", "good", "--accept").exit_code == 0
    assert sorted(folder_of(store.path).iterdir()) == files, "accepting twice adds nothing"


def test_every_candidate_that_differs_can_be_accepted_in_a_folder_of_ones_own(
    store: Store, tmp_path: Path
) -> None:
    mine = ("--references", str(tmp_path / "accepted"))
    assert _diff(store, *SIDES, *mine, "--accept").exit_code == 2, "one run has no partner"
    assert [one.run_id for one in read_references(tmp_path / "accepted").found] == ["new-other"]
    assert "1 candidate nearest to an accepted trajectory" in _diff(store, *SIDES, *mine).stdout
    assert not folder_of(store.path).exists()


def test_a_file_that_is_no_reference_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"format": "tracekit/reference/v9"}', "utf-8")
    result = _diff(store, *SIDES, "--references", str(tmp_path))
    assert (result.exit_code, "odd.json is no reference" in result.stderr) == (2, True)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_names_what_changed_and_exits_with_1(store: Store) -> None:
    result = _diff(store, *SIDES)
    assert result.exit_code == 1
    lines = [line.split("  in ")[0].strip() for line in result.stdout.splitlines()]
    assert lines[0].startswith("DIFFERENT  2 pairs in ")
    assert "changed_read  changed arguments search /query: 1 pair, 1 task" in lines
    assert f"tracekit diff old-other new-other --store {store.path}" in lines
    assert "old-alone: the candidate has no run of T-alone" in lines
    assert result.stderr == ""


def test_junit_and_markdown_of_many_runs_tell_of_every_pair_and_every_run_left_over(
    store: Store, tmp_path: Path
) -> None:
    junit, markdown = tmp_path / "d.xml", tmp_path / "d.md"
    result = _diff(store, *SIDES, "--junit", str(junit), "--markdown", str(markdown))
    assert result.exit_code == 1

    root = next(ElementTree.parse(junit).iter("testsuite"))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    tags = {case.get("name"): [part.tag for part in case] for case in root}
    assert tags == {
        "old-other new-other": ["failure"],
        "old-same new-same": [],
        "old-alone of the baseline": ["error"],
    }
    said = markdown.read_text(encoding="utf-8")
    assert said.startswith("### tracekit diff: DIFFERENT  2 pairs")
    assert "`changed arguments search /query: 1 pair, 1 task` | `old-other new-other`" in said
    assert "- `old-alone: the candidate has no run of T-alone`" in said


def test_all_the_same_exits_with_0_and_a_run_left_over_with_2(store: Store) -> None:
    codes = [
        _diff(store, "--baseline", "old-same", "--candidate", candidate).exit_code
        for candidate in ("new-same", "new-same,new-other")
    ]
    assert codes == [0, 2]


def test_the_json_keeps_to_its_published_schema(store: Store, tmp_path: Path) -> None:
    sides = (made("old", tags=["v6"], task_id="T"), made("new", tags=["v7"], task_id="T"))
    without_values = kept(tmp_path / "traces", *(Batch(side.events, ()) for side in sides))
    found = [json.loads(_diff(one, *SIDES, "--json").stdout) for one in (store, without_values)]
    for one in found:
        ManyReport.model_validate(one)
    assert {pair["verdict"] for one in found for pair in one["pairs"]} == {*found[0]["counts"]}
    published = Path(__file__).parents[2] / "docs" / "diff-many.schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema(), (
        "write docs/diff-many.schema.json anew with replay.comparing.schema.json_schema"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--baseline", "tag=v6"), "--candidate is not"),
        (("--candidate", "tag=v6"), "--baseline is not"),
        (("old-same",), "two runs are needed"),
        (("old-same", "new-same", *SIDES), "--baseline or --candidate is given too"),
        ((*SIDES, "--full"), "are for two runs that are named"),
        ((*SIDES, "--html", "d.html"), "--html is for two runs that are named"),
        (("old-same", "new-same", "--jobs", "2"), "--jobs and --references are for many runs"),
        ((*SIDES, "--references", "nowhere"), "--references: there is no folder 'nowhere'"),
        (("--baseline", "tag=none", "--candidate", "tag=v7"), "no runs match the baseline"),
        (("--baseline", "since=never", "--candidate", "tag=v7"), "'never' is no time"),
    ],
)
def test_what_cannot_be_meant_exits_with_2(
    store: Store, arguments: tuple[str, ...], said: str
) -> None:
    result = _diff(store, *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_runs_of_a_database_file_are_compared_in_this_process(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces.duckdb",
        made("old", tags=["v6"], task_id="T", ts_start_ns=NOON),
        made("new", tags=["v7"], task_id="T", ts_start_ns=NOON),
    )
    assert compare_many([select("tag=v6")], [select("tag=v7")], store=store, jobs=2).same
