"""Processes with threads record into one store at once, while it is compacted and read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracekit.store import open_store
from tracekit.store.places import journal_folder

ROOT = Path(__file__).parents[2]
RECORDING = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import tracekit
from tracekit import journal

store, name, threads, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal.Journal.__init__.__kwdefaults__["max_bytes"] = 200_000
tracekit.configure(store=store)

@tracekit.tool(effect="read")
def look(n):
    return {"n": n, "who": name}

@tracekit.tool(effect="write")
def pay(n):
    tracekit.evidence(f"doc-{n}")
    return look(n)

@tracekit.agent
def agent(n, pool):
    return [pay(n), pool.submit(look, -n).result()]

def work(thread, pool):
    for n in range(runs):
        with tracekit.run(run_id=f"{name}-{thread}-{n}", name=name):
            agent(n, pool)

with ThreadPoolExecutor(4) as pool:
    workers = [threading.Thread(target=work, args=(k, pool)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
assert tracekit.configuration.recorder().lost == 0
"""
COMPACTING = """
import sys
from tracekit.store import open_store

store = open_store(sys.argv[1], create=True)
print("up", flush=True)
while True:
    store.compact()
"""
ROWS = 5
"""The run, its agent, the payment, the look in it and the one in the pool."""


@contextmanager
def _started(code: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def _record_at_once(path: Path, *, processes: int, threads: int, runs: int) -> None:
    with _started(COMPACTING, path) as compacting:
        assert compacting.stdout is not None
        compacting.stdout.readline()
        recording = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "error",
                    "-c",
                    RECORDING,
                    path,
                    f"p{n}",
                    str(threads),
                    str(runs),
                ],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for n in range(processes)
        ]
        _poll(path, recording)
        assert [child.wait() for child in recording] == [0] * processes
        assert compacting.poll() is None
    _all_is_there(path, processes * threads * runs)


def _poll(path: Path, recording: list[subprocess.Popen[bytes]]) -> None:
    """What a reader has seen it sees again, nothing twice, and no run that is torn."""
    seen = 0
    reader = open_store(path)
    while any(child.poll() is None for child in recording):
        (counts,) = reader.sql(
            "SELECT count(*), count(DISTINCT event_id), count(ts_end_ns) FROM events"
        ).rows
        assert counts[0] == counts[1]
        assert counts[2] >= seen
        seen = counts[2]
        for row in reader.runs()[:3]:
            assert row.events <= ROWS
            assert row.status == "open" or row.events == ROWS
        assert reader.problems == ()


def _all_is_there(path: Path, runs: int) -> None:
    store = open_store(path)
    store.compact()
    assert not list(journal_folder(path).glob("*.jsonl"))
    assert store.sql(
        "SELECT count(*), count(DISTINCT event_id), count(ts_end_ns), count(DISTINCT run_id)"
        " FROM events"
    ).rows == ((ROWS * runs, ROWS * runs, ROWS * runs, runs),)
    assert store.sql("SELECT status, count(*), sum(events) FROM runs GROUP BY 1").rows == (
        ("ok", runs, ROWS * runs),
    )
    parents = store.sql("""
        SELECT e.actor, p.actor, count(*) FROM events e LEFT JOIN events p
            ON e.parent_span_id = p.span_id AND e.run_id = p.run_id
        WHERE e.event_type <> 'run' GROUP BY ALL ORDER BY ALL
    """).rows
    assert _merged(parents) == [
        ("agent", "p", runs), ("look", "agent", runs), ("look", "pay", runs),
        ("pay", "agent", runs),
    ]  # fmt: skip
    assert store.sql("SELECT count(*) FROM events WHERE len(evidence_ids) = 1").rows == ((runs,),)
    assert store.verify().findings == ()


def _merged(rows: tuple[tuple[object, ...], ...]) -> list[tuple[str, str, int]]:
    """Rows counted by process, counted together."""
    counts: dict[tuple[str, str], int] = {}
    for actor, parent, count in rows:
        key = (str(actor), str(parent).rstrip("0123456789"))
        counts[key] = counts.get(key, 0) + int(str(count))
    return sorted((*key, count) for key, count in counts.items())


def test_nothing_is_lost_doubled_or_mixed_up_when_many_record_at_once(tmp_path: Path) -> None:
    _record_at_once(tmp_path / "s", processes=3, threads=4, runs=10)


@pytest.mark.slow
def test_eight_processes_of_four_threads_with_a_thousand_runs_each(tmp_path: Path) -> None:
    _record_at_once(tmp_path / "s", processes=8, threads=4, runs=1_000)
