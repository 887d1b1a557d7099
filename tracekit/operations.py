"""What is under way, and where: the tree of operations that new ones find their parents in.

It lives in a context variable, so that each task and each thread keeps its own place.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Literal

from tracekit import conditions, otel
from tracekit.canonical import text_of
from tracekit.canonical.classes import name_class
from tracekit.conversations import Conversations
from tracekit.interruption import pass_on, warn, warn_once
from tracekit.redact import Scope

_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
Kind = Literal["run", "agent", "llm_call", "tool_call", "retrieval", "span"]
_process = os.getpid()


def _after_fork() -> None:
    global _process  # a fact about this process
    _process = os.getpid()


os.register_at_fork(after_in_child=_after_fork)


def this_process() -> int:
    """The number of this process, without asking the system at each call."""
    return _process


@dataclass(slots=True, eq=False)
class RunScope:
    """One run under way: its ids, and the values handed out in it."""

    run_id: str
    trace_id: str
    mints: conditions.MintScope = field(default_factory=conditions.MintScope)
    secrets: Scope = field(default_factory=Scope)
    """Secrets met in fields of this run, so that they are known in its free text too."""
    prompts: Conversations = field(default_factory=Conversations)
    """What was said to models in it, so that a prompt is kept as what it adds to an earlier one."""
    kept_bytes: int = 0
    """Bytes of its values that are kept."""
    not_kept: int = 0
    """Values of it that are kept as digests only, since a limit was reached."""
    over: bool = False
    called_by: str | None = None
    """The run that called this one from another process, where that is known."""
    called_from: str | None = None
    """The span outside this process that a bare call stands under."""


@dataclass(slots=True, eq=False)
class Operation:
    """An operation under way."""

    kind: Kind
    actor: str
    run: RunScope
    span_id: str
    parent: Operation | None
    span: otel.OpenSpan
    over: bool = False
    process: int = field(default_factory=this_process)
    """Which process began it; a forked copy of it never ends it."""
    between: str | None = None
    """The span of another library that it runs in, where that is an event of the run, too."""
    work: deque[Callable[[], bool]] | None = None
    """Of the work that it handed on, whether each is over; None where nobody asked for that."""

    def hand_on(self, is_over: Callable[[], bool]) -> None:
        """Take note of work that is handed on, where somebody asked for that.

        Two that stand there longest are asked each time, so that what is kept does not outgrow
        what goes on.
        """
        if self.work is not None:
            self.work.append(is_over)
            for _ in range(2):
                if not _forget_first(self.work):
                    self.work.rotate(-1)

    @property
    def at_work(self) -> bool:
        """Whether work that it handed on is not over."""
        while self.work:
            if not _forget_first(self.work):
                return True
        return False

    @property
    def parent_span_id(self) -> str | None:
        """What is around it, where that belongs to the same run."""
        if self.between is not None:
            return self.between
        if self.parent is None:
            return self.run.called_from
        return self.parent.span_id if self.parent.run is self.run else None

    @property
    def parent_run_id(self) -> str | None:
        """Of a run: the one that called it."""
        return self.parent.run.run_id if self.parent else self.run.called_by


def _forget_first(work: deque[Callable[[], bool]]) -> bool:
    """Leave out what stands first if that is over; whether it was."""
    with suppress(IndexError, ValueError):  # another thread was quicker
        is_over = work[0]
        if not is_over():
            return False
        work.remove(is_over)
    return True


_current: ContextVar[Operation | None] = ContextVar("tracekit_operation", default=None)


current: Callable[[], Operation | None] = _current.get
"""The operation under way in this context, if any."""
enter: Callable[[Operation], Token[Operation | None]] = _current.set
"""Make an operation current in this context until ``leave``."""


@contextmanager
def nothing_under_way() -> Iterator[None]:
    """Let what begins inside inherit no place: a pool's workers serve whoever comes."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def as_tags(tags: object) -> tuple[str, ...]:
    """Read what a program gives as tags: a text alone is one tag, as is whatever is no list."""
    try:
        if isinstance(tags, Iterable) and not isinstance(tags, (str, bytes)):
            return tuple(map(text_of, tags))
    except BaseException as error:  # noqa: BLE001  # whatever reading it raises is the program's
        pass_on(error)
    return (text_of(tags),)


def as_versions(versions: object) -> dict[str, str]:
    """Read what a program gives as the versions of a run; what is no mapping names none."""
    if versions is None:
        return {}
    try:
        if isinstance(versions, Mapping):
            return {text_of(part): text_of(said) for part, said in versions.items()}
    except BaseException as error:  # noqa: BLE001  # whatever reading it raises is the program's
        pass_on(error)
    given = name_class(type(versions)).rpartition(":")[2]
    warn_once(
        f"versions of a run are a dict of texts and no {given}: it gets those of configure alone"
    )
    return {}


def new_run(kind: Kind, parent: Operation | None, run_id: str | None) -> RunScope:
    """Open the run of an operation that has none to stand in; its trace may be unknown yet.

    A run stands beneath the one that called, here or from another process. A bare call of another
    process's run belongs to that run.

    Args:
        kind: Kind of the operation.
        parent: What it was called from in this process.
        run_id: Chosen by the program.
    """
    chosen = run_id = None if run_id is None else text_of(run_id)
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        warn("a run id is 1 to 128 of A-Za-z0-9._-, so this run gets one of its own")
        chosen = None
    if parent is not None:
        return RunScope(chosen or conditions.new_run_id(), parent.run.trace_id)
    caller = otel.caller()
    if caller is None:
        return RunScope(chosen or conditions.new_run_id(), "")
    # Where other people's spans are recorded, those outside any run have one named by their trace.
    joined = caller.run_id or (caller.trace_id if otel.watching() else None)
    if kind == "run" or joined is None:
        made = chosen or conditions.new_run_id()
        return RunScope(made, caller.trace_id, called_by=caller.run_id)
    return RunScope(joined, caller.trace_id, called_from=caller.span_id)


def leave(token: Token[Operation | None]) -> bool:
    """Undo the ``enter`` that gave ``token``; whether this is still the same context."""
    try:
        _current.reset(token)
    except ValueError:
        return False
    return True


class active:  # noqa: N801  # reads as the statement that it opens
    """Make ``operation`` the parent of whatever begins inside.

    A block that is left in another context than it was entered in (a generator closed by the
    garbage collector, a coroutine driven by hand) leaves that other context as it is.
    """

    __slots__ = ("_minting", "_operation", "_span", "_token")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        operation = self._operation
        self._token: Token[Operation | None] = _current.set(operation)
        self._minting = conditions.enter_minting(operation.run.mints)
        self._span = operation.span.attach()

    def __exit__(self, *_error: object) -> None:
        try:
            _current.reset(self._token)
        except ValueError:
            return
        conditions.leave_minting(self._minting)
        self._operation.span.detach(self._span)
