"""What a planner has begun and not ended when it comes back: threads, pools, tasks, callbacks.

The one idea: what the interpreter itself would wait for before it leaves (threads that are no
daemons, the work handed to pools) belongs to the run, so it is waited for and its calls are
answered. What the interpreter would not wait for (daemon threads, tasks and callbacks of a loop
that is closed) might have gone on in a program that lives longer: it is named, and a replay with
such a rest proves nothing. Threads of libraries that never end by themselves are not the planner's
doing; only those that have code of the planner's on their stack are named.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread as pools
import functools
import inspect
import sys
import threading
import time
from collections.abc import Sequence
from types import CodeType
from typing import Any

from replay import fixed_loop
from replay.threads import is_idle, is_own, runs_own_code
from tracekit.decorators import MARK

PATIENCE_S = 10.0
"""How long threads are waited for where nobody says."""
_TICK_S = 0.002
_QUIET = 3
"""So many looks one after the other must find nothing under way."""
_NAMED = 3


class Lingering:
    """Looks at what runs beside one run of a planner, from its start; ``wait`` ends it."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._until = time.monotonic() + patience_s
        self._before = {thread for thread in threading.enumerate() if not is_idle(thread)}
        self._in_loops: list[str] = []

    def note_loop(self) -> None:
        """Note what the loop of this coroutine, which is about to be closed, has still to do."""
        here = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not here and not task.done() and _may_go_on(task):
                self._in_loops.append(f"task {_name_of(task.get_coro())}")
        for handle in getattr(asyncio.get_running_loop(), "_scheduled", ()):
            callback = getattr(handle, "_callback", None)
            if not handle.cancelled() and callback is not None and _is_own_callback(callback):
                self._in_loops.append(f"callback {_name_of(callback)}")

    def wait(self) -> list[str]:
        """Wait for what the interpreter would wait for; name what is still under way then."""
        quiet = 0
        while quiet < _QUIET and time.monotonic() < self._until:
            waited_for = self._waited_for()
            if not waited_for and not quiet and not self._pools():
                break  # no thread is left that another look could find at work
            quiet = 0 if waited_for else quiet + 1
            time.sleep(_TICK_S)
        left = [f"thread {thread.name}" for thread in self._waited_for()]
        left += [f"daemon thread {thread.name}" for thread in self._daemons()]
        return [*left, *self._in_loops]

    def _begun(self) -> list[threading.Thread]:
        here = threading.current_thread()
        return [t for t in threading.enumerate() if t is not here and t not in self._before]

    def _waited_for(self) -> list[threading.Thread]:
        main = threading.main_thread()
        return [t for t in self._begun() if not (t.daemon or t is main or is_idle(t))]

    def _pools(self) -> bool:
        return any(thread in pools._threads_queues for thread in self._begun())

    def _daemons(self) -> list[threading.Thread]:
        frames = sys._current_frames()
        return [
            thread
            for thread in self._begun()
            if thread.daemon and runs_own_code(frames.get(thread.ident or 0))
        ]


def describe_left(left: Sequence[str]) -> str:
    """Say what was still under way, in one sentence."""
    shown = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if left[_NAMED:] else "")
    return f"threads, tasks or generators were still under way: {shown}"


def _may_go_on(task: asyncio.Task[Any]) -> bool:
    """Whether a task that is left behind may do something yet."""
    left = fixed_loop.waiting.get(task)
    if left is not None:  # with a call that never comes back
        return not (left or task.cancelling())
    return _awaits_own_code(task.get_coro())


def _awaits_own_code(coroutine: Any) -> bool:
    while coroutine is not None:
        code = getattr(coroutine, "cr_code", getattr(coroutine, "ag_code", None))
        if isinstance(code, CodeType) and is_own(code):
            return True
        coroutine = getattr(coroutine, "cr_await", getattr(coroutine, "ag_await", None))
    return False


def _is_own_callback(callback: Any) -> bool:
    while isinstance(callback, functools.partial):
        callback = callback.func
    code = getattr(inspect.unwrap(callback), "__code__", None)
    return hasattr(callback, MARK) or (isinstance(code, CodeType) and is_own(code))


def _name_of(what: Any) -> str:
    return str(
        getattr(what, "__qualname__", None) or getattr(what, "__name__", type(what).__name__)
    )
