"""Killed at any instant, in any way, a program has lost nothing that it knew to be recorded."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tracekit.events import Event
from tracekit.journal import writer_of
from tracekit.store import open_store
from tracekit.store.places import journal_folder

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, resource, signal, sys, threading
import tracekit
from tracekit import journal

store, how, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal.Journal.__init__.__kwdefaults__["max_bytes"] = 20_000
tracekit.configure(store=store)
calls = 0

def say(*words):
    # One unbuffered write: what stands in the pipe had been said before the end, whatever it was.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

@tracekit.tool(effect="write")
def pay(name):
    say("begun", name)
    global calls
    calls += 1
    if how == "_exit" and calls == limit:
        os._exit(9)
    if how == "kill" and calls == limit:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"paid": name, "to": "x" * 200}

if how == "full":  # from here on no file may grow beyond it
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

def work(thread):
    for n in range(10_000):
        run_id = f"run-{os.getpid()}-{thread}-{n}"
        with tracekit.run(run_id=run_id):
            for k in range(3):
                pay(f"{run_id}/{k}")
                say("done", f"{run_id}/{k}")
                if how == "full" and calls >= 60:
                    os._exit(9)

threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@dataclass
class Killed:
    """A program that is no more, and what it had said."""

    begun: set[str]
    done: set[str]
    lost_nothing: bool


def _killed(store: Path, how: str, chance: random.Random) -> Killed:
    limit = {"full": 3_000 + chance.randrange(20_000)}.get(how, 1 + chance.randrange(60))
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store), how, str(limit)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with child:
        assert child.stdout is not None
        told = b""
        if how == "outside":  # the instant is chosen by how far it has come
            told = child.stdout.read(1 + chance.randrange(4_000))
            child.send_signal(signal.SIGKILL)
        told += child.stdout.read()
    words = [line.split() for line in told.decode().splitlines()]
    of = {what: {name for word, name in words if word == what} for what in ("begun", "done")}
    return Killed(of["begun"], of["done"], lost_nothing=how != "full")


def _check(store: Path, killed: list[Killed]) -> None:
    """Look before anything is settled, and after; a new program is as good a reader as any."""
    seen = []
    for step in (lambda: None, open_store(store).settle, open_store(store).compact):
        step()
        reader = open_store(store)
        shown = {}
        for row in reader.runs():
            events = list(reader.events(row.run_id))
            untold = [e for e in events if e.event_type == "tool_call" and e.tool_name is None]
            # On a full disk the begin of a call may have found no room, and its shorter end some.
            assert len(untold) <= _lost(events), "more is missing than the run says was lost"
            for event in events:
                if event.event_type == "tool_call" and event not in untold:
                    blob = reader.blob(event.argument_blob or "")
                    assert blob is not None
                    name = json.loads(blob.data)["name"]
                    assert name not in shown
                    shown[name] = event.ts_end_ns is not None
        seen.append(shown)
        assert all("is torn" in finding for finding in reader.verify().findings)
    assert seen[0] == seen[1] == seen[2]
    # One that was killed before its first byte may just have been made: it is left for a minute.
    left = list(journal_folder(store).glob("*.jsonl"))
    empty = {writer_of(path) for path in left if not path.stat().st_size}
    assert all(writer_of(path) in empty for path in left), [
        (path.name, path.read_bytes()) for path in left
    ]
    for one in killed:
        if one.lost_nothing:
            assert one.begun <= shown.keys(), "a step that had begun is not there"
            assert all(shown[name] for name in one.done), (
                "an end that was acknowledged is not there"
            )


def _lost(events: Sequence[Event]) -> int:
    """How many events the run says were lost."""
    told = [event.error_message or "" for event in events if event.error_type == "events_lost"]
    return sum(int(text.split()[0]) for text in told)


def _many(tmp_path: Path, count: int, per_store: int) -> None:
    chance = random.Random(20261130)
    for start in range(0, count, per_store):
        store = tmp_path / f"s{start}"
        killed = [
            _killed(store, ("outside", "kill", "_exit", "full")[n % 4], chance)
            for n in range(start, min(count, start + per_store))
        ]
        _check(store, killed)


def test_killed_at_any_instant_nothing_acknowledged_is_missing(tmp_path: Path) -> None:
    _many(tmp_path, 8, 4)


@pytest.mark.slow
def test_killed_at_a_thousand_instants_nothing_acknowledged_is_missing(tmp_path: Path) -> None:
    _many(tmp_path, 1_000, 20)
