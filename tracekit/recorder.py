"""Calls begun and ended become facts.

The recorder knows what is under way (a context variable, so that tasks keep their own parents) and
writes one fact at each begin and each end, redacted, before the caller goes on. A fault of its own
never reaches agent code: it is counted, logged once, and becomes a loss event as soon as one can be
written. ``strict`` turns this round for replays, where a fault must not pass in silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tracekit import conditions, otel
from tracekit.canonical import Encoded, JsonValue, digest, digest_bytes, encode, json_bytes
from tracekit.events import (
    Blob,
    ContentState,
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LossNoted,
    MessageNoted,
    MintNoted,
    Payload,
    PolicyDecision,
    PolicyNoted,
    StateNoted,
)
from tracekit.prompts import hash_prompt
from tracekit.redact import Redactor, Scope
from tracekit.sink import Sink

Kind = Literal["run", "agent", "llm_call", "tool_call", "retrieval", "span"]
_log = logging.getLogger("tracekit")


@dataclass(slots=True, eq=False)
class RunScope:
    """One run under way: its ids, and the values handed out in it."""

    run_id: str
    trace_id: str
    mints: conditions.MintScope = field(default_factory=conditions.MintScope)
    secrets: Scope = field(default_factory=Scope)
    """Secrets met in fields of this run, so that they are known in its free text too."""


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

    @property
    def parent_span_id(self) -> str | None:
        """The operation around it, where that belongs to the same run."""
        return self.parent.span_id if self.parent and self.parent.run is self.run else None


class Kept(NamedTuple):
    """A value as it is kept."""

    payload: Payload
    blob: Blob
    value: JsonValue
    """The redacted value."""


_current: ContextVar[Operation | None] = ContextVar("tracekit_operation", default=None)


def current() -> Operation | None:
    """The operation under way in this context, if any."""
    return _current.get()


@contextmanager
def active(operation: Operation) -> Iterator[None]:
    """Make ``operation`` the parent of whatever begins inside."""
    token = _current.set(operation)
    try:
        with operation.span.current(), conditions.minting(operation.run.mints):
            yield
    finally:
        _current.reset(token)


@dataclass
class Recorder:
    """Writes the facts of this process to one sink."""

    sink: Sink
    redactor: Redactor
    versions: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    lost: int = 0
    """Facts that could not be written since the last loss event."""
    _open_runs: list[Operation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _contracts: dict[str, Blob] = field(default_factory=dict)

    def enclosing(self) -> Operation | None:
        """The operation a new one belongs under.

        A thread or callback that was started without our context belongs to the run of this process
        where there is exactly one.
        """
        operation = _current.get()
        if operation is not None:
            return operation
        with self._lock:
            return self._open_runs[0] if len(self._open_runs) == 1 else None

    def open(self, kind: Kind, actor: str, *, run_id: str | None = None) -> Operation:
        """Give an operation its ids and its place; nothing is written yet."""
        parent = self.enclosing()
        span = otel.start_span(kind, actor, {}, parent=parent.span if parent else None)
        if kind == "run" or parent is None:
            trace_id = parent.run.trace_id if parent else span.trace_id or conditions.new_trace_id()
            run = RunScope(run_id or conditions.new_run_id(), trace_id)
        else:
            run = parent.run
        operation = Operation(
            kind, actor, run, span.span_id or conditions.new_span_id(), parent, span
        )
        if kind == "run":
            with self._lock:
                self._open_runs.append(operation)
        return operation

    def begin(self, operation: Operation, fact: type[Fact], **fields: Any) -> None:
        """Write that ``operation`` began. ``argument``, if given, is a Python value."""
        self._guarded(lambda: self._write_operation(operation, fact, "argument", fields))

    def end(self, operation: Operation, fact: type[Fact], **fields: Any) -> None:
        """Write that ``operation`` ended; the second time does nothing.

        ``observation``, if given, is a Python value or an ``Encoded`` one.
        """
        if operation.over:
            return
        operation.over = True
        self._guarded(lambda: self._write_operation(operation, fact, "observation", fields))
        if operation.kind == "run":
            with self._lock:
                self._open_runs[:] = [run for run in self._open_runs if run is not operation]
        self._guarded(lambda: self._end_span(operation, fields))

    def _end_span(self, operation: Operation, fields: Mapping[str, Any]) -> None:
        attributes = {"tracekit.run.id": operation.run.run_id}
        operation.span.end(attributes, error_type=fields.get("error_type"))

    def _write_operation(
        self, operation: Operation, fact: type[Fact], side: str, fields: dict[str, Any]
    ) -> None:
        blobs: list[Blob] = []
        if side in fields:
            kept = self.keep(fields[side], operation.run.secrets)
            fields[side] = kept.payload
            blobs.append(kept.blob)
            if fact is LlmCallBegun:
                fields |= _prompt_columns(kept.value)
        if contract := fields.pop("contract_json", None):
            blob = self._contract_blob(contract)
            fields["contract"] = blob.digest
            blobs.append(blob)
        if message := fields.get("error_message"):
            fields["error_message"] = self.redactor.redact_text(
                message, scope=operation.run.secrets
            )
        self._write(operation, operation.span_id, operation.parent_span_id, fact, fields, blobs)

    def _contract_blob(self, text: str) -> Blob:
        if text not in self._contracts:
            data = text.encode()
            blob = Blob(digest=digest_bytes(data), media_type="application/json", data=data)
            self._contracts[text] = blob
        return self._contracts[text]

    def keep(self, value: object, secrets: Scope) -> Kept:
        """Encode and redact ``value``: what is kept of it, and where."""
        encoded = value if isinstance(value, Encoded) else encode(value)
        found = self.redactor.redact(encoded.value, scope=secrets)
        redacted = found.value
        # Kept in the order of its keys: what a planner prints of it must read the same in a replay.
        data = json_bytes(redacted)
        name = digest_bytes(data)
        state: ContentState = "captured" if encoded.replayable else "truncated"
        if found.failure is not None:
            state = "redacted"
        payload = Payload(
            state=state, digest=digest(redacted), blob=name, types=dict(encoded.types)
        )
        return Kept(payload, Blob(digest=name, media_type="application/json", data=data), redacted)

    def note(self, fact: type[Fact], **fields: Any) -> None:
        """Write a point event under the operation under way; outside any run it is dropped."""
        operation = self.enclosing()
        if operation is None:
            _log.warning("%s outside any run is not recorded", fact.__name__)
            return
        self._guarded(lambda: self._note(operation, fact, fields))

    def _note(self, operation: Operation, fact: type[Fact], fields: dict[str, Any]) -> None:
        blobs: list[Blob] = []
        for name in ("observation", "before", "after"):
            if name in fields:
                kept = self.keep(fields[name], operation.run.secrets)
                fields[name] = kept.payload
                blobs.append(kept.blob)
        if reason := fields.get("reason"):
            fields["reason"] = self.redactor.redact_text(reason, scope=operation.run.secrets)
        self._write(operation, conditions.new_span_id(), operation.span_id, fact, fields, blobs)

    def _write(
        self,
        operation: Operation,
        span_id: str,
        parent: str | None,
        fact: type[Fact],
        fields: Mapping[str, Any],
        blobs: Sequence[Blob],
    ) -> None:
        writer, seq = self.sink.stamp()
        made = fact(
            writer=writer,
            seq=seq,
            timestamp_ns=conditions.now_ns(),
            run_id=operation.run.run_id,
            trace_id=operation.run.trace_id,
            span_id=span_id,
            parent_span_id=parent,
            **fields,
        )
        self.sink.write(made, blobs)
        if self.lost:
            self._write_loss(operation)

    def _write_loss(self, operation: Operation) -> None:
        count, self.lost = self.lost, 0
        writer, seq = self.sink.stamp()
        loss = LossNoted(
            writer=writer,
            seq=seq,
            timestamp_ns=conditions.now_ns(),
            run_id=operation.run.run_id,
            trace_id=operation.run.trace_id,
            span_id=conditions.new_span_id(),
            count=count,
            reason="the recorder could not write them when they happened",
        )
        try:
            self.sink.write(loss, [])
        except OSError:
            self.lost = count
            raise

    def _guarded(self, write: Any) -> None:
        """Run ``write``; a fault of ours is counted, never raised into agent code."""
        try:
            write()
        except Exception as error:  # the traced program is never the victim
            if self.strict:
                raise
            if not self.lost:
                _log.warning("tracekit could not record an event: %s", type(error).__name__)
            self.lost += 1

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

    def policy(self, decision: PolicyDecision, rule: str | None, reason: str | None) -> None:
        """Note a policy decision about the step under way."""
        self.note(PolicyNoted, decision=decision, policy_id=rule, reason=reason)

    def evidence(self, ids: Sequence[str]) -> None:
        """Note evidence cited by the step under way."""
        self.note(EvidenceNoted, evidence_ids=tuple(ids))

    def state(self, before: object, after: object) -> None:
        """Note the agent's state before and after."""
        self.note(StateNoted, before=before, after=after)

    def message(self, role: Literal["user", "system", "agent"], content: object) -> None:
        """Note something said that no model call shows."""
        self.note(MessageNoted, actor=role, actor_kind=role, observation=content)


def described_error(error: BaseException) -> dict[str, Any]:
    """The error columns of an operation that raised, with the error itself as its observation."""
    return {
        "status": "error",
        "error_type": error_name(error),
        "error_message": _text_of(error),
        "observation": error,
    }


def error_name(error: BaseException) -> str:
    """The class of an error as it is recorded: bare for built-in ones, else with its module."""
    cls = type(error)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a hostile __str__ is the agent's, and says nothing
        return f"<{type(error).__name__} that cannot be printed>"


def _prompt_columns(request: JsonValue) -> dict[str, str | None]:
    hashes = hash_prompt(request if isinstance(request, dict) else {"prompt": request})
    return {
        "prompt_hash": hashes.prompt,
        "system_hash": hashes.system,
        "tools_hash": hashes.tools,
    }
