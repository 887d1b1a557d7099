"""What could not be recorded, until it can be told: how much, where, and why.

One outage is one loss event. Its place among the facts of this process is taken when it begins, so
that the event is the same one wherever it comes to stand, and counts once. On a full disk what is
small may still find room, and then the next outage begins at once: to who reads the log all of them
are one.
"""

from __future__ import annotations

import os
import sys
import weakref
from dataclasses import dataclass
from typing import Protocol

from tracekit import conditions
from tracekit.errors import UsageError
from tracekit.events import LossNoted
from tracekit.interruption import pass_on
from tracekit.operations import Operation
from tracekit.sink import Sink

NOT_THE_SYSTEM = "no_fault_of_the_system"
"""Attribute of a loss for which neither room nor who writes to the disk is to blame."""
_QUIET_NS = 60 * 10**9
"""So long nothing must have been lost before the log is told anew."""
_LAST = -1000
"""After whatever else a child of ``multiprocessing`` does when it leaves."""


@dataclass
class Outage:
    """A time in which events are lost."""

    where: Operation | None = None
    why: str = "they could not be recorded when they happened"
    of_the_system: bool = True
    _begun: LossNoted | None = None
    _said: str | None = None
    """What the log was told last."""
    _lost_at_ns: int = 0

    def following(self) -> Outage:
        """Begin another one, of which the log may know already."""
        return Outage(_said=self._said, _lost_at_ns=self._lost_at_ns)

    def is_news(self, what: str) -> bool:
        """Whether the log does not know of it: another fault, or the first one after a while."""
        now = conditions.monotonic_ns()
        news = what != self._said or now - self._lost_at_ns >= _QUIET_NS
        self._said, self._lost_at_ns = what, now
        return news

    def blame(self, error: Exception, operation: Operation | None) -> str:
        """Take note of a fault and of where it was; the run of the first one is told of all."""
        self.where = self.where or operation
        if isinstance(error, UsageError):  # what the program said is nothing that can be recorded
            what = self.why = str(error)
        else:
            what = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            self.why = f"they could not be recorded when they happened ({what})"
        self.of_the_system = isinstance(error, OSError)
        return what

    def fact(self, count: int, sink: Sink) -> LossNoted | None:
        """The event that tells of it; None where no run is known."""
        if self.where is None:
            return None
        if self._begun is None:
            writer, seq = sink.stamp()
            self._begun = LossNoted(
                writer=writer,
                seq=seq,
                timestamp_ns=conditions.now_ns(),
                run_id=self.where.run.run_id,
                trace_id=self.where.run.trace_id,
                span_id=conditions.new_span_id(),
                count=count,
                reason=self.why,
            )
        marks = {} if self.of_the_system else {NOT_THE_SYSTEM: True}
        told = {"count": count, "reason": self.why, "attributes": marks}
        return self._begun.model_copy(update=told)

    def tell(self, count: int, sink: Sink) -> bool:
        """Write that so many events were lost; whether that was possible."""
        try:
            fact = self.fact(count, sink)
            if fact is not None:
                sink.write(fact, [])
        except Exception as error:  # noqa: BLE001  # still not: the next try tells
            pass_on(error)
            return False
        return fact is not None

    def remember(self, count: int, sink: Sink) -> None:
        """Leave a trace of it where ``sink`` has room for one, whatever becomes of this process."""
        remember = getattr(sink, "remember_loss", None)
        if remember is None:
            return
        try:
            fact = self.fact(count, sink)
            if fact is not None:
                remember(fact)
        except Exception as error:  # noqa: BLE001  # no room at all: it is still counted here
            pass_on(error)


class _Loser(Protocol):
    def write_loss(self) -> None: ...


_leaving: weakref.WeakSet[_Loser] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leaving.clear)


def tell_when_leaving(loser: _Loser) -> None:
    """See to it that a child of ``multiprocessing`` tells, too: it leaves without ``atexit``."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is None or util is None or loser in _leaving:
        return
    if process.parent_process() is not None:
        _leaving.add(loser)
        util.Finalize(None, loser.write_loss, exitpriority=_LAST)
