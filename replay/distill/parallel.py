"""Questions asked ahead of time on several workers, so that a reduction waits less.

What is asked ahead is a guess at what the search will ask; its answers are taken only when it does,
so that the result and the count are those of one worker, and what nobody wanted is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Workers that each answer one question at a time.

    Args:
        askers: One for each worker; an asker is never called by two threads at once.
    """

    def __init__(self, askers: Sequence[Callable[[T], bool]]) -> None:
        self.workers = len(askers)
        self._idle: SimpleQueue[Callable[[T], bool]] = SimpleQueue()
        for asker in askers:
            self._idle.put(asker)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="distill")
        self._begun: dict[Hashable, Future[bool]] = {}

    @property
    def free(self) -> bool:
        """Whether a worker has nothing to do."""
        return sum(not future.done() for future in self._begun.values()) < self.workers

    @property
    def unused(self) -> int:
        """How many questions were asked whose answers were not wanted yet."""
        return len(self._begun)

    def start(self, key: Hashable, candidate: T) -> None:
        """Begin to answer a question, if it is not begun yet."""
        if key not in self._begun:
            self._begun[key] = self._pool.submit(self._answer, candidate)

    def answer(self, key: Hashable, candidate: T) -> bool:
        """Give the answer, begun already or not."""
        self.start(key, candidate)
        return self._begun.pop(key).result()

    def close(self) -> None:
        """End the workers, once they have answered what they were at."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, candidate: T) -> bool:
        asker = self._idle.get()
        try:
            return asker(candidate)
        finally:
            self._idle.put(asker)
