"""What a planner's process gets in place of what processes share: its own, kept in no file.

`multiprocessing` keeps its locks and its shared values in files below ``/dev/shm``, which no wall
lets through. Neither the process that holds the planner nor that of a run ever shares one with
another process, so threads are all that these have to serve, and a run changes its copy alone.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import Any

_RECURSIVE = 0
_NAMES = "/mp-"
"""How `multiprocessing` begins the names that it makes up, and tells to its children alone."""


class Semaphore:
    """The interface of ``_multiprocessing.SemLock``, for the threads of one process."""

    def __init__(self, kind: int, value: int, maxvalue: int, *_name: object, **__: object) -> None:
        self.kind = kind
        self.maxvalue = maxvalue
        self.name: str | None = None
        """None, as of every semaphore whose name is gone: nothing has to be cleaned up."""
        self.handle = id(self)
        self._value = value
        self._changed = threading.Condition(threading.Lock())
        self._held = 0
        self._holder: int | None = None

    def acquire(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # callers of the real one name it or not
        timeout: float | None = None,
    ) -> bool:
        """Take it; False if it is not free in time."""
        if self.kind == _RECURSIVE and self._is_mine():
            self._held += 1
            return True
        if not block:
            timeout = 0
        elif timeout is not None:
            timeout = max(timeout, 0)
        with self._changed:
            if not self._changed.wait_for(lambda: self._value > 0, timeout):
                return False
            self._value -= 1
            self._held += 1
            self._holder = threading.get_ident()
        return True

    def release(self) -> None:
        """Give it back.

        Raises:
            AssertionError: it is recursive, and another thread's or nobody's.
            ValueError: it was given back more often than it can be taken.
        """
        if self.kind == _RECURSIVE:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._held > 1:
                self._held -= 1
                return
        with self._changed:
            if self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._held -= 1
            self._value += 1
            self._changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._held

    def _is_mine(self) -> bool:
        return self._held > 0 and self._holder == threading.get_ident()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        self._held = 0


class Arena:
    """The interface of ``multiprocessing.heap.Arena``: memory for values of `multiprocessing`."""

    def __init__(self, size: int, fd: int = -1) -> None:
        self.size = size
        self.fd = fd
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a fork has a copy, as of any variable
        self.buffer = mmap.mmap(-1, size, flags=private)


STAND_INS: dict[str, Callable[..., Any]] = {
    "_multiprocessing.SemLock": Semaphore,
    "multiprocessing.heap.Arena": Arena,
}
"""By the class that stands there otherwise."""


def made_up(name: object) -> bool:
    """Tell whether `multiprocessing` made a semaphore's name up, so that nobody else knows it."""
    return isinstance(name, str) and name.startswith(_NAMES)
