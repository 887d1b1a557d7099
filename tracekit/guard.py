"""The gate in front of every call, and the hook through which a replay answers calls.

The hook belongs to the process, not to a context: a call from a raw thread, an executor, another
event loop or a callback meets it like any other. While a hook is installed no decorated body is
entered unless the hook says so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from tracekit.canonical.encoding import NOTHING_MORE
from tracekit.canonical.plain import Plain
from tracekit.contract import Contract
from tracekit.errors import NotRecorded, ReplayInProgress, WriteBlocked
from tracekit.events import Blob
from tracekit.recorder import Operation
from tracekit.sink import Sink


@dataclass(frozen=True, slots=True)
class Untold:
    """The begin of a call that is not recorded yet: whoever answers the call records it."""

    at_ns: int
    argument: Plain
    """The arguments as JSON, plain and without a secret."""
    contract: Blob


@dataclass(frozen=True, slots=True)
class Question:
    """A call that is about to happen."""

    operation: Operation
    contract: Contract | None
    """Of a tool or retrieval; None for a model call."""
    arguments: dict[str, object]
    stream: bool = False
    """Whether the caller will iterate over the answer."""
    untold: Untold | None = None
    """None where the begin is recorded."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Run the body."""


@dataclass(frozen=True, slots=True)
class Served:
    """Return ``value`` instead of running the body."""

    value: Any
    fields: dict[str, Any]
    """Columns that the record of the call gets: rung, tainted."""
    told: bool = False
    """Whether whoever answered has recorded the end of the call too."""


@dataclass(frozen=True, slots=True)
class Part:
    """A reply of a model whose recorded reader went away before its end, as far as it was read."""

    value: Any
    pieces: int
    """In how many pieces it came; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Raise ``error`` instead of running the body."""

    error: BaseException
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Withheld(Raised):
    """Give no answer until the caller cancels the call; where nobody can, raise ``error``."""

    wait: Callable[[], Awaitable[Outcome]]
    """Waits to be cancelled; gives what becomes of the call where nothing cancels it."""


Outcome = Execute | Served | Raised
EXECUTE = Execute()


class Answerer(Protocol):
    """Decides what happens to a call. It must answer or raise; it never lets a write through."""

    def answer(self, question: Question) -> Outcome:
        """Decide about ``question``."""


REFUSED = "tracekit.guard.refused"
"""Audit event: a write was refused where nothing answers; with the name of the tool."""
_installed: Answerer | None = None
_installing = threading.Lock()
_closed = False


def installed() -> bool:
    """Whether no call of this process is simply run: a replay answers, or the gate is closed."""
    return _closed or _installed is not None


def close() -> None:
    """From now on run no call of this process, inside a replay or outside; there is no way back."""
    global _closed  # the guard is a mode of the whole process
    _closed = True


def told_by() -> Sink | None:
    """The sink for which whoever answers records calls by itself, if told of them so."""
    return getattr(_installed, "sink", None)


def decide(question: Question) -> Outcome:
    """What happens to a call: run it, or what to answer instead.

    Raises:
        WriteBlocked: the gate is closed, and nothing answers.
    """
    answerer = _installed
    if answerer is not None:
        return answerer.answer(question)
    if _closed:
        effect = question.contract.effect if question.contract else "unknown"
        if question.contract is not None and question.contract.writes:
            sys.audit(REFUSED, question.operation.actor)  # nobody else could tell of it
        raise WriteBlocked(question.operation.actor, effect, reason="no replay is under way")
    return EXECUTE


def read_on(reason: str = NOTHING_MORE, *, asks_of: str | None = None) -> NoReturn:
    """End the replay: a reader goes on as the recorded one did not, and nobody knows the rest.

    Args:
        reason: Why it ends.
        asks_of: Span of the call of which this asks what the record certainly does not hold.

    Raises:
        NotRecorded: nothing answers that could end it.
    """
    halt = getattr(_installed, "halt", None)
    if halt is not None:
        halt(reason, asks_of=asks_of)
    raise NotRecorded(reason)


@contextmanager
def answering(answerer: Answerer) -> Iterator[None]:
    """Let ``answerer`` decide about every call of this process.

    Raises:
        ReplayInProgress: another one already does.
    """
    install(answerer)
    try:
        yield
    finally:
        uninstall()


def install(answerer: Answerer) -> None:
    """Let ``answerer`` decide about every call until ``uninstall``.

    Raises:
        ReplayInProgress: another one already does.
    """
    global _installed  # the guard is a mode of the whole process
    with _installing:
        if _installed is not None:
            raise ReplayInProgress(
                "a replay is already running in this process",
                hint="wait for it, or give the planner as MOD:OBJ so that it runs in a child",
            )
        _installed = answerer


def uninstall() -> None:
    """Let calls run for real again, unless the gate is closed."""
    global _installed  # the guard is a mode of the whole process
    with _installing:
        _installed = None
