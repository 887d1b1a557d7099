"""Agents, planners and stores as they should not be, replayed. No body is ever entered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tracekit
from fixtures.agents import odd
from replay import ReplayOptions, ReplayResult, diff_runs, replay_run
from replay.isolation import Limits
from replay.summary import summarise
from tracekit.assembly import trajectory_digest
from tracekit.cli import main
from tracekit.errors import PlannerError, ReplayNotPossible, StoreError, UsageError
from tracekit.store import open_store


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of each agent, and the ledger that the real tools wrote."""
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODD_LEDGER", str(folder / "ledger"))
        tracekit.configure(store=folder / "store")
        for name, run in {**odd.RUNS, **odd.UNREPLAYABLE}.items():
            with tracekit.run(run_id=name):
                run()
        with pytest.raises(odd.Broken), tracekit.run(run_id="breaks"):
            odd.breaks("A")
        tracekit.configure(store=folder / "elsewhere")
    open_store(folder / "store").settle()
    return folder


@pytest.fixture
def ledger(recorded: Path) -> Iterator[Path]:
    """What the real tools did: it must stay as recorded."""
    path = recorded / "ledger"
    before = path.read_text()
    yield path
    assert path.read_text() == before


def replay(recorded: Path, run_id: str, planner: str, **more: object) -> ReplayResult:
    options = ReplayOptions(
        isolation="guard",
        environment={"ODD_LEDGER": str(recorded / "ledger")},
        **more,  # type: ignore[arg-type]  # options by name
    )
    return replay_run(
        run_id, planner=f"fixtures.agents.odd:{planner}", store=recorded / "store", options=options
    )


def command(recorded: Path, *arguments: str) -> Result:
    own = ("--store", str(recorded / "store"), "--isolation", "guard")
    return CliRunner().invoke(main, ["replay", *arguments, *own])


@pytest.mark.parametrize("run_id", [*odd.RUNS, "breaks"])
def test_the_same_agent_on_its_own_run_does_and_sees_the_same(
    recorded: Path, ledger: Path, run_id: str
) -> None:
    first, second = (replay(recorded, run_id, run_id.partition("-")[0]) for _ in range(2))

    assert (first.verdict.kind, set(first.shares), first.missing) == ("pass", {"exact"}, ())
    trajectories = (first.trajectory, second.trajectory, first.recorded)
    assert len({trajectory_digest(t) for t in trajectories if t is not None}) == 1
    assert diff_runs(run_id, first.run_id, recorded / "store").same


def test_nothing_runs_or_is_recorded_while_the_planner_is_imported(
    recorded: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(PlannerError, match="is not executed in a replay"):
        replay_run(
            "spreads",
            planner="fixtures.agents.odd_import:planner",
            store=recorded / "store",
            options=ReplayOptions(
                isolation="guard", environment={"ODD_LEDGER": str(recorded / "ledger")}
            ),
        )

    assert list(tmp_path.iterdir()) == []


def test_a_planner_that_takes_the_guard_away_still_runs_nothing(
    recorded: Path, ledger: Path
) -> None:
    result = replay(recorded, "spreads", "takes_the_guard_away")

    assert result.verdict.kind == "fail"
    assert "no replay is under way" in result.verdict.reasons[0]


@pytest.mark.parametrize("planner", ["reads_on", "reads_on_and_swallows"])
def test_reading_on_where_the_recorded_reader_went_away_proves_nothing(
    recorded: Path, ledger: Path, planner: str
) -> None:
    result = replay(recorded, "leaves", planner)

    assert result.verdict.kind == "inconclusive"
    assert "reader of this stream stopped here" in result.verdict.reasons[0]


def test_a_recorded_write_without_an_observation_is_no_finding(
    recorded: Path, ledger: Path
) -> None:
    result = replay(recorded, "unkept", "writes_unkept")

    assert result.verdict.kind == "inconclusive"
    assert "write refused" not in {finding.kind for finding in result.findings}


def test_the_same_write_more_often_than_recorded_is_a_finding(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "unkept", "writes_unkept_again")

    assert [finding.kind for finding in result.findings][:1] == ["write refused"]


@pytest.mark.parametrize(
    ("planner", "said"),
    [("raises_half_a_character", "ValueError: \ufffd"), ("raises_unprintable", "Unprintable: <")],
)
def test_an_error_that_cannot_be_said_is_said_as_far_as_it_can(
    recorded: Path, ledger: Path, planner: str, said: str
) -> None:
    assert said in replay(recorded, "spreads", planner).verdict.reasons[0]


def test_many_equal_findings_are_one_line(recorded: Path, ledger: Path) -> None:
    text = summarise(replay(recorded, "spreads", "writes_and_writes"))

    assert "(300 times)" in text
    assert len(text.splitlines()) < 40


def test_a_planner_that_decides_nonsense_leaves_no_open_run(recorded: Path, ledger: Path) -> None:
    with pytest.raises(PlannerError, match="no action"):
        replay(recorded, "spreads", "decides_nonsense")

    rows = open_store(recorded / "store").runs()
    assert {row.status for row in rows if row.replay_of} <= {"ok", "error"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--timeout", "0"), "no time"),
        (("--timeout", "nan"), "no time"),
        (("--env", "=x"), "there is no name"),
        (("--unmatched", "look=live"), "--live TOOL=MOD:OBJ"),
        (("--model", "scripted", "--script", "fixtures.agents.odd:gone"), "script"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(
    recorded: Path, ledger: Path, options: tuple[str, ...], said: str
) -> None:
    planner = "fixtures.agents.odd:spreads"
    result = command(recorded, "--run-id", "spreads", "--planner", planner, *options)

    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_planner_with_half_a_character_in_its_name_is_not_found(
    recorded: Path, ledger: Path
) -> None:
    with pytest.raises(PlannerError, match="is no name"):
        replay(recorded, "spreads", "\udcff")


def test_limits_are_times() -> None:
    with pytest.raises(UsageError, match="-1 s is no time"):
        Limits(wall_s=-1)


def test_why_a_run_cannot_be_replayed_is_said_in_words(recorded: Path, ledger: Path) -> None:
    with pytest.raises(ReplayNotPossible, match="its input was not recorded"):
        replay(recorded, "no-agent", "spreads")


def test_a_run_whose_events_are_damaged_is_not_called_ambiguous(
    recorded: Path, ledger: Path, tmp_path: Path
) -> None:
    shutil.copytree(recorded / "store", tmp_path / "store")
    for part in (tmp_path / "store" / "events").rglob("*.parquet"):
        part.write_bytes(b"PAR1 and no more")

    with pytest.raises(StoreError, match="its events cannot be read"):
        replay(tmp_path, "spreads", "spreads")
