"""Callbacks, pools, forks and servers: each call has its own observation and its true parent."""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import Recorded, recording
from tracekit import carrying
from tracekit.store import Store, open_store

ROOT = Path(__file__).parents[2]


@tracekit.tool(name="look", effect="read")
def look(n: int) -> int:
    return n * 10


@tracekit.tool(name="fetch", effect="read")
async def fetch(n: int) -> int:
    await asyncio.sleep(0)
    return n * 10


@pytest.fixture(autouse=True)
def _doors() -> Iterator[None]:
    yield
    carrying.uninstall()


def _assert_each_has_its_own(recorded: Recorded, calls: int) -> None:
    """Every call is beneath the agent with its number, and came back with its own result."""
    owners = {row.span_id: recorded.argument(row)["n"] for row in recorded.rows("run")}
    rows = recorded.rows("tool_call")
    assert len(owners) == 2
    assert len(rows) == 2 * calls
    for row in rows:
        n = recorded.argument(row)["n"]
        assert owners[row.parent_span_id] == n // 100
        assert recorded.observation(row) == n * 10


# --- one event loop, two runs ---------------------------------------------------------------------

Work = Callable[[int], Any]


async def _gather(n: int) -> None:
    assert await asyncio.gather(*(fetch(n + k) for k in range(3))) == [
        (n + k) * 10 for k in (0, 1, 2)
    ]


async def _task_group(n: int) -> None:
    async with asyncio.TaskGroup() as group:
        for k in range(3):
            group.create_task(fetch(n + k))


async def _as_they_complete(n: int) -> None:
    for one in asyncio.as_completed([fetch(n + k) for k in range(3)]):
        await one


async def _call_soon_and_later(n: int) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(look, n)
    loop.call_later(0, look, n + 1)
    loop.call_at(loop.time(), lambda: (look(n + 2), done.set()))
    await done.wait()


async def _callbacks_of_tasks(n: int) -> None:
    done = [asyncio.Event() for _ in range(2)]
    task = asyncio.create_task(fetch(n))
    task.add_done_callback(lambda _: (look(n + 1), done[0].set()))
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda _: (look(n + 2), done[1].set()))
    future.set_result(None)
    for event in done:
        await event.wait()


async def _threads_and_back(n: int) -> None:
    loop = asyncio.get_running_loop()

    def work() -> None:
        look(n)
        asyncio.run_coroutine_threadsafe(fetch(n + 1), loop).result()

    await asyncio.to_thread(work)
    await loop.run_in_executor(None, look, n + 2)


async def _copied_contexts(n: int) -> None:
    here = contextvars.copy_context()
    here.run(look, n)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(lambda: (look(n + 1), done.set()), context=here)
    await asyncio.create_task(fetch(n + 2), context=contextvars.copy_context())
    await done.wait()


async def _shielded_and_cancelled(n: int) -> None:
    task = asyncio.create_task(asyncio.sleep(3600))
    task.cancel()
    await asyncio.wait([task])
    await asyncio.shield(fetch(n))
    await asyncio.wait_for(fetch(n + 1), 60)
    async with asyncio.timeout(60):
        await fetch(n + 2)


@pytest.mark.parametrize(
    "road",
    [
        _gather, _task_group, _as_they_complete, _call_soon_and_later, _callbacks_of_tasks,
        _threads_and_back, _copied_contexts, _shielded_and_cancelled,
    ],
)  # fmt: skip
async def test_two_runs_on_one_event_loop_are_not_mixed_up(road: Work) -> None:
    ready = asyncio.Barrier(2)

    @tracekit.agent(name="agent")
    async def agent(n: int) -> None:
        await ready.wait()
        await road(n * 100)
        await ready.wait()

    with recording() as recorded:
        await asyncio.gather(agent(1), agent(2))
    _assert_each_has_its_own(recorded, 3)


def test_a_runner_that_serves_several_runs_keeps_none_of_them() -> None:
    @tracekit.agent(name="agent")
    def agent(n: int, loop: asyncio.Runner) -> int:
        return loop.run(fetch(n))

    with recording() as recorded, asyncio.Runner() as loop:
        assert [agent(n, loop) for n in (100, 200)] == [1000, 2000]
        assert loop.run(fetch(3)) == 30
        with pytest.raises(RuntimeError, match="running event loop"):
            loop.run(_within(loop))
    assert recorded.tree() == [["agent", "fetch"], ["agent", "fetch"], "fetch"]


async def _within(loop: asyncio.Runner) -> None:
    waiting = asyncio.sleep(0)
    try:
        loop.run(waiting)
    finally:
        waiting.close()


# --- threads --------------------------------------------------------------------------------------


def _callbacks_of_a_pool(n: int) -> None:
    called = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        held = threading.Event()
        future = pool.submit(lambda: (held.wait(), look(n)))
        future.add_done_callback(lambda _: look(n + 1))  # in the thread of the pool
        held.set()
        future.result()
    future.add_done_callback(lambda _: (look(n + 2), called.set()))  # at once, here
    called.wait()


def _callbacks_of_a_pool_of_threads(n: int) -> None:
    with ThreadPool(1) as pool:
        pool.apply_async(look, (n,), callback=lambda _: look(n + 1)).wait()
        pool.apply_async(_fail, error_callback=lambda _: look(n + 2)).wait()


def _fail() -> None:
    raise ValueError("no")


def _as_completed(n: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        for future in as_completed([pool.submit(look, n + k) for k in range(3)]):
            future.result()


def _a_future_of_ones_own(n: int) -> None:
    future: Future[int] = Future()
    for k in range(3):
        future.add_done_callback(lambda _, k=k: look(n + k))  # type: ignore[misc]  # of a lambda
    thread = threading.Thread(target=future.set_result, args=(1,))
    thread.start()
    thread.join()


def _a_loop_in_a_thread(n: int) -> None:
    thread = threading.Thread(target=lambda: asyncio.run(_gather(n)))
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "road",
    [
        _callbacks_of_a_pool, _callbacks_of_a_pool_of_threads, _as_completed,
        _a_future_of_ones_own, _a_loop_in_a_thread,
    ],
)  # fmt: skip
def test_two_runs_in_threads_are_not_mixed_up(road: Work) -> None:
    both = threading.Barrier(2)

    @tracekit.agent(name="agent")
    def agent(n: int) -> None:
        both.wait()
        road(n * 100)
        both.wait()

    with recording() as recorded:
        threads = [threading.Thread(target=agent, args=(n,)) for n in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _assert_each_has_its_own(recorded, 3)


def test_two_calls_of_one_tool_at_once_keep_their_own_observations() -> None:
    inside = threading.Barrier(8)

    @tracekit.tool(name="both")
    def both(n: int) -> dict[str, int]:
        inside.wait()
        return {"n": n}

    @tracekit.agent
    def agent() -> None:
        with ThreadPoolExecutor(8) as pool:
            assert [got["n"] for got in pool.map(both, range(8))] == list(range(8))

    with recording() as recorded:
        agent()
    rows = recorded.rows("tool_call")
    assert [recorded.observation(row) for row in rows] == [recorded.argument(row) for row in rows]
    assert sorted(recorded.argument(row)["n"] for row in rows) == list(range(8))


# --- processes ------------------------------------------------------------------------------------


def _run(tmp_path: Path, text: str, *arguments: str) -> None:
    (tmp_path / "agent.py").write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-W", "error", "agent.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def _parents(store: Store, run_id: str) -> Counter[tuple[str, str]]:
    rows = store.events(run_id)
    names = {row.span_id: row.actor for row in rows}
    assert len(names) == len(rows)
    return Counter((row.actor, names.get(row.parent_span_id or "", "-")) for row in rows)


POOLS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor, as_completed
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return n * 10

@tracekit.tool(effect="read")
def note(n):
    return n

def both(a, b):
    return look(a) + look(b)

@tracekit.agent
def agent(how):
    context = multiprocessing.get_context(how)
    with context.Pool(2) as pool:
        assert pool.apply(look, (1,)) == 10
        assert pool.starmap(both, [(1, 2), (3, 4)]) == [30, 70]
        assert list(pool.imap(look, [1, 2], chunksize=2)) == [10, 20]
        assert sorted(pool.imap_unordered(look, [1, 2])) == [10, 20]
        assert pool.map_async(look, [1, 2]).get() == [10, 20]
        pool.apply_async(look, (1,), callback=note).get()
        pool.close()
        pool.join()
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(look, range(4), chunksize=2)) == [0, 10, 20, 30]
        futures = [pool.submit(look, n) for n in range(3)]
        for future in futures:
            future.add_done_callback(lambda future: note(future.result()))
        assert sorted(future.result() for future in as_completed(futures)) == [0, 10, 20]

def main():
    with tracekit.run(run_id="r"), tracekit.run(run_id="s"):
        agent(sys.argv[1])

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("how", multiprocessing.get_all_start_methods())
def test_every_way_to_a_pool_of_processes_leads_back_to_who_went_it(
    tmp_path: Path, how: str
) -> None:
    _run(tmp_path, POOLS, how)

    store = open_store(tmp_path / ".tracekit")
    assert _parents(store, "s") == {
        ("run", "-"): 1, ("agent", "run"): 1, ("look", "agent"): 19, ("note", "agent"): 4,
    }  # fmt: skip
    assert {row.status for row in store.events("s")} == {"ok"}
    assert store.verify().sound


FORKS = """
import os, threading
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return n

@tracekit.agent
def agent():
    over = threading.Event()

    def busy():
        n = 0
        while not over.is_set():
            look(n := n + 1)

    thread = threading.Thread(target=busy)
    thread.start()
    for n in range(30):
        child = os.fork()
        if child == 0:
            look(-n)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    over.set()
    thread.join()

with tracekit.run(run_id="r"):
    agent()
"""


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_another_threads_call_neither_hangs_nor_mixes_up(
    tmp_path: Path,
) -> None:
    _run(tmp_path, FORKS)

    store = open_store(tmp_path / ".tracekit")
    rows = [row for row in store.events("r") if row.actor == "look"]
    numbers = Counter(call.arguments["n"] for call in store.trajectory("r").calls)  # type: ignore[index,call-overload]  # an object
    assert all(numbers[-n] == 1 for n in range(1, 30))
    assert set(numbers.values()) == {1}
    assert set(_parents(store, "r")) == {("run", "-"), ("agent", "run"), ("look", "agent")}
    assert len({row.writer for row in rows}) == 31
    assert store.verify().sound


SERVER = """
import os, signal, socket, sys, threading
import tracekit

tracekit.configure(store="kept", service="desk")

@tracekit.tool(effect="read")
def look(n):
    return n * 10

@tracekit.tool(effect="read")
def wait(n):
    os.write(1, b"waiting\\n")
    signal.pause() if threading.current_thread() is threading.main_thread() else HELD.wait()

@tracekit.agent
def serve(n):
    if n < 0:
        return wait(n)
    return look(n) + look(n + 1000)

HELD = threading.Event()

def answer(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            n = int(connection.recv(64))
            connection.sendall(str(serve(n)).encode())

def worker(listener, gentle):
    stop = threading.Event()
    if gentle:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for _ in range(4):
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
    while not stop.wait(60):
        pass

def main():
    serve(0)  # as a check when the application is loaded
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    workers = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            worker(listener, gentle=number % 2 == 0)
        workers.append(child)
    print(listener.getsockname()[1], *workers, flush=True)
    for child in workers:
        os.waitpid(child, 0)

main()
"""


def test_a_server_of_forked_workers_with_threads_ends_with_a_readable_record(
    tmp_path: Path,
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    server = subprocess.Popen(
        [sys.executable, "server.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    port, *workers = map(int, server.stdout.readline().split())

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: _ask(port, n), range(1, 61)))
    assert said == [n * 20 + 10_000 for n in range(1, 61)]
    held = [threading.Thread(target=_ask, args=(port, -1)) for _ in range(2)]
    for thread in held:
        thread.start()
        assert server.stdout.readline() == "waiting\n"
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    assert server.wait(60) == 0
    for thread in held:
        thread.join()
    server.stdout.close()

    store = open_store(tmp_path / "kept")
    for _ in range(2):
        runs = store.sql("SELECT run_id, status, events FROM runs").rows
        assert Counter((status, count) for _, status, count in runs) == {
            ("ok", 3): 61,
            ("open", 2): 2,
        }
        for run_id, _, _ in runs:
            rows = store.events(str(run_id))
            (root,) = [row for row in rows if row.event_type == "run"]
            assert {row.parent_span_id for row in rows if row is not root} == {root.span_id}
            assert len({row.writer for row in rows}) == 1
        assert store.problems == ()
        assert store.verify().sound
        store.settle()


def _ask(port: int, n: int) -> int | None:
    import socket

    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(str(n).encode())
        answer = connection.recv(64)
    return int(answer) if answer else None


LOOP_SERVER = """
import asyncio, multiprocessing, os, signal, sys
import tracekit

tracekit.configure(store="kept")

@tracekit.tool(effect="read")
async def look(n):
    await asyncio.sleep(0)
    return n * 10

@tracekit.agent
async def serve(n):
    return sum(await asyncio.gather(look(n), look(n + 1000)))

async def answer(reader, writer):
    writer.write(str(await serve(int(await reader.read(64)))).encode())
    await writer.drain()
    writer.close()

async def served(listener):
    server = await asyncio.start_server(answer, sock=listener)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    os.write(1, b"up\\n")
    await stop.wait()
    server.close()
    await server.wait_closed()

def worker(listener):
    asyncio.run(served(listener))

def main():
    import socket
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=worker, args=(listener,)) for _ in range(2)]
    for child in workers:
        child.start()
    print(listener.getsockname()[1], *(child.pid for child in workers), flush=True)
    for child in workers:
        child.join()
        assert child.exitcode == 0

if __name__ == "__main__":
    main()
"""


def test_a_server_of_spawned_workers_with_event_loops_keeps_requests_apart(
    tmp_path: Path,
) -> None:
    (tmp_path / "server.py").write_text(LOOP_SERVER)
    server = subprocess.Popen(
        [sys.executable, "server.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    lines = [server.stdout.readline() for _ in range(3)]
    (told,) = [line for line in lines if line != "up\n"]
    port, *workers = map(int, told.split())

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: _ask(port, n), range(40)))
    assert said == [n * 20 + 10_000 for n in range(40)]
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    assert server.wait(60) == 0
    server.stdout.close()

    store = open_store(tmp_path / "kept")
    runs = store.sql("SELECT run_id FROM runs WHERE status = 'ok' AND events = 3").rows
    assert len(runs) == 40
    for (run_id,) in runs:
        assert _parents(store, str(run_id)) == {("serve", "-"): 1, ("look", "serve"): 2}
    assert store.problems == ()
