"""What the other threads of a planner are at: idle, waiting (and until when), or at work.

The one idea: a thread that waits without a limit does nothing by itself, one that waits for a time
does nothing before that, and any other may act at any moment. Threads of libraries that never end
by themselves are not the planner's doing; only those that have code of the planner's on their stack
count.
"""

from __future__ import annotations

import concurrent.futures.thread as pools
import math
import os
import selectors
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

_LIBRARIES = tuple(
    {
        os.path.join(os.path.realpath(folder), "")
        for name, folder in sysconfig.get_paths().items()
        if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    | {
        os.path.join(Path(__file__).resolve().parents[1], package, "")
        for package in ("replay", "tracekit")
    }
)
_WAITS_IN = frozenset((threading.__file__, selectors.__file__))
_until: dict[int, float] = {}
"""By thread: until when it waits at most; its own clock is the real one."""


@contextmanager
def waiting(seconds: float | None) -> Iterator[None]:
    """Have it known that this thread does nothing for so long, or until it is woken."""
    here = threading.get_ident()
    _until[here] = math.inf if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _until.pop(here, None)


def others_may_act(*, in_s: float) -> bool:
    """Whether another thread is at work, or is to go on by itself before ``in_s`` seconds."""
    here, until = threading.get_ident(), time.monotonic() + in_s
    frames = sys._current_frames()
    return any(
        thread.ident != here
        and _counts(thread, frames.get(thread.ident or 0))
        and _acts_before(until, thread.ident or 0, frames.get(thread.ident or 0))
        for thread in threading.enumerate()
    )


def _counts(thread: threading.Thread, frame: FrameType | None) -> bool:
    if is_idle(thread):
        return False
    return not thread.daemon or isinstance(thread, threading.Timer) or runs_own_code(frame)


def _acts_before(until: float, ident: int, frame: FrameType | None) -> bool:
    waits_until = _until.get(ident)
    if waits_until is not None:
        return waits_until < until
    if frame is None or frame.f_code.co_filename not in _WAITS_IN:
        return True
    return frame.f_locals.get("timeout", 0) not in (None, -1)


def is_idle(thread: threading.Thread) -> bool:
    """Whether a thread belongs to a pool and waits for work."""
    work = pools._threads_queues.get(thread)
    if work is None or not work.empty():
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is pools._worker.__code__


def runs_own_code(frame: FrameType | None) -> bool:
    """Whether code that is no library's has led to ``frame``."""
    while frame is not None:
        if is_own(frame.f_code):
            return True
        frame = frame.f_back
    return False


def is_own(code: CodeType) -> bool:
    """Whether this is no library's code."""
    name = code.co_filename
    return not name.startswith(("<frozen", *_LIBRARIES))
