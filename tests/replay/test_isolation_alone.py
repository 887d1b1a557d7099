"""What stands in for what processes share: it does what the real thing does, for threads."""

from __future__ import annotations

import multiprocessing
import os
import threading
from _multiprocessing import SemLock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.isolation import InProcess, Isolate, alone

HOST = "tests.replay.isolation_double"
RECURSIVE, COUNTING = 0, 1
STEPS: dict[str, Callable[[Any], object]] = {
    "take": lambda one: one.acquire(False),
    "take in time": lambda one: one.acquire(True, 0),
    "take by name": lambda one: one.acquire(block=False, timeout=-1),
    "give back": lambda one: one.release(),
    "begin": lambda one: one.__enter__() if not one._is_zero() else None,
    "end": lambda one: one.__exit__(None, None, None),
    "forked": lambda one: one._after_fork(),
}
ORDERS = (
    ("take", "take", "take in time", "give back", "give back", "give back"),
    ("give back", "take by name", "take by name", "end", "begin", "end"),
    ("take", "forked", "give back", "take", "give back"),
)


def _done(one: Any, step: str) -> object:
    try:
        result = STEPS[step](one)
    except (AssertionError, ValueError) as error:
        result = type(error).__name__, str(error)
    state = one._count(), one._is_mine(), one._get_value(), one._is_zero()
    return step, result, state


def _seen_elsewhere(one: Any) -> object:
    said: list[object] = []
    thread = threading.Thread(target=lambda: said.append((one._is_mine(), one._count())))
    thread.start()
    thread.join()
    return said[0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kind", "value", "maxvalue"), [(RECURSIVE, 1, 1), (COUNTING, 1, 1), (COUNTING, 2, 3)]
)
def test_a_semaphore_does_what_that_of_processes_does(
    order: tuple[str, ...], kind: int, value: int, maxvalue: int
) -> None:
    told = []
    for made in (SemLock, alone.Semaphore):
        one: Any = made(kind, value, maxvalue, f"/mp-tracekit-{os.getpid()}", True)
        by_step = [(_done(one, step), _seen_elsewhere(one)) for step in order]
        told.append((one.kind, one.maxvalue, one.name, by_step))
    assert told[0] == told[1]


def test_who_waits_for_a_semaphore_gets_it_when_it_is_given_back() -> None:
    one = alone.Semaphore(COUNTING, 1, 1)
    one.acquire()
    waiting = threading.Thread(target=one.acquire)
    waiting.start()
    one.release()
    waiting.join()
    assert (one._is_zero(), one._is_mine(), one._count()) == (True, False, 1)


PLANNER = """
import multiprocessing

LOCK, SHARED = multiprocessing.RLock(), multiprocessing.Value("i", 7)

def go(request, channel):
    with LOCK, SHARED.get_lock():
        SHARED.value += 1
    return SHARED.value
"""


def test_a_value_that_processes_share_is_each_runs_own(tmp_path: Path) -> None:
    (tmp_path / "sharing.py").write_text(PLANNER, "utf-8")
    told: list[Any] = []
    with Isolate("sharing:go", level="process", path=[tmp_path], host=HOST, cwd=tmp_path) as one:
        results = [one.run({}, told.append).result for _ in range(2)]
        assert one.ready.findings == ()
    assert (results, told) == ([{"value": 8}, {"value": 8}], [])


def test_locks_of_this_process_stay_what_processes_share() -> None:
    planner = InProcess(lambda request, channel: multiprocessing.Lock(), level="process", host=HOST)
    with planner:
        made = planner.run({}, lambda message: None).result["value"]._semlock
    assert type(made).__mro__[1] is SemLock
    assert type(multiprocessing.Lock()._semlock) is SemLock  # type: ignore[attr-defined]  # its own
