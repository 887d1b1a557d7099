"""What a new version may do otherwise, replayed. In every row no real tool is ever entered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.agents import desk
from replay import ReplayOptions, ReplayResult, diff_runs, replay_run
from tracekit.assembly import trajectory_digest
from tracekit.errors import RunNotFound
from tracekit.store import open_store

RUN = "desk-run"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of the desk, and the ledger that its real tools wrote."""
    folder = tmp_path_factory.mktemp("desk")
    store = folder / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(folder / "ledger"))
        tracekit.configure(store=store)
        with tracekit.run(run_id=RUN):
            desk.desk("A-1")
        tracekit.configure(store=folder / "elsewhere")
    return folder


@pytest.fixture
def ledger(recorded: Path) -> Iterator[Path]:
    """The ledger of real effects: it must stay as recorded, line for line."""
    path = recorded / "ledger"
    before = path.read_text()
    assert before.count("\n") == 6
    yield path
    assert path.read_text() == before


def replay(recorded: Path, planner: str, isolation: str | None = "guard") -> ReplayResult:
    """Replay the run; at level ``guard``, so that nothing but the guard keeps bodies shut."""
    options = ReplayOptions(
        isolation=isolation,  # type: ignore[arg-type]  # one of the levels
        environment={"DESK_LEDGER": str(recorded / "ledger")},
    )
    return replay_run(
        RUN, planner=f"fixtures.agents.desk:{planner}", store=recorded / "store", options=options
    )


def rungs(result: ReplayResult) -> list[str]:
    return [step.answer.rung for step in result.answered]


def test_the_same_planner_gets_everything_exactly_and_does_not_differ(
    recorded: Path, ledger: Path
) -> None:
    first, second = replay(recorded, "desk"), replay(recorded, "desk")

    assert first.verdict.kind == "pass"
    assert rungs(first) == ["exact"] * 5
    assert first.missing == ()
    trajectories = (first.trajectory, second.trajectory, first.recorded)
    assert len({trajectory_digest(t) for t in trajectories if t is not None}) == 1
    assert None not in trajectories
    assert diff_runs(RUN, first.run_id, recorded / "store").same


def test_keyword_and_default_spellings_are_the_same_calls(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "by_keyword")

    assert result.verdict.kind == "pass"
    assert set(rungs(result)) <= {"exact", "normalised"}
    assert result.missing == ()


def test_a_new_optional_parameter_at_its_default_changes_nothing(
    recorded: Path, ledger: Path
) -> None:
    result = replay(recorded, "new_parameter")

    assert result.verdict.kind == "pass"
    assert set(rungs(result)) <= {"exact", "normalised"}


def test_a_reworded_search_is_not_in_the_recording(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "reworded")

    assert result.verdict.kind == "inconclusive"
    assert rungs(result) == ["exact", "error"]
    assert "policy for refunds" in result.answered[1].answer.explanation
    assert result.trajectory is not None
    assert "not in the recording" in str(result.trajectory.answer.value)


def test_a_call_left_out_is_named_and_the_rest_is_served(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "leaves_out")

    assert rungs(result) == ["exact"] * 4
    assert [call.tool for call in result.missing] == ["search"]


def test_an_extra_read_is_answered_as_not_in_the_recording(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "asks_more")

    assert rungs(result) == ["exact", "error"]
    assert result.verdict.kind == "inconclusive"


def test_without_the_bad_write_later_reads_are_stale_and_tainted(
    recorded: Path, ledger: Path
) -> None:
    result = replay(recorded, "no_bad_write")

    assert rungs(result) == ["exact", "exact", "stale"]
    assert [step.answer.tainted for step in result.answered] == [False, False, True]
    assert result.verdict.kind == "inconclusive"
    assert "refund" in [call.tool for call in result.missing]


def test_the_same_read_again_is_reused_and_no_evidence(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "reads_again")

    assert rungs(result) == ["exact", "reused"]
    assert result.verdict.kind == "inconclusive"


def test_findings_before_the_first_tainted_step_stand(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "writes_early_then_stale")

    assert result.verdict.kind == "fail"
    assert result.findings[0].kind == "write refused"


def test_a_refund_of_42_never_answers_one_of_4200(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "refunds_4200")

    assert rungs(result) == ["exact", "exact", "error"]
    assert result.verdict.kind == "fail"
    assert "recorded 42, asked 4200" in result.verdict.reasons[0]
    worst = diff_runs(RUN, result.run_id, recorded / "store").divergences[0]
    assert (worst.tool, [f.pointer for f in worst.fields]) == ("refund", ["/amount"])


@pytest.mark.parametrize(
    "planner",
    ["from_a_pool", "from_a_raw_thread", "from_another_loop", "through_wrapped", "undeclared"],
)
def test_a_write_by_any_road_is_refused_and_reported(
    recorded: Path, ledger: Path, planner: str
) -> None:
    result = replay(recorded, planner)

    assert [finding.kind for finding in result.findings] == ["write refused"]
    assert result.verdict.kind == "fail"


def test_what_a_served_tool_called_beneath_is_covered_by_it(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "desk")

    assert [step.name for step in result.answered].count("notify") == 0
    assert [call.tool for call in result.recorded.covered] == ["notify"]
    assert result.missing == ()


def test_a_run_that_does_not_exist_is_an_error_before_the_planner_is_imported(
    recorded: Path, ledger: Path
) -> None:
    with pytest.raises(RunNotFound) as caught:
        replay_run("no-such-run", planner="no.such.module:planner", store=recorded / "store")
    assert caught.value.run_id == "no-such-run"


def test_the_strongest_walls_prove_themselves_and_give_the_same_verdict(
    recorded: Path, ledger: Path
) -> None:
    result = replay(recorded, "desk", isolation=None)

    assert result.verdict.kind == "pass"
    assert all(wall.held for wall in result.walls if wall.name == "process")


def test_a_replay_is_a_run_of_its_own(recorded: Path, ledger: Path) -> None:
    result = replay(recorded, "refunds_4200")

    row = next(r for r in open_store(recorded / "store").runs() if r.run_id == result.run_id)
    assert (row.replay_of, row.planner) == (RUN, "fixtures.agents.desk:refunds_4200")
    assert str(row.verdict).startswith("fail")


def test_a_closure_is_replayed_in_this_process(recorded: Path, ledger: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(recorded / "ledger"))

        def planner(order: str) -> str:
            desk.refund_quietly(order, 1)
            return str(desk.get_order(order)["total"])

        result = replay_run(RUN, planner=planner, store=recorded / "store")

    assert result.level == "process"
    assert rungs(result) == ["error", "exact"]
    assert result.verdict.kind == "fail"
