"""Event loops on the clock of the replay: what waits for a time only does not wait.

A loop that has nothing to do before its next timer moves the clock there. So ``asyncio.sleep``,
``wait_for`` and ``timeout`` keep their order and cost no time. What waits for another thread still
waits for it: work in an executor may take as long as the timer says.

Loops that are not of ``asyncio`` (uvloop) keep their own time.
"""

from __future__ import annotations

import math
import threading
from asyncio import base_events, selector_events
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol

from tracekit.conditions import Conditions

_SECOND_NS = 1_000_000_000
_GRACE_S = 0.02
"""How long other threads, which may be about to call, are given before the clock is moved."""
_PENDING = "_tracekit_pending"


class Held(Protocol):
    """Conditions that hold for code which does not know of them."""

    conditions: Conditions

    def loop_s(self) -> float:
        """What event loops go by."""


Ask = Callable[[], Held | None]


def install(undo: ExitStack, held: Ask) -> None:
    """Put loops that are made from now on, and the time of all, on what ``held`` says."""
    for cls, name, made in (
        (base_events.BaseEventLoop, "time", _time(held)),
        (base_events.BaseEventLoop, "run_in_executor", _run_in_executor),
        (selector_events.BaseSelectorEventLoop, "__init__", _init(held)),
    ):
        real = getattr(cls, name)
        undo.callback(setattr, cls, name, real)
        setattr(cls, name, made(real))


def _time(held: Ask) -> Callable[[Any], Any]:
    def made(real: Any) -> Any:
        def time(loop: Any) -> Any:
            found = held()
            return real(loop) if found is None else found.loop_s()

        return time

    return made


def _run_in_executor(real: Callable[..., Any]) -> Callable[..., Any]:
    def run_in_executor(loop: Any, executor: Any, func: Any, *args: Any) -> Any:
        future = real(loop, executor, func, *args)
        pending = vars(loop).setdefault(_PENDING, set())
        pending.add(future)
        future.add_done_callback(pending.discard)
        return future

    return run_in_executor


def _init(held: Ask) -> Callable[[Any], Any]:
    def made(real: Any) -> Any:
        def __init__(loop: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # stands for it
            real(loop, *args, **kwargs)
            loop._selector = _Selector(loop._selector, loop, held)

        return __init__

    return made


class _Selector:
    """Waits for events as the selector of a loop does, and moves the clock where only time is."""

    def __init__(self, real: Any, loop: Any, held: Ask) -> None:
        self._real = real
        self._loop = loop
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready; at the latest when the clock is ``timeout`` further."""
        found = self._held()
        if found is None or timeout is None or timeout <= 0:
            return list(self._real.select(timeout))
        events: list[Any] = self._real.select(self._patience(timeout))
        if not events:
            found.conditions.advance(math.ceil(timeout * _SECOND_NS) + 1)
        return events

    def _patience(self, timeout: float) -> float:
        if getattr(self._loop, _PENDING, None):
            return timeout
        return min(timeout, _GRACE_S) if threading.active_count() > 1 else 0
