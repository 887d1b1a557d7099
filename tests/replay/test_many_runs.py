"""Many runs replayed: in parallel, resumable, and what is wrong with one run is its own affair."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from replay import ReplayOptions, replay_many, replay_run
from replay.isolation import Limits, kernel_available
from replay.many import ManyResult, RunOutcome, Work, WorkerLost, Workers, do_work
from replay.many.reading import Listed, select
from replay.many.workers import Here
from tests.replay.many_kit import SHOP, add_unreplayable, make_shop, recorded_anew, replays
from tracekit.errors import PlannerNotFound, UsageError
from tracekit.events import RunRow
from tracekit.store import RunQuery, Store, open_store
from tracekit.store.converting import convert
from tracekit.store.several import chunks

RUNS = 8

EVERY = RunQuery()


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    return make_shop(tmp_path, runs=RUNS)


def replay(shop: Store, planner: str = "buy", **more: Any) -> ManyResult:
    options = more.pop("options", {})
    chosen = ReplayOptions(path=(str(shop.path.parent),), isolation="process", **options)
    runs = more.pop("runs", EVERY)
    if not more.keys() & {"jobs", "executor"}:  # then without the start of a worker
        with Here() as executor:
            return replay(shop, planner, runs=runs, options=options, executor=executor, **more)
    return replay_many(runs, planner=f"shop:{planner}", store=shop, options=chosen, **more)


def verdicts(result: ManyResult) -> list[str]:
    return [outcome.verdict for outcome in result.outcomes]


def test_each_run_gets_a_replay_of_its_own_in_the_store(shop: Store) -> None:
    recorded = {row.run_id for row in shop.runs(EVERY)}

    result = replay(shop, jobs=2)

    assert result.counts == {"pass": RUNS}
    assert result.passed
    assert {outcome.run_id for outcome in result.outcomes} == recorded
    assert sorted(replays(shop)) == sorted(recorded)
    stored = {row.run_id: row for row in shop.runs(EVERY)}
    assert all(stored[o.replay_id or ""].verdict == "pass" for o in result.outcomes)
    assert result.level == "process"


def test_what_is_wrong_with_one_run_does_not_stop_the_others(shop: Store) -> None:
    add_unreplayable(shop)
    chosen = [*_ids(shop, 0, 1, 2, 5, 6, 7), "without-input"]

    limits = Limits(memory_mb=512)
    result = replay(shop, "moody", runs=chosen, jobs=2, options={"limits": limits})

    told = {_item(shop, o): (o.verdict, o.reasons[0] if o.reasons else "") for o in result.outcomes}
    expected = {
        "item 0": ("pass", ""),
        "item 1": ("fail", "order"),
        "item 2": ("fail", "the planner raised ValueError: out of tea"),
        "item 5": ("fail", "the planner needs more than its 512 MB of memory"),
        "item 6": ("inconclusive", "the planner's process was killed (SIGKILL)"),
        "item 7": ("fail", "process refused: true"),
        "": ("not replayed", "run without-input cannot be replayed: its input was not recorded"),
    }
    assert told.keys() == expected.keys()
    for item, (verdict, reason) in expected.items():
        assert told[item][0] == verdict, told[item]
        assert reason in told[item][1], told[item]
    assert verdicts(result) == ["fail"] * 4 + ["not replayed", "inconclusive", "pass"]


def test_a_planner_killed_from_outside_is_no_finding_and_is_replayed_again(shop: Store) -> None:
    [killed] = _ids(shop, 6)
    [among] = replay(shop, "moody", runs=[killed]).outcomes
    assert (among.replay_id, among.divergence) == (None, None)
    [again] = replay(shop, "moody", runs=[killed], resume=True).outcomes
    assert not again.kept

    options = ReplayOptions(path=(str(shop.path.parent),), isolation="process")
    alone = replay_run(killed, planner="shop:moody", store=shop, options=options)
    assert (alone.verdict.kind, alone.findings) == ("inconclusive", ())
    assert (again.verdict, again.reasons) == (alone.verdict.kind, alone.verdict.reasons)


@pytest.mark.parametrize(
    ("number", "limits", "told"),
    [
        (3, Limits(wall_s=1), "the planner did not end within 1 s"),
        (4, Limits(cpu_s=1), "the planner used more than 1 s of processor time"),
    ],
)
def test_a_run_that_passes_a_limit_of_time_is_told_in_a_sentence(
    shop: Store, number: int, limits: Limits, told: str
) -> None:
    runs = _ids(shop, number, 0)
    first, second = replay(shop, "moody", runs=runs, options={"limits": limits}).outcomes
    assert first.reasons == (f"the planner did not come to an end: {told}",)
    assert second.verdict == "pass"


def _ids(shop: Store, *numbers: int) -> list[str]:
    rows = [row for row in shop.runs(EVERY) if row.source_format == "tracekit"][::-1]
    return [rows[number].run_id for number in numbers]


def _item(shop: Store, outcome: RunOutcome) -> str:
    value = shop.trajectory(outcome.run_id).input.value
    return str(value["item"]) if isinstance(value, dict) else ""


def test_what_is_done_already_is_left_out_and_told_again(shop: Store) -> None:
    first = replay(shop, "leaking", jobs=1)
    assert first.passed  # nothing of one run is seen by the next of the same worker

    again = replay(shop, "leaking", resume=True)

    assert len(replays(shop)) == RUNS
    assert {o.replay_id for o in again.outcomes} == {o.replay_id for o in first.outcomes}
    assert all(outcome.kept for outcome in again.outcomes)
    assert verdicts(again) == verdicts(first)
    assert [o.shares for o in again.outcomes] == [{"exact": 2}] * RUNS


def test_a_finding_and_a_divergence_are_told_again(shop: Store) -> None:
    (first,) = replay(shop, "moody", runs=_ids(shop, 1)).outcomes
    (again,) = replay(shop, "moody", runs=_ids(shop, 1), resume=True).outcomes

    assert again.kept
    assert (again.verdict, again.reasons) == ("fail", first.reasons)
    assert again.divergence is not None
    assert again.divergence.startswith("Decision 2: ")
    assert again.divergence == first.divergence


def test_a_replay_of_another_question_is_not_taken_for_this_one(shop: Store) -> None:
    replay(shop)
    others = [
        replay(shop, "leaking", resume=True),
        replay(shop, options={"mode": "locked"}, resume=True),
        replay(shop, options={"environment": {"TEA": "green"}}, resume=True),
    ]
    (shop.path.parent / "shop.py").write_text(SHOP + "\nnew = True\n", "utf-8")
    others.append(replay(shop, resume=True))

    assert not any(outcome.kept for other in others for outcome in other.outcomes)
    assert [len(other.outcomes) for other in others] == [RUNS] * 4
    assert len(replays(shop)) == 5 * RUNS
    assert all(outcome.kept for outcome in replay(shop, resume=True).outcomes)


def test_a_run_that_was_recorded_anew_under_its_id_is_replayed_anew(shop: Store) -> None:
    one, two = _ids(shop, 0, 1)
    replay(shop, "moody", runs=[one, two])

    anew = recorded_anew(shop, shop.path.parent / "anew", one, like=two)
    again = replay(anew, "moody", runs=[one, two], resume=True)
    told = {o.run_id: (o.verdict, o.kept) for o in again.outcomes}
    assert told == {one: ("fail", False), two: ("fail", True)}
    later = replay(anew, "moody", runs=[one, two], resume=True)
    assert all(outcome.kept for outcome in later.outcomes)


def test_a_killed_worker_loses_its_own_run_which_is_told_and_resumed(shop: Store) -> None:
    with Workers(1) as pool:

        def kill(outcome: RunOutcome, done: int, total: int) -> None:
            if done == 1:
                os.kill(pool.pids[0], signal.SIGKILL)

        result = replay(shop, executor=pool, progress=kill)

    assert result.counts == {"not replayed": 1, "pass": RUNS - 1}
    lost = result.outcomes[0]
    assert lost.reasons == ("lost: its worker process was killed (SIGKILL); --resume replays it",)
    assert len(replays(shop)) == RUNS - 1

    resumed = replay(shop, resume=True)

    assert resumed.passed
    assert [o.run_id for o in resumed.outcomes if not o.kept] == [lost.run_id]


def test_a_bulk_replay_that_is_interrupted_goes_on_where_it_was(shop: Store) -> None:
    def interrupt(outcome: RunOutcome, done: int, total: int) -> None:
        assert total == RUNS
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(shop, progress=interrupt)
    assert len(replays(shop)) == 3

    resumed = replay(shop, resume=True)

    assert resumed.passed
    assert sum(outcome.kept for outcome in resumed.outcomes) == 3
    assert sorted(replays(shop)) == sorted(o.run_id for o in resumed.outcomes)


def test_a_pool_of_the_standard_library_will_do(shop: Store) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        result = replay(shop, executor=pool)
        assert result.passed
        assert pool.submit(os.getpid).result() != os.getpid()  # it was not shut down


def test_work_and_what_comes_of_it_are_values(shop: Store) -> None:
    (row, *_) = shop.runs(EVERY)
    options = ReplayOptions(path=(str(shop.path.parent),), isolation="process")
    work = Work("shop:buy", options, shop.trajectory(row.run_id))

    with Workers(1) as pool:
        done = pool.submit(do_work, pickle.loads(pickle.dumps(work))).result()  # noqa: S301  # our own

    assert done.outcome.verdict == "pass"
    assert {event.run_id for event in done.events} == {done.outcome.replay_id}
    assert replays(shop) == []


def test_a_closure_runs_in_this_process_one_run_after_the_other(shop: Store) -> None:
    result = replay_many(EVERY, planner=_closure(), store=shop)

    assert verdicts(result) == ["not evaluated"] * RUNS
    assert len(replays(shop)) == RUNS


def _closure() -> Callable[..., Any]:
    return lambda history, tools: None


def test_runs_may_be_named_by_the_beginnings_of_their_ids(shop: Store) -> None:
    ids = [row.run_id for row in shop.runs(EVERY)][:2]
    options = ReplayOptions(path=(str(shop.path.parent),), isolation="process")

    result = replay_many(iter(ids), planner="shop:buy", store=shop.path, options=options, jobs=1)

    assert sorted(o.run_id for o in result.outcomes) == sorted(ids)


def test_a_planner_that_is_not_there_is_an_error_and_nothing_is_replayed(shop: Store) -> None:
    with pytest.raises(PlannerNotFound, match="has no 'sell'"):
        replay(shop, "sell", jobs=2)
    assert replays(shop) == []


def test_no_jobs_are_refused(shop: Store) -> None:
    with pytest.raises(UsageError, match="0 jobs are none"):
        replay(shop, jobs=0)


@pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1])
def test_the_strongest_isolation_holds_for_many_runs_too(shop: Store) -> None:
    options = ReplayOptions(path=(str(shop.path.parent),))
    result = replay_many(RunQuery(limit=2), planner="shop:buy", store=shop, options=options)
    assert (result.level, result.counts) == ("kernel", {"pass": 2})


def test_a_store_of_one_file_will_do(tmp_path: Path, shop: Store) -> None:
    path = tmp_path / "traces.duckdb"
    convert(shop, path, lambda place: open_store(place, create=True))
    options = ReplayOptions(path=(str(tmp_path),), isolation="process")
    single = open_store(path)

    for resume in (False, True):
        with Here() as here:
            result = replay_many(
                EVERY, planner="shop:buy", store=single, options=options, executor=here,
                resume=resume,
            )  # fmt: skip
        assert result.counts == {"pass": RUNS}
        assert len(replays(single)) == RUNS


def test_long_runs_are_read_one_by_one_and_short_ones_together() -> None:
    rows = [
        Listed(run_id, events)
        for run_id, events in [("a", 3_000), ("b", 2_000), ("c", 10), ("d", 50_000), ("e", 1)]
    ]
    assert list(chunks(rows)) == [["a"], ["b", "c"], ["d"], ["e"]]
    assert [len(chunk) for chunk in chunks(Listed(str(n), 1) for n in range(70))] == [32, 32, 6]


def test_runs_of_sub_agents_are_left_out_unless_an_agent_is_named() -> None:
    class Kept:
        def runs(self, query: RunQuery) -> list[RunRow]:
            assert query.limit is None  # what is left out must not count
            return [_row("r", replay_of="a"), _row("c", parent_run_id="b"), _row("b"), _row("a")]

    kept: Any = Kept()
    assert [row.run_id for row in select(kept, RunQuery(limit=1))] == ["b"]
    assert [row.run_id for row in select(kept, EVERY)] == ["a", "b"]
    assert [row.run_id for row in select(kept, RunQuery(agent="x"))] == ["a", "b", "c"]


def _row(run_id: str, **more: Any) -> RunRow:
    return RunRow(
        run_id=run_id, trace_id="t", agent="x", ts_start_ns=None, ts_end_ns=None, status="ok",
        **more,
    )  # fmt: skip


# --- the workers themselves -----------------------------------------------------------------------


def test_workers_return_results_raise_errors_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Workers(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            pool.submit(divmod, 1, 0).result()
        with pytest.raises(Exception, match="pickle"):
            pool.submit(_closure()).result()
        with pytest.raises(WorkerLost, match="ended with exit code 7"):
            pool.submit(os._exit, 7).result()
        assert pool.submit(abs, -3).result() == 3
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(abs, 1)


def test_workers_load_nothing_of_the_store() -> None:
    with Workers(1) as pool:
        loaded = set(pool.submit(eval, "[*__import__('sys').modules]").result())
    assert "replay.replayer" in loaded
    assert loaded.isdisjoint({"duckdb", "pyarrow", "click", "replay.many.bulk"})


def test_workers_whose_parent_was_killed_end_and_take_their_folders_along(tmp_path: Path) -> None:
    code = (
        "import os; from replay.many import Workers; pool = Workers(1); "
        "pool.submit(abs, 1).result(); print(pool.pids[0], flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    while _lives(int(parent.stdout)):
        os.sched_yield()
    assert list(tmp_path.iterdir()) == []


def _lives(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_workers_end_in_the_middle_of_a_call_where_that_is_asked() -> None:
    pool = Workers(1)
    under_way = pool.submit(signal.pause)
    waiting = pool.submit(abs, 1)
    while not pool.pids:
        os.sched_yield()
    pool.shutdown(cancel_futures=True)
    assert isinstance(under_way.exception(), WorkerLost)
    assert waiting.cancelled()
