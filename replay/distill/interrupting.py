"""Interruptions of a distillation: what is done is kept, at whatever moment they come.

While candidates are tried an interruption ends the search. Once there is a best one, what is left
takes as long as a few runs, and is finished first: the first request is only noted, a second one
ends it. A request to terminate, as of ``timeout`` or of a build that is stopped, is an interruption
too; and the key that interrupts may reach the planner's processes before this one hears of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal, TypeVar

from replay.distill.outcome import TERMINATED
from tracekit import conditions
from tracekit.errors import DistillError

T = TypeVar("T")
INTERRUPTED = "it was interrupted"
_FROM_OUTSIDE = (signal.SIGINT, signal.SIGTERM)
_TWICE_NS = 10**9
"""`timeout` asks the process and its group: within that time it is one request."""


class Heard:
    """What came from outside, if anything did."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._way: Literal["search", "proof", "writing"] = "proof"
        self._when = 0

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Let an interruption end what is done."""
        self._way = "search"
        try:
            yield
        finally:
            self._way = "proof"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let no interruption end what takes a moment, and must be whole."""
        self._way = "writing"
        yield

    def finished(self, work: Callable[[], T]) -> T:
        """Do what is left; once more, where an interruption may be what went wrong with it."""
        before = self.name
        try:
            return work()
        except DistillError:
            if self.name == before:
                raise
            return work()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        now, first = conditions.monotonic_ns(), self.name is None
        if number == signal.SIGTERM and self.name == TERMINATED and now - self._when < _TWICE_NS:
            return
        self._when = now
        self.name = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        if self._way == "search" or (self._way == "proof" and not first):
            raise KeyboardInterrupt


@contextmanager
def hearing() -> Iterator[Heard]:
    """Hear of interruptions; elsewhere than in the main thread nobody can."""
    heard = Heard()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    before = {number: signal.signal(number, heard.interrupt) for number in _FROM_OUTSIDE}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
