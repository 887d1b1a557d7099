"""What a new version may do otherwise, replayed. In every row no real tool is ever entered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.agents import desk
from replay import ReplayOptions, ReplayResult, diff_runs, replay_run
from replay.replayer import Replayer
from replay.tape_answers import Mode
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


# --- clock, ids, chance, order, polling: on a clerk -----------------------------------------------

CLERK = '''
import asyncio
import os
import random
from concurrent.futures import ThreadPoolExecutor

import tracekit
from tracekit import conditions

left = {}

@tracekit.tool(effect="read")
def poll(job):
    """Say how far a job is; each poll of the recording said something else."""
    return left.setdefault(job, ["queued", "running", "done"]).pop(0)

@tracekit.tool(effect="read")
def find(key):
    if key == "broken":
        raise LookupError("the index is broken")
    return {"known": 1}.get(key)

@tracekit.tool(effect="read")
def price(item):
    return len(item)

@tracekit.tool(effect="write", touches=["tickets"])
def ticket(number, text):
    return f"{text} filed"

@tracekit.llm
def model(prompt):
    return f"answer to {len(prompt)} letters"

def polls(job, most=9):
    for _ in range(most):
        if (said := poll(job)) == "done":
            return said
    return said

def look_up(key):
    try:
        return find(key)
    except LookupError as error:
        return f"failed: {error}"

def file_ticket(text):
    return ticket(str(conditions.uuid4()), text)

def ask(question):
    return model(f"It is {conditions.now().isoformat()}. {question}")

def priced(items):
    async def one(item):
        await asyncio.sleep(0)
        return await asyncio.to_thread(price, item)

    async def all_of_them():
        return await asyncio.gather(*map(one, items))

    return asyncio.run(all_of_them())

@tracekit.agent
def clerk(name):
    said = [polls("print"), look_up("known"), look_up("unknown"), look_up("broken")]
    said += sorted(priced(["pen", "paper", "ink"]))
    return [*said, file_ticket(name), ask(name)]

@tracekit.agent
def draws_once_more(name):
    lucky = conditions.random()
    said = [polls("print"), look_up("known"), look_up("unknown"), look_up("broken")]
    said += sorted(priced(["pen", "paper", "ink"]))
    return [*said, file_ticket(name), ask(name)] if lucky < 2 else None

@tracekit.agent
def other_order(name):
    said = [polls("print"), look_up("broken"), look_up("unknown"), look_up("known")]
    said += sorted(priced(["ink", "pen", "paper"]))
    return [*said, file_ticket(name), ask(name)]

@tracekit.agent
def polls_four_times(name):
    return [poll("print") for _ in range(4)]

@tracekit.agent
def files_something_else(name):
    try:
        return file_ticket(f"{name} at once")
    except tracekit.TracekitError as error:
        return type(error).__name__

@tracekit.agent
def files_twice(name):
    file_ticket(name)
    try:
        return file_ticket(name)
    except tracekit.TracekitError as error:
        return type(error).__name__

@tracekit.agent
def crowd(name):
    """Ask for the same things from tasks and a pool, in an order that differs from run to run."""
    items = [f"{name}{number}" for number in range(6)]
    mixed = random.Random(os.getpid())
    first, second = items[:], items[:]
    mixed.shuffle(first)
    mixed.shuffle(second)
    found = dict(zip(first, priced(first)))
    with ThreadPoolExecutor(3) as pool:
        more = dict(zip(second, pool.map(find, second)))
    return [[found[item], more[item]] for item in items]
'''
CLERKS = ("clerk", "crowd")


@pytest.fixture(scope="module")
def clerks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of the clerk and one of the crowd, and their module."""
    folder = tmp_path_factory.mktemp("clerks")
    (folder / "clerks.py").write_text(CLERK, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import clerks  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=folder / "store")
        for name in CLERKS:
            with tracekit.run(run_id=f"run-{name}"):
                getattr(clerks, name)("lamp")
        tracekit.configure(store=folder / "elsewhere")
    return folder


def clerk(clerks: Path, planner: str, mode: Mode = "free") -> ReplayResult:
    options = ReplayOptions(mode=mode, isolation="guard", path=(str(clerks),))
    return replay_run(
        "run-clerk", planner=f"clerks:{planner}", store=clerks / "store", options=options
    )


def by_name(result: ReplayResult) -> list[tuple[str, str]]:
    return [(step.name, step.answer.rung) for step in result.answered]


@pytest.mark.parametrize("planner", ["clerk", "draws_once_more", "other_order"])
def test_minted_ids_and_times_polls_and_errors_are_found_exactly(
    clerks: Path, planner: str
) -> None:
    result = clerk(clerks, planner)

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert Counter(by_name(result)) == {
        ("poll", "exact"): 3, ("find", "exact"): 3, ("price", "exact"): 3,
        ("ticket", "exact"): 1, ("model", "exact"): 1,
    }  # fmt: skip
    assert result.missing == ()
    assert result.trajectory is not None
    said = result.trajectory.answer.value
    assert isinstance(said, list)
    assert said[0] == "done"
    assert sorted(map(str, said[1:4])) == ["1", "None", "failed: the index is broken"]


def test_a_fourth_poll_is_given_the_last_answer_again_and_is_no_evidence(clerks: Path) -> None:
    result = clerk(clerks, "polls_four_times")

    assert by_name(result) == [("poll", "exact")] * 3 + [("poll", "reused")]
    assert result.trajectory is not None
    assert result.trajectory.answer.value == ["queued", "running", "done", "done"]
    assert result.verdict.kind == "inconclusive"


@pytest.mark.parametrize(
    ("planner", "rungs"),
    [("files_something_else", ["error"]), ("files_twice", ["exact", "error"])],
)
def test_a_write_with_a_minted_id_is_found_once_and_only_with_equal_words(
    clerks: Path, planner: str, rungs: list[str]
) -> None:
    result = clerk(clerks, planner)

    assert [step.answer.rung for step in result.answered] == rungs
    assert result.verdict.kind == "fail"
    assert result.trajectory is not None
    assert result.trajectory.answer.value == "NotRecorded"


def test_the_unchanged_planners_decide_the_same_in_step_with_the_record(
    recorded: Path, clerks: Path
) -> None:
    of_clerk = clerk(clerks, "clerk", mode="locked")
    options = ReplayOptions(mode="locked", isolation="guard")
    of_desk = replay_run(
        RUN, planner="fixtures.agents.desk:desk", store=recorded / "store", options=options
    )

    for result, decisions in ((of_clerk, 11), (of_desk, 5)):
        assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
        assert len(result.locked) == decisions
        assert {decision.change for decision in result.locked} == {"same"}


def test_fifty_replays_in_shuffled_order_come_to_one_trajectory(clerks: Path) -> None:
    run = open_store(clerks / "store").trajectory("run-crowd")
    options = ReplayOptions(isolation="process", path=(str(clerks),))
    with Replayer("clerks:crowd", options) as replayer:
        results = [replayer.replay(run) for _ in range(50)]

    orders = {tuple(str(step.arguments) for step in result.answered) for result in results}
    assert len(orders) > 10
    assert {result.verdict.kind for result in results} == {"pass"}
    digests = {trajectory_digest(r.trajectory) for r in results if r.trajectory is not None}
    assert digests == {trajectory_digest(run)}
