"""Calls begun and ended become facts.

The recorder knows what is under way (a context variable, so that tasks keep their own parents) and
writes one fact at each begin and each end, redacted, before the caller goes on. A fault of its own
never reaches agent code: it is counted, logged once, and becomes a loss event as soon as one can be
written. ``strict`` turns this round for replays: a begin or an end that cannot be told is raised,
as no call may go unseen; what functions of the agent raise around a call is counted there, too.

Its locks are reentrant: the garbage collector may close a half-read generator, and a signal handler
may call a tool, in the middle of anything here.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracekit import conditions, otel
from tracekit.canonical import text_of
from tracekit.declaring import kept_contract
from tracekit.drafts import Draft, draft
from tracekit.events import (
    Blob,
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    MessageNoted,
    MintNoted,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
    StateNoted,
)
from tracekit.interruption import pass_on, warn
from tracekit.keeping import Keeper, Kept, put_what_fits
from tracekit.losses import Outage, tell_when_leaving
from tracekit.operations import Kind, Operation, RunScope, active, current, new_run, this_process
from tracekit.redact import Redactor, Scope
from tracekit.sink import Sink, ground_of

__all__ = ["Kept", "Kind", "Operation", "Recorder", "RunScope", "active", "current"]

_SAID_BY_USERS = frozenset(
    ("task_id", "request_id", "tenant", "operator", "tags", "idempotency_key", "error_message",
     "policy_id", "reason", "evidence_ids", "versions")
)  # fmt: skip
"""Columns whose text comes from outside, so that it is redacted like any value."""

_NOT_BEGUN = "its begin could not be recorded"
_NOT_KEPT = "its arguments could not be recorded"
_TOO_LARGE = "its arguments are larger than a file may be here"

Append = Callable[[bytes, int, Sequence[Blob]], None]
_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.after_fork()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(eq=False)
class Recorder:
    """Writes the facts of this process to one sink."""

    sink: Sink
    redactor: Redactor
    versions: Mapping[str, str] = field(default_factory=dict)
    keeper: Keeper = field(default_factory=Keeper)
    strict: bool = False
    lost: int = 0
    """Facts that could not be written since the last loss event."""
    _open_runs: list[Operation] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _outage: Outage = field(default_factory=Outage)

    def __post_init__(self) -> None:
        _recorders.add(self)
        self.append: Append | None = None if self.strict else getattr(self.sink, "append", None)
        """Takes the line of a fact as it is, where the sink does and no fault is to be raised."""

    def after_fork(self) -> None:
        """Let go of a lock that another thread may have held, and of runs that go on elsewhere."""
        self._lock = threading.RLock()
        self.lost, self._outage = 0, Outage()  # who lost them tells
        here = current()
        self._open_runs = [run for run in self._open_runs if here and run.run is here.run]

    def enclosing(self) -> Operation | None:
        """The operation a new one belongs under.

        A thread or callback that was started without our context belongs to the run of this process
        where there is exactly one.
        """
        operation = current()
        if operation is not None:
            return operation
        with self._lock:
            return self._open_runs[0] if len(self._open_runs) == 1 else None

    def open(
        self,
        kind: Kind,
        actor: str,
        *,
        run_id: str | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> Operation:
        """Give an operation its ids and its place; nothing is written yet."""
        known = current()
        if kind == "run":  # a run stands under another only where that is known to have begun it
            parent = known if known is not None and not known.run.over else None
        else:
            parent = known if known is not None else self.enclosing()
        # Where our context is at hand, the active span is the parent's or one opened inside it.
        above = parent.span if parent is not None and known is None else None
        called = actor if kind != "llm_call" else model
        between = None
        if kind == "run" or parent is None:
            run = new_run(kind, parent, run_id)
            span = self.start_span(kind, called, above, provider=provider, run_id=run.run_id)
            run.trace_id = run.trace_id or span.trace_id or conditions.new_trace_id()
        else:
            run = parent.run
            if above is None and otel.watching() and not self.strict:
                between = otel.recorded_above(run.run_id)
            span = self.start_span(kind, called, above, provider=provider)
        own = span.span_id or conditions.new_span_id()
        operation = Operation(kind, actor, run, own, parent, span, between=between)
        if kind == "run":
            with self._lock:
                self._open_runs.append(operation)
        return operation

    def start_span(
        self, kind: str, name: str | None, parent: otel.OpenSpan | None, **said: str | None
    ) -> otel.OpenSpan:
        """Open the span beside an operation, under ``parent`` or under the active span."""
        try:
            return otel.start_span(kind, name, parent=parent, **said)
        except BaseException as error:  # noqa: BLE001  # the traced program is never the victim
            self._without_span(error)
            return otel.NO_SPAN

    def begin(self, operation: Operation, fact: type[Fact], **fields: Any) -> str | None:
        """Write that ``operation`` began. ``argument``, if given, is a Python value.

        Returns:
            Why that does not stand there with as much of its argument as was to be kept, if so.
        """
        return self._guarded(self._write_operation, operation, fact, "argument", fields)

    def end(self, operation: Operation, fact: type[Fact], **fields: Any) -> None:
        """Write that ``operation`` ended; the second time does nothing, nor in a forked copy.

        ``observation``, if given, is a Python value or an ``Encoded`` one.
        """
        if operation.over or operation.process != this_process():
            return
        operation.over = True
        try:
            self._guarded(self._write_operation, operation, fact, "observation", dict(fields))
        except BaseException:
            # A signal handler's. Whether the end was written is not known; one that stands there
            # twice counts once.
            if not self.strict:
                self._guarded(self._write_operation, operation, fact, "observation", fields)
            raise
        if operation.kind == "run":
            operation.run.over = True
            with self._lock:
                self._open_runs[:] = [run for run in self._open_runs if run is not operation]
        self.end_span(operation, error_type=fields.get("error_type"))

    def end_span(self, operation: Operation, *, error_type: str | None = None) -> None:
        """Close the span beside an operation."""
        if operation.span.span_id is not None:
            try:
                attributes = {"tracekit.run.id": operation.run.run_id}
                operation.span.end(attributes, error_type=error_type)
            except BaseException as error:  # noqa: BLE001  # the traced program is never the victim
                self._without_span(error)

    def _without_span(self, error: BaseException) -> None:
        """Go on where the program's SDK failed: the event is recorded, so nothing is lost."""
        pass_on(error)
        warn("tracekit could not keep a span: %s", type(error).__name__)

    def _write_operation(
        self, operation: Operation, fact: type[Fact], side: str, fields: dict[str, Any]
    ) -> str | None:
        kept = None
        if side in fields:
            kept = self._keep_or_count(operation, fields, side, is_prompt=fact is LlmCallBegun)
        if fact is RunBegun:
            fields["attributes"] = {**fields.get("attributes", {}), **self.redactor.key_attribute}
        if fact is RunEnded and operation.run.not_kept:
            counted = {"values_not_kept": operation.run.not_kept}
            fields["attributes"] = {**fields.get("attributes", {}), **counted}
        beside: list[Blob] = []
        if contract := fields.pop("contract_json", None):
            beside = [kept_contract(contract, self.redactor)]
            fields["contract"] = beside[0].digest
        place = operation.span_id, operation.parent_span_id
        values = {} if kept is None else {side: kept}
        made, whole = self._write(operation, place, fact, fields, values, beside)
        if kept is not None:
            self.keeper.written(kept, operation.run)
        if operation.span is not otel.NO_SPAN:
            operation.span.tell(made, kept)
        if kept is None and side in fields:
            return _NOT_KEPT
        return None if whole else _TOO_LARGE

    def _keep_or_count(
        self,
        operation: Operation,
        fields: dict[str, Any],
        name: str,
        *,
        is_prompt: bool = False,
    ) -> Kept | None:
        """Put what is kept of a value in its place; a value that defeats us costs no step."""
        keep = self.keeper.keep_prompt if is_prompt else self.keeper.keep
        if is_prompt:
            operation.run.prompts.stand_on(ground_of(self.sink))
        try:
            kept = keep(fields[name], self.redactor, operation.run)
        except Exception as error:
            if self.strict:
                raise
            self.note_fault(error, operation)
            fields[name] = Payload(state="truncated")
            return None
        fields[name] = kept.payload
        fields |= kept.columns
        return kept

    def note(self, fact: type[Fact], **fields: Any) -> None:
        """Write a point event under the operation under way; outside any run it is dropped."""
        operation = self.enclosing()
        if operation is None:
            warn("%s outside any run is not recorded", fact.__name__)
            return
        try:  # also in a replay: what a program notes may be anything, and no call hangs on it
            self._note(operation, fact, fields)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            self.note_fault(error, operation)

    def _note(self, operation: Operation, fact: type[Fact], fields: dict[str, Any]) -> None:
        named = [name for name in ("observation", "before", "after") if name in fields]
        found = {name: self._keep_or_count(operation, fields, name) for name in named}
        values: dict[str, Kept] = {name: kept for name, kept in found.items() if kept is not None}
        span = otel.NO_SPAN
        if fact is PolicyNoted and operation.span.span_id is not None:
            span = self.start_span("policy", None, operation.span)
        own = span.span_id or conditions.new_span_id()
        made, _ = self._write(operation, (own, operation.span_id), fact, fields, values)
        if span is not otel.NO_SPAN:
            try:
                span.tell(made, None)
                span.end({"tracekit.run.id": operation.run.run_id})
            except BaseException as error:  # noqa: BLE001  # the traced program is never the victim
                self._without_span(error)
        elif fact in (EvidenceNoted, StateNoted):
            operation.span.tell(made, None)

    def _write(
        self,
        operation: Operation,
        place: tuple[str, str | None],
        fact: type[Fact],
        fields: dict[str, Any],
        values: Mapping[str, Kept],
        beside: Sequence[Blob] = (),
    ) -> tuple[Fact | Draft, bool]:
        """Write a fact, and tell whether its values went with it as they were to be kept."""
        if not _SAID_BY_USERS.isdisjoint(fields):
            for name in _SAID_BY_USERS & fields.keys():
                fields[name] = self._without_secrets(fields[name], operation.run.secrets)
        if self.lost:
            self.write_loss(operation)
        put = functools.partial(self._put, operation, place, fact, fields)
        return put_what_fits(put, fields, values, beside)

    def _without_secrets(self, said: Any, secrets: Scope) -> Any:
        if said is None:
            return None
        if isinstance(said, (tuple, list)):
            return tuple(self._without_secrets(item, secrets) for item in said)
        if isinstance(said, dict):
            return self.redactor.redact(said, scope=secrets).value
        return self.redactor.redact_text(text_of(said), scope=secrets)

    def _put(
        self,
        operation: Operation,
        place: tuple[str, str | None],
        fact: type[Fact],
        fields: Mapping[str, Any],
        blobs: Sequence[Blob],
    ) -> Fact | Draft:
        writer, seq = self.sink.stamp()
        span_id, parent = place
        stamp: dict[str, Any] = {
            "writer": writer,
            "seq": seq,
            "timestamp_ns": conditions.now_ns(),
            "run_id": operation.run.run_id,
            "trace_id": operation.run.trace_id,
            "span_id": span_id,
        }
        if parent is not None:
            stamp["parent_span_id"] = parent
        write_draft = getattr(self.sink, "write_draft", None)
        drafted = None if write_draft is None else draft(fact, stamp, fields)
        if write_draft is not None and drafted is not None:
            write_draft(drafted, blobs)
            return drafted
        made = fact(**stamp, **fields)
        self.sink.write(made, blobs)
        return made

    def write_loss(self, operation: Operation | None = None) -> None:
        """Write how many events were lost, in the run that lost them; not yet, if that fails too.

        Where that run is not known, it is written in that of ``operation``.
        """
        with self._lock:
            count, self.lost = self.lost, 0
            outage, self._outage = self._outage, self._outage.following()
            outage.where = outage.where or operation
        told = not count
        try:
            told = told or outage.tell(count, self.sink)
        finally:
            if not told:  # the count is kept for the next try
                with self._lock:
                    self.lost, self._outage = self.lost + count, outage

    def _guarded(
        self, write: Callable[..., str | None], operation: Operation, *rest: Any
    ) -> str | None:
        """Call ``write``; a fault of ours is counted, never raised into agent code."""
        try:
            return write(operation, *rest)
        except Exception as error:
            if self.strict:
                raise
            self.note_fault(error, operation)
            return _NOT_BEGUN

    def note_fault(self, error: Exception, operation: Operation | None = None) -> None:
        """Count an event that could not be recorded, and say so in the log once an outage."""
        pass_on(error)
        with self._lock:
            self.lost += 1
            why = self._outage.blame(error, operation)
            first = self._outage.is_news(why) and self.lost == 1
            self._outage.remember(self.lost, self.sink)
            tell_when_leaving(self)
        if first:
            warn("tracekit could not record an event: %s", why)

    def mint(self, mint: conditions.Mint) -> None:
        """Note a value that user code was given by ``conditions``."""
        if self.enclosing() is not None:
            self.note(
                MintNoted,
                kind=mint.kind,
                site=mint.site,
                occurrence=mint.occurrence,
                value=mint.value,
            )

    def message(self, role: Literal["user", "system", "agent"], content: object) -> None:
        """Note something said that no model call shows."""
        self.note(MessageNoted, actor=role, actor_kind=role, observation=content)
