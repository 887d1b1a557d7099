"""Questions asked ahead of time on several workers, so that a reduction waits less.

What is asked ahead is a guess at what the search will ask; its answers are taken only when it does,
so that the result and the count are those of one worker, and what nobody wanted is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
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
    def unused(self) -> int:
        """How many questions were asked whose answers were not wanted yet."""
        return len(self._begun)

    def plan(self, questions: Mapping[Hashable, T]) -> None:
        """Answer these as workers get free, in order; what waits from before need not be."""
        for key, future in list(self._begun.items()):
            if key not in questions and future.cancel():
                del self._begun[key]
        for key, candidate in questions.items():
            self._start(key, candidate)

    def known(self, key: Hashable) -> bool | None:
        """The answer, where it is there already."""
        future = self._begun.get(key)
        if future is None or not future.done() or future.cancelled() or future.exception():
            return None
        return future.result()

    def answer(self, key: Hashable, candidate: T) -> bool:
        """Give the answer, begun already or not."""
        self._start(key, candidate)
        return self._begun.pop(key).result()

    def _start(self, key: Hashable, candidate: T) -> None:
        if key not in self._begun:
            self._begun[key] = self._pool.submit(self._answer, candidate)

    def close(self) -> None:
        """End the workers, once they have answered what they were at."""
        self.plan({})
        self._pool.shutdown(wait=True)

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
