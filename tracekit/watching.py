"""When the body of a call runs: what it changes of its object is not taken for the agent's."""

from __future__ import annotations

import types
from contextlib import AbstractContextManager
from typing import Any

from tracekit.telling import Body, Met
from tracekit.wrap import Step


def watched(step: Step, met: list[Met]) -> Step:
    """Give the step of a call, which takes note of what its body changes."""
    return step if step.answered or not met else Watched(step, met)


class Watched:
    """A step whose body may change whose calls the next ones are; see ``wrap.Step``."""

    __slots__ = ("_met", "_resumed", "_step")
    answered = False

    def __init__(self, step: Step, met: list[Met]) -> None:
        self._step, self._met = step, met
        self._resumed = False

    def answer(self) -> Any:
        """There is none."""
        raise AssertionError("only an answered step has an answer")

    def active(self) -> AbstractContextManager[None]:
        """Make the step the parent of what runs inside, which is its body."""
        if self._resumed:  # what has changed since the last item, the agent's code changed
            for one in self._met:
                one.look()
        self._resumed = True
        return _Running(self._step.active(), self._met)

    def item(self, value: object) -> None:
        """A generator yielded ``value``."""
        self._step.item(value)

    def end(self, value: object) -> None:
        """The body returned ``value``."""
        self._step.end(value)

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """A generator ended, or its reader went away before."""
        self._step.end_stream(complete=complete, returned=returned)

    def fail(self, error: BaseException) -> None:
        """The body raised ``error``."""
        self._step.fail(error)


class _Running(Body):
    """The time in which a body runs: all of a call, or up to the next item of a generator.

    Held by the ``with`` statement alone, so that it ends with it whatever comes up in between.
    """

    __slots__ = ("_inner", "_met")

    def __init__(self, inner: AbstractContextManager[None], met: list[Met]) -> None:
        super().__init__()
        self._inner, self._met = inner, met

    def __enter__(self) -> None:
        for one in self._met:
            one.enter(self)
        self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: types.TracebackType | None,
    ) -> None:
        try:
            self._inner.__exit__(kind, error, place)
        finally:
            for one in self._met:
                one.leave(self)
