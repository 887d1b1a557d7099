"""When the body of a call runs: what it changes of its object is not taken for the agent's.

A generator runs from item to item, and a coroutine from wait to wait: what changes meanwhile, the
agent's code changed. But a coroutine may wait for what it began itself, in tasks and threads. While
such work is not over, or may go on unseen (an event loop that is not Python's), the body runs on.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Awaitable, Generator
from contextlib import AbstractContextManager
from typing import Any

from tracekit import carrying
from tracekit.jsontree import pointer
from tracekit.operations import Operation, current
from tracekit.receivers import Placed
from tracekit.telling import Body
from tracekit.wrap import Step


def watched(step: Step, met: list[Placed]) -> Step:
    """Give the step of a call, which takes note of what its body changes."""
    return step if step.answered or not met else Watched(step, met)


class Watched:
    """A step whose body may change whose calls the next ones are; see ``wrap.Step``."""

    __slots__ = ("_changed", "_met", "_resumed", "_running", "_step")
    answered = False

    def __init__(self, step: Step, met: list[Placed]) -> None:
        self._step, self._met = step, met
        self._changed: set[str] = set()
        self._resumed = False
        self._running: weakref.ref[_Running] | None = None

    async def wait(self) -> None:
        """Nothing passes: there is no answer."""

    def answer(self) -> Any:
        """There is none."""
        raise AssertionError("only an answered step has an answer")

    def active(self) -> AbstractContextManager[None]:
        """Make the step the parent of what runs inside, which is its body."""
        if self._resumed:  # what has changed since the last item, the agent's code changed
            for _, one in self._met:
                one.look()
        self._resumed = True
        running = _Running(self._step.active(), self._met, self._changed)
        self._running = weakref.ref(running)
        return running

    def awaited(self, waiting: Awaitable[Any]) -> Awaitable[Any]:
        """Await the body from wait to wait, where what it hands on is seen."""
        running = None if self._running is None else self._running()
        if running is None or type(waiting) not in _DRIVEN or not running.follow():
            return waiting
        return _from_wait_to_wait(waiting, running)

    def item(self, value: object) -> None:
        """A generator yielded ``value``."""
        self._step.item(value)

    def sent(self, value: object) -> None:
        """The reader of a generator sent or threw ``value`` in."""
        self._step.sent(value)

    def compare_sent(self, recorded: object, position: int, value: object) -> None:
        """There is nothing to compare with: the body runs."""

    def body_changed(self, places: set[str]) -> None:
        """It is seen here, and told when the body is over."""

    def end(self, value: object) -> None:
        """The body returned ``value``."""
        self._step.body_changed(self._changed)
        self._step.end(value)

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """A generator ended, or its reader went away before."""
        self._step.body_changed(self._changed)
        self._step.end_stream(complete=complete, returned=returned)

    def fail(self, error: BaseException) -> None:
        """The body raised ``error``."""
        self._step.body_changed(self._changed)
        self._step.fail(error)


class _Running(Body):
    """The time in which a body runs: all of a call, or up to the next item of a generator.

    Held by the ``with`` statement, and by what is awaited in it, so that it ends with them whatever
    comes up in between.
    """

    __slots__ = ("_changed", "_inner", "_met", "_operation", "_waits")

    def __init__(
        self, inner: AbstractContextManager[None], met: list[Placed], changed: set[str]
    ) -> None:
        super().__init__()
        self._inner, self._met, self._changed = inner, met, changed
        self._operation: Operation | None = None
        self._waits = False

    def _leave(self) -> None:
        for place, one in self._met:
            for name in one.leave(self):  # a variable itself has none
                self._changed.add(pointer((*place, name) if name else place))

    def __enter__(self) -> None:
        for _, one in self._met:
            one.enter(self)
        self._inner.__enter__()
        self._operation = current()

    def follow(self) -> bool:
        """See what the body hands on; whether that is possible."""
        return self._operation is not None and carrying.follow(self._operation)

    def wait(self) -> None:
        """Take note that the body waits; for its own work it does not wait, but runs on."""
        if self._operation is None or self._operation.at_work:
            return
        self._waits = True
        self._leave()

    def go_on(self) -> None:
        """Take note that the body runs again; what has changed meanwhile, the agent changed."""
        if not self._waits:
            return
        self._waits = False
        for _, one in self._met:
            one.look()
            one.enter(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: types.TracebackType | None,
    ) -> None:
        try:
            self._inner.__exit__(kind, error, place)
        finally:
            self._leave()


async def _items() -> Any:
    yield


_item = _items().asend(None)
_item.close()
_DRIVEN = (types.CoroutineType, type(_item))
"""What is awaited by sending to it: a coroutine, and the next item of an async generator."""


@types.coroutine
def _from_wait_to_wait(body: Any, running: _Running) -> Generator[Any, Any, Any]:
    """Do what ``await body`` does, and tell ``running`` when it waits."""
    sent, thrown = None, None
    while True:
        try:
            if isinstance(thrown, GeneratorExit):
                body.close()
                raise thrown
            given = body.send(sent) if thrown is None else body.throw(thrown)
        except StopIteration as stop:
            return stop.value
        finally:  # an error must not lead to itself through this frame
            sent, thrown = None, None
        running.wait()
        try:
            sent = yield given
        except BaseException as error:  # noqa: BLE001  # handed on to the body
            thrown = error
        running.go_on()
