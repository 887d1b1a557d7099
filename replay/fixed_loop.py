"""Event loops on the clock of the replay: what waits for a time only does not wait.

A loop that has nothing to do before its next timer moves the clock there. So ``asyncio.sleep``,
``wait_for`` and ``timeout`` keep their order and cost no time. What waits for another thread still
waits for it: work in an executor may take as long as the timer says.

Here too waits what is to be cancelled and never is: it waits as long as it was told to, and in a
loop that has nothing else to do no longer. Only the time counts in which the loop had to wait. That
is real time while another thread may act, and be the one that cancels it.

Loops that are not of ``asyncio`` (uvloop) keep their own time.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from asyncio import base_events, selector_events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from replay import threads
from tracekit.conditions import Conditions

_SECOND_NS = 1_000_000_000
_GRACE_S = 0.02
"""How long other threads, which may be about to call, are given before the clock is moved."""
_ALLOWANCE_S = 1.0
"""How much longer than recorded a thread at work may take, which shares a processor here."""
_PENDING = "_tracekit_pending"
_BUSY_TURNS = 1_000
"""A loop that does nothing but turn this often takes time from then on, as it would."""
_TURN_S = 0.001

waiting: dict[asyncio.Task[Any], bool] = {}
"""The tasks that wait to be cancelled, and whether they may be left so."""


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


@dataclass(frozen=True, slots=True)
class Patience:
    """How what is to be cancelled waits for it."""

    seconds: float
    may_be_left: bool
    """Whether who began it may go away before it is cancelled."""
    cut_off: bool
    """Whether, when its time is over, all that the loop was started for is cancelled."""


async def wait_to_be_cancelled(patience: Patience) -> None:
    """Wait until this task is cancelled; come back where that has not come about in time."""
    await _wait(patience)
    if patience.cut_off and _cancel_whole(asyncio.get_running_loop()):
        await _wait(patience)


def _cancel_whole(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel what ``loop`` runs until it is complete; whether there was such a task."""
    until: Any = base_events._run_until_complete_cb  # type: ignore[attr-defined]  # marks that task
    for task in asyncio.all_tasks(loop):
        callbacks: Any = task._callbacks
        if any(callback is until for callback, _ in callbacks or ()):
            return task.cancel()
    return False


async def _wait(patience: Patience) -> None:
    loop, here = asyncio.get_running_loop(), asyncio.current_task()
    over: asyncio.Future[None] = loop.create_future()
    selector = getattr(loop, "_selector", None)
    with ExitStack() as after:
        if here is not None:
            waiting[here] = patience.may_be_left
            after.callback(waiting.pop, here)
        if isinstance(selector, _Selector):
            after.enter_context(selector.patient(over, patience.seconds))
        else:
            after.callback(loop.call_later(patience.seconds, _resolve, over).cancel)
        await over


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


class _Selector:
    """Waits for events as the selector of a loop does, and moves the clock where only time is."""

    def __init__(self, real: Any, loop: Any, held: Ask) -> None:
        self._real = real
        self._loop = loop
        self._held = held
        self._waits: dict[asyncio.Future[None], float] = {}
        self._turns = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @contextmanager
    def patient(self, over: asyncio.Future[None], seconds: float) -> Iterator[None]:
        """Let ``over`` be done once the loop has waited for so long, or can only wait for that."""
        self._waits[over] = seconds
        try:
            yield
        finally:
            del self._waits[over]

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready; at the latest when the clock is ``timeout`` further."""
        if self._waits:
            return self._select_patiently(timeout)
        if timeout is not None and timeout <= 0:
            return list(self._real.select(timeout))
        found = self._held()
        real = timeout if found is None or timeout is None else self._patience(timeout)
        with threads.waiting(timeout):
            events: list[Any] = list(self._real.select(real))
        if found is None or timeout is None:
            return events
        if not events:
            found.conditions.advance(math.ceil(timeout * _SECOND_NS) + 1)
        return events

    def _select_patiently(self, timeout: float | None) -> list[Any]:
        """As ``select``, and end the waits whose time is over."""
        found, least = self._held(), max(0.0, min(self._waits.values()))
        turns = timeout is not None and timeout <= 0
        wait = 0.0 if turns else least if timeout is None else min(least, timeout)
        before = self._loop.time()
        ours = found is not None or timeout is None
        with threads.waiting(wait):
            events = self._await_threads(wait) if ours else list(self._real.select(wait))
        self._turns = self._turns + 1 if turns and not events else 0
        passed = self._loop.time() - before
        if found is None and timeout is not None:
            self._pass(passed)
        elif not events and (not turns or self._turns > _BUSY_TURNS):
            lasted = wait or _TURN_S
            if found is not None and timeout is not None and passed < lasted:
                found.conditions.advance(math.ceil((lasted - passed) * _SECOND_NS) + 1)
            self._pass(lasted)
        return events

    def _await_threads(self, wait: float) -> list[Any]:
        """Wait in earnest while another thread may act first; return what is ready then."""
        began = time.monotonic()
        events: list[Any] = self._real.select(self._patience(wait))
        spent = time.monotonic() - began
        while not events and wait and spent < wait + _ALLOWANCE_S:
            if not threads.others_may_act(in_s=wait - spent):
                break
            events = self._real.select(_GRACE_S)
            spent = time.monotonic() - began
        if events:  # may be what cancels, so that no wait ends with it
            self._waits = {over: left - spent for over, left in self._waits.items()}
        return list(events)

    def _pass(self, seconds: float) -> None:
        """Let so much have passed of the time of all waits."""
        for over, left in self._waits.items():
            self._waits[over] = left - seconds
            if left <= seconds:
                _resolve(over)

    def _patience(self, timeout: float) -> float:
        if getattr(self._loop, _PENDING, None):
            return timeout
        return min(timeout, _GRACE_S) if threading.active_count() > 1 else 0
