"""Work handed to threads and processes keeps the step that handed it on as its parent."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import Recorded, recording
from tracekit import carrying
from tracekit.operations import current
from tracekit.store import open_store

ROOT = Path(__file__).parents[2]


@tracekit.tool(name="look", effect="read")
def look(n: int) -> int:
    return n


@pytest.fixture(autouse=True)
def _doors() -> Iterator[None]:
    yield
    carrying.uninstall()


def _agents_at_once(work: Callable[[int], Any]) -> Recorded:
    """Two runs that are both open while each hands its work on."""
    both = threading.Barrier(2)

    @tracekit.agent(name="agent")
    def agent(n: int) -> None:
        both.wait()
        work(n)
        both.wait()

    with recording() as recorded:
        threads = [threading.Thread(target=agent, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return recorded


def _assert_each_has_its_own(recorded: Recorded, looks: int) -> None:
    owners = {row.span_id: recorded.argument(row)["n"] for row in recorded.rows("run")}
    rows = recorded.rows("tool_call")
    assert len(owners) == 2
    assert len(rows) == 2 * looks
    for row in rows:
        assert owners[row.parent_span_id] == recorded.argument(row)["n"]
        assert row.run_id in {run.run_id for run in recorded.rows("run")}


def _by_thread(n: int) -> None:
    thread = threading.Thread(target=look, args=(n,))
    thread.start()
    thread.join()


class _Looking(threading.Thread):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def run(self) -> None:
        look(self.n)


def _by_thread_of_a_subclass(n: int) -> None:
    thread = _Looking(n)
    thread.start()
    thread.join()


def _by_timer(n: int) -> None:
    timer = threading.Timer(0, look, (n,))
    timer.start()
    timer.join()


def _by_submit(n: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        pool.submit(look, n).result()


def _by_map(n: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(look, [n]))


def _by_two_levels(n: int) -> None:
    with ThreadPoolExecutor(1) as outer, ThreadPoolExecutor(1) as inner:
        outer.submit(lambda: inner.submit(look, n).result()).result()


def _by_thread_pool(n: int) -> None:
    with ThreadPool(1) as pool:
        pool.map(look, [n])


def _by_run_in_executor(n: int) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, look, n)

    asyncio.run(main())


def _by_to_thread(n: int) -> None:
    asyncio.run(asyncio.to_thread(look, n))


def _by_call_soon(n: int) -> None:
    async def main() -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_soon(lambda: (look(n), done.set()))
        await done.wait()

    asyncio.run(main())


def _by_call_soon_from_a_thread(n: int) -> None:
    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(lambda: (look(n), done.set()))
        )
        thread.start()
        await done.wait()
        thread.join()

    asyncio.run(main())


@pytest.mark.parametrize(
    "road",
    [
        _by_thread, _by_thread_of_a_subclass, _by_timer, _by_submit, _by_map, _by_two_levels,
        _by_thread_pool, _by_run_in_executor, _by_to_thread, _by_call_soon,
        _by_call_soon_from_a_thread,
    ],
)  # fmt: skip
def test_with_two_runs_open_work_handed_on_belongs_to_who_handed_it(
    road: Callable[[int], None],
) -> None:
    _assert_each_has_its_own(_agents_at_once(road), 1)


def test_a_pool_that_two_runs_share_mixes_nothing_up() -> None:
    with ThreadPoolExecutor(3) as pool:

        def work(n: int) -> None:
            for future in [pool.submit(look, n) for _ in range(20)]:
                future.result()

        _assert_each_has_its_own(_agents_at_once(work), 20)


def test_a_thread_of_a_pool_remembers_nothing_of_the_run_that_began_it() -> None:
    with ThreadPoolExecutor(1) as pool:

        @tracekit.agent
        def agent() -> None:
            pool.submit(look, 1).result()

        with recording() as recorded:
            agent()
            assert pool.submit(current).result() is None
            pool.submit(look, 2).result()
    assert recorded.tree() == [["agent", "look"], "look"]


def test_a_subclass_that_submits_in_its_own_way_is_carried_as_well() -> None:
    class Own(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            return super().submit(lambda: fn(*args, **kwargs))

    def work(n: int) -> None:
        with Own(1) as pool:
            pool.submit(look, n).result()

    _assert_each_has_its_own(_agents_at_once(work), 1)


def test_a_thread_in_a_tool_is_beneath_that_tool() -> None:
    @tracekit.tool(name="outer")
    def outer(n: int) -> None:
        _by_submit(n)
        _by_thread(n)

    @tracekit.agent(name="agent")
    def agent() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(outer, [1, 2]))

    with recording() as recorded:
        agent()
    assert recorded.tree() == [["agent", ["outer", "look", "look"], ["outer", "look", "look"]]]
    rows = {row.span_id: row for row in recorded.rows("tool_call")}
    for row in rows.values():
        if row.actor == "look":
            above = rows[row.parent_span_id or ""]
            assert recorded.argument(above) == recorded.argument(row)


def test_a_thread_looks_the_same_with_and_without_us() -> None:
    seen: list[dict[str, Any]] = []

    def work() -> None:
        seen.append(dict(vars(threading.current_thread())))

    def both() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert "run" not in vars(thread)
        with pytest.raises(RuntimeError, match="once"):
            thread.start()
        assert "run" not in vars(thread)

    both()
    with recording(), tracekit.run():
        both()
    assert seen[0].keys() == seen[1].keys()


def test_a_run_of_its_own_that_a_thread_was_given_is_called_and_kept() -> None:
    def mine() -> None:
        look(1)

    thread = threading.Thread()
    thread.run = mine  # type: ignore[method-assign]  # what some programs do
    with recording() as recorded, tracekit.run(name="r"):
        thread.start()
        thread.join()
    assert thread.run is mine
    assert recorded.tree() == [["r", "look"]]


def test_the_doors_are_as_they_were_outside_runs_and_after() -> None:
    carrying.uninstall()
    before = [threading.Thread.start, ThreadPoolExecutor.submit]
    signatures = [inspect.signature(door) for door in before]
    with recording(), tracekit.run():
        now = [threading.Thread.start, ThreadPoolExecutor.submit]
        assert all(ours is not theirs for ours, theirs in zip(now, before, strict=True))
        assert [inspect.signature(door) for door in now] == signatures
        carrying.install()
        assert [threading.Thread.start, ThreadPoolExecutor.submit] == now
    carrying.uninstall()
    assert [threading.Thread.start, ThreadPoolExecutor.submit] == before


def test_what_another_library_wrapped_since_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    carrying.uninstall()
    with recording(), tracekit.run():
        ours = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: ours(self))
    theirs = threading.Thread.start
    carrying.uninstall()
    assert threading.Thread.start is theirs
    monkeypatch.setattr(threading.Thread, "start", getattr(ours, "__wrapped__"))  # noqa: B009  # set by functools


def test_an_error_in_a_pool_is_the_same_instance() -> None:
    error = ValueError("no")

    def fail() -> None:
        raise error

    with recording(), tracekit.run(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(fail).exception() is error


# --- processes ------------------------------------------------------------------------------------

AGENT = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return n

@tracekit.tool(effect="read")
def outer(n):
    return look(n)

def configure():
    tracekit.configure(store="kept", redact=REDACT)

@tracekit.agent
def agent(how, n, pool):
    context = multiprocessing.get_context(how)
    assert list(pool.map(outer, [n])) == [n]
    child = context.Process(target=look, args=(n,))
    child.start()
    child.join()
    with context.Pool(1) as own:
        assert own.apply(look, (n,)) == n
        assert own.map(look, [n]) == [n]

def main():
    configure()
    how = sys.argv[1]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(how)) as pool:
        for n in range(2):
            with tracekit.run(run_id=f"run-{n}"):
                agent(how, n, pool)

if __name__ == "__main__":
    main()
"""


def _run(tmp_path: Path, text: str, *arguments: str) -> str:
    (tmp_path / "agent.py").write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-W", "error", "agent.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("how", multiprocessing.get_all_start_methods())
def test_processes_write_into_the_run_and_beneath_the_step_that_began_them(
    tmp_path: Path, how: str
) -> None:
    _run(tmp_path, AGENT.replace("REDACT", "['pin']"), how)
    assert not (tmp_path / ".tracekit").exists()
    store = open_store(tmp_path / "kept")
    for n in range(2):
        rows = store.events(f"run-{n}")
        spans = {row.span_id: row for row in rows}
        assert len(spans) == len(rows)
        tree = sorted((row.actor, spans[row.parent_span_id].actor) for row in rows[1:])
        assert tree == [
            ("agent", "run"), ("look", "agent"), ("look", "agent"), ("look", "agent"),
            ("look", "outer"), ("outer", "agent"),
        ]  # fmt: skip
        assert all(row.ts_end_ns is not None and row.status == "ok" for row in rows)
        assert len({row.writer for row in rows}) == 4
    assert store.verify().sound
    assert not store.problems


def test_a_process_whose_parents_rules_cannot_be_sent_records_nothing_and_says_so(
    tmp_path: Path,
) -> None:
    said = _run(tmp_path, AGENT.replace("REDACT", "[lambda text: text]"), "spawn")
    assert "redaction rules of the process that began this one cannot be sent" in said
    assert not (tmp_path / ".tracekit").exists()
    rows = open_store(tmp_path / "kept").events("run-0")
    assert [row.actor for row in rows] == ["run", "agent"]


PREFORK = """
import os, sys
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return n

@tracekit.agent
def serve(n):
    return look(n)

look(0)
children = []
for n in range(1, 4):
    child = os.fork()
    if child == 0:
        open_files = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                      if os.path.exists(f"/proc/self/fd/{fd}")}
        assert not any(name.endswith(".jsonl") for name in open_files), open_files
        for _ in range(5):
            serve(n)
        sys.exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
look(0)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks which files are open")
def test_servers_that_fork_their_workers_share_no_file_and_record_nothing_twice(
    tmp_path: Path,
) -> None:
    _run(tmp_path, PREFORK)
    store = open_store(tmp_path / ".tracekit")
    runs = store.sql("SELECT agent, status, events FROM runs").rows
    assert sorted(runs) == [("look", "ok", 1)] * 2 + [("serve", "ok", 2)] * 15
    (ids,) = store.sql(
        "SELECT count(*), count(DISTINCT event_id), count(DISTINCT writer) FROM events"
    ).rows
    assert ids == (32, 32, 4)


FORKED = """
import os, sys
import tracekit

@tracekit.tool(effect="read")
def items():
    yield 1
    yield 2

@tracekit.agent
def agent():
    half = items()
    next(half)
    child = os.fork()
    if child == 0:
        del half
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    next(half)
    half.close()
    return "done"

with tracekit.run(run_id="r"):
    agent()
"""


def test_a_forked_child_that_leaves_does_not_end_its_parents_steps(tmp_path: Path) -> None:
    _run(tmp_path, FORKED)
    rows = open_store(tmp_path / ".tracekit").events("r")
    assert [(row.actor, row.status) for row in rows] == [
        ("run", "ok"), ("agent", "ok"), ("items", "ok"),
    ]  # fmt: skip
