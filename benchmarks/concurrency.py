"""Eight processes that record one event at a time, against SQLite in WAL mode.

SQLite gets one row an event and a commit each, with ``synchronous=NORMAL`` and a patient
``busy_timeout``: as with our journal by default, what it has committed survives a kill. Both sides
are given the same facts, made before the clock runs; what a recorded call costs in whole, from its
arguments on, is the third line. All is counted afterwards: who loses an event ends the run.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

import tracekit
from benchmarks.figures import Line
from tracekit.configuration import recording_to
from tracekit.events import Fact, Payload, ToolCallBegun, ToolCallEnded
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import open_store

PROCESSES, EVENTS, REPEATS = 8, 4_000, 5
_KEY = b"a key for measuring, not for secrets"
_NOON_NS = 1_796_040_000_000_000_000
_Done = tuple[int, int, int]
"""Begin and end on the clock that all processes share, and how many writes failed."""


def _facts(writer: str, count: int) -> list[Fact]:
    """Make the facts of calls that begin and end, one after the other."""
    made: list[Fact] = []
    payload = Payload(digest="sha256:" + "0" * 64, blob="sha256:" + "0" * 64)
    for seq in range(0, count, 2):
        where: dict[str, Any] = {
            "run_id": f"run-{writer}",
            "trace_id": "a" * 32,
            "span_id": f"{seq:016x}",
            "writer": writer,
        }
        began = ToolCallBegun(
            **where, seq=seq, timestamp_ns=_NOON_NS + seq, actor="look", argument=payload,
            effect="read",
        )  # fmt: skip
        ended = ToolCallEnded(
            **where, seq=seq + 1, timestamp_ns=_NOON_NS + seq + 1, status="ok", observation=payload
        )
        made += [began, ended]
    return made


_start: Barrier | None = None


def _wait_for(start: Barrier) -> None:
    global _start  # one a process: a pool hands it over only so
    _start = start


def _timed(task: Callable[[], int]) -> _Done:
    assert _start is not None
    _start.wait(60)
    before = time.monotonic_ns()
    failed = task()
    return before, time.monotonic_ns(), failed


def _sqlite(folder: str, number: int) -> _Done:
    facts = _facts(str(number), EVENTS)
    base = sqlite3.connect(Path(folder, "events.db"), timeout=60, isolation_level=None)
    base.execute("PRAGMA synchronous = NORMAL")

    def write() -> int:
        failed = 0
        for fact in facts:
            row = (fact.run_id, fact.seq, fact.model_dump_json())
            try:
                base.execute("INSERT INTO events VALUES (?, ?, ?)", row)
            except sqlite3.OperationalError:
                failed += 1
        return failed

    done = _timed(write)
    base.close()
    return done


def _journal(folder: str, number: int) -> _Done:
    facts = _facts(str(number), EVENTS)
    journal = Journal(Path(folder, "store", "journal"))

    def write() -> int:
        for fact in facts:
            journal.write(fact, [])
        return 0

    done = _timed(write)
    journal.close()
    return done


def _recorded(folder: str, number: int) -> _Done:
    own = Recorder(Journal(Path(folder, "store", "journal")), Redactor(Rules(), KeyedTagger(_KEY)))

    @tracekit.tool(effect="read")
    def look(query: str, page: int) -> dict[str, object]:
        return {"query": query, "page": page, "open": True}

    def write() -> int:
        for page in range(EVENTS // 2 - 1):  # the run itself is two more
            look(f"queue-{number}", page)
        return 0

    with recording_to(own):
        look("first", 0)  # imports and caches are not the cost; a call outside runs is one itself

        def block() -> int:
            with tracekit.run():
                return write()

        done = _timed(block)
    own.sink.close()
    return done


def _events_a_second(work: Callable[[str, int], _Done], folder: Path) -> tuple[float, int]:
    """Run the work in all processes at once; give the speed of all and how much failed."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload([__name__])
    start = fresh.Barrier(PROCESSES)
    with fresh.Pool(PROCESSES, initializer=_wait_for, initargs=(start,)) as pool:
        done = pool.starmap(work, [(str(folder), n) for n in range(PROCESSES)], chunksize=1)
    began, ended, failed = zip(*done, strict=True)
    return PROCESSES * EVENTS / ((max(ended) - min(began)) / 1e9), sum(failed)


def _sqlite_once(folder: Path) -> tuple[float, int]:
    path = folder / "events.db"
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("CREATE TABLE events (run_id TEXT, seq INTEGER, fact TEXT)")
    base.close()
    speed, failed = _events_a_second(_sqlite, folder)
    with sqlite3.connect(path) as base:
        kept = base.execute("SELECT count(*) FROM events").fetchone()[0]
    base.close()
    if kept + failed != PROCESSES * EVENTS:
        raise AssertionError(f"SQLite kept {kept} rows and refused {failed}")
    return speed, failed


def _journal_once(folder: Path) -> tuple[float, int]:
    speed, failed = _events_a_second(_journal, folder)
    contents = [read_journal(path) for path in (folder / "store" / "journal").glob("*.jsonl")]
    kept = sum(len(content.facts) for content in contents)
    if kept != PROCESSES * EVENTS or any(content.damage for content in contents):
        raise AssertionError(f"journals hold {kept} facts")
    return speed, failed


def _recorded_once(folder: Path) -> tuple[float, int]:
    speed, failed = _events_a_second(_recorded, folder)
    store = open_store(folder / "store")
    calls = store.sql("SELECT count(*), count(ts_end_ns) FROM events WHERE actor = 'look'").rows
    wanted = PROCESSES * (EVENTS // 2)
    if calls != ((wanted, wanted),):
        raise AssertionError(f"{calls} of {wanted} calls are kept")
    return speed, failed


def measure() -> list[Line]:
    """Measure the events a second of eight processes that write at once."""
    ways = {
        "SQLite in WAL mode, a commit an event": _sqlite_once,
        "our journal": _journal_once,
        "recorded tool calls, two events each": _recorded_once,
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    failures = dict.fromkeys(ways, 0)
    for _ in range(REPEATS):
        for name, once in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                speed, failed = once(Path(folder))
            speeds[name].append(speed)
            failures[name] += failed
    reference = median(next(iter(speeds.values())))
    lines = []
    for place, (name, found) in enumerate(speeds.items()):
        told = f"{median(found):,.0f} events/s, {failures[name]} failed"
        ratio, target = reference / median(found), 0.5 if place else None
        label = f"  {name}" if place else f"{PROCESSES} processes: {name}"
        lines.append(Line(label, told, ratio, target))
    return lines
