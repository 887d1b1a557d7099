"""Spans of other instrumentations become events of our runs.

A span is written as the begin and the end of an operation, both when it is over, with the times
that it states. It belongs to the run it began in; outside any, to a run named after its trace. What
it carries is redacted like any value. The id of a tool call leads back to the model that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracekit.canonical import JsonValue, digest_raw_text, sound_text
from tracekit.events import (
    ABSENT,
    AgentBegun,
    AgentEnded,
    EvidenceNoted,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    Payload,
    PolicyNoted,
    RetrievalBegun,
    RetrievalEnded,
    RunBegun,
    RunEnded,
    SpanBegun,
    SpanEnded,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.keeping import Kept
from tracekit.operations import RunScope, current
from tracekit.otel.reading import Content, Reading, other_events
from tracekit.otel.values import SpanData, keep_newest
from tracekit.recorder import Recorder

if TYPE_CHECKING:
    from tracekit.otel.processor import Place

_FACTS: dict[str, tuple[type[Fact], type[Fact]]] = {
    "run": (RunBegun, RunEnded),
    "agent": (AgentBegun, AgentEnded),
    "span": (SpanBegun, SpanEnded),
    "llm_call": (LlmCallBegun, LlmCallEnded),
    "tool_call": (ToolCallBegun, ToolCallEnded),
    "retrieval": (RetrievalBegun, RetrievalEnded),
}
_CALLS = ("tool_call", "retrieval")
_MOST_ASKED = 10_000
"""Calls asked for by models that are remembered until a tool is seen to answer."""
_MOST_RUNS = 1_000
"""Runs that are not under way here, of which secrets and prompts are remembered."""


@dataclass(frozen=True, slots=True)
class Started:
    """What was known when a span began."""

    run: RunScope | None
    """The run under way, where it began in it."""
    stamp: tuple[str, int]
    """Writer and number of its begin: what begins inside comes after it, though written before."""


@dataclass
class SpanRecorder:
    """Writes spans of other instrumentations with the recorder of this process."""

    recorder: Callable[[], Recorder]
    # Without a lock, which a fork could leave held: each step on a dict is atomic.
    _asked: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    _runs: dict[str, RunScope] = field(default_factory=dict)

    def place(self, run_id: str | None) -> Started:
        """What is known when a span begins."""
        operation = current()
        inside = operation is not None and operation.run.run_id == run_id
        run = operation.run if operation is not None and inside else None
        return Started(run, self.recorder().sink.stamp())

    def receive(self, span: SpanData, reading: Reading, place: Place) -> None:
        """Write a span that is over; a fault of ours is counted, never raised."""
        recorder = self.recorder()
        try:
            started: Started = place.known
            run = started.run or self._run(place.run_id or span.trace_id, span.trace_id)
            asker = self._asker(run.run_id, reading)
            _Writing(recorder, span, reading, run, started.stamp, asker).write()
            self._remember(run.run_id, span, reading)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            recorder.note_fault(error)

    def _run(self, run_id: str, trace_id: str) -> RunScope:
        found = self._runs.get(run_id)
        if found is None:
            found = self._runs.setdefault(run_id, RunScope(run_id, trace_id))
            keep_newest(self._runs, _MOST_RUNS)
        return found

    def _remember(self, run_id: str, span: SpanData, reading: Reading) -> None:
        for index, call_id in enumerate(reading.asked):
            self._asked[run_id, call_id] = (span.span_id, index)
        keep_newest(self._asked, _MOST_ASKED)

    def _asker(self, run_id: str, reading: Reading) -> tuple[str, int] | None:
        return self._asked.get((run_id, reading.begun.get("tool_call_id") or ""))


@dataclass
class _Writing:
    """One span on its way to the sink."""

    recorder: Recorder
    span: SpanData
    reading: Reading
    run: RunScope
    began: tuple[str, int]
    asker: tuple[str, int] | None
    kept: list[Kept] = field(default_factory=list)
    """What the next fact keeps."""

    def write(self) -> None:
        """Write its facts."""
        if self.reading.kind == "policy":
            self._write(self._policy())
            return
        begun, ended = self._facts()
        columns = {name: self._text(value) for name, value in self.reading.begun.items()}
        argument = self._payload(self.reading.argument, is_prompt=begun is LlmCallBegun)
        columns |= {name: value for kept in self.kept for name, value in kept.columns.items()}
        if issubclass(begun, ToolCallBegun):
            columns["effect"] = "read" if begun is RetrievalBegun else "unknown"
            if self.asker is not None:
                columns["llm_span_id"], columns["call_index"] = self.asker
        actor = self._text(self.reading.actor)
        columns |= {"actor": actor, "argument": argument}
        if begun is RunBegun:
            columns["attributes"] = self.recorder.redactor.key_attribute
        self._write(self._made(begun, self.span.start_ns, self._began(), **columns))
        observation = self._payload(self.reading.observation)
        last = self._made(
            ended,
            self.span.end_ns,
            self.recorder.sink.stamp(),
            observation=observation,
            attributes=self._attributes(),
            **{name: self._text(value) for name, value in self.reading.ended.items()},
            **self._outcome(),
        )
        self._write(last)
        if self.reading.evidence_ids:
            ids = tuple(self._text(said) for said in self.reading.evidence_ids)
            at, stamp = self.span.end_ns, self.recorder.sink.stamp()
            self._write(self._made(EvidenceNoted, at, stamp, below=True, evidence_ids=ids))

    def _facts(self) -> tuple[type[Fact], type[Fact]]:
        """Kinds of its facts; an agent at the root of its trace is a run."""
        root = self.span.parent_span_id is None and self.run.run_id == self.span.trace_id
        return _FACTS["run" if root and self.reading.kind == "agent" else self.reading.kind]

    def _began(self) -> tuple[str, int]:
        """The number taken at its begin, unless the process writes elsewhere by now."""
        now = self.recorder.sink.stamp()
        return self.began if self.began[0] == now[0] else now

    def _policy(self) -> Fact:
        reason = None
        if self.reading.observation is not None:
            said = self.reading.observation.value
            reason = said.get("reason") if isinstance(said, dict) else said
        return self._made(
            PolicyNoted,
            self.span.start_ns,
            self._began(),
            decision=self.reading.decision,
            policy_id=self._text(self.reading.actor),
            reason=self._text(reason) if isinstance(reason, str) else None,
            attributes=self._attributes(),
        )

    def _outcome(self) -> dict[str, Any]:
        failed = self.reading.error_type is not None
        columns: dict[str, Any] = {
            "status": "error" if failed else "ok",
            "error_type": self._text(self.reading.error_type),
            "error_message": self._text(self.reading.error_message),
        }
        if self.reading.kind in _CALLS:
            columns["observation_is_error"] = failed
            columns["result_category"] = "fatal_error" if failed else "ok"
        return columns

    def _payload(self, content: Content | None, *, is_prompt: bool = False) -> Payload:
        if content is None:
            return ABSENT
        if content.state in ("redacted", "reference") and content.value is None:
            return Payload(state=content.state)
        keeper = self.recorder.keeper
        chat = is_prompt and isinstance(content.value, dict) and "messages" in content.value
        keep = keeper.keep_prompt if chat else keeper.keep
        kept = keep(content.value, self.recorder.redactor, self.run)
        self.kept.append(kept)
        payload = kept.payload
        if content.state != "captured" and payload.state == "captured":
            payload = payload.model_copy(update={"state": content.state})
        if payload.state == "invalid_json" and isinstance(kept.value, str):
            payload = payload.model_copy(update={"digest": digest_raw_text(kept.value)})
        return payload

    def _attributes(self) -> dict[str, JsonValue]:
        said = dict(self.reading.attributes)
        if events := other_events(self.span):
            said["otel.events"] = events
        found = self.recorder.redactor.redact(said, scope=self.run.secrets)
        whole = isinstance(found.value, dict) and found.failure is None
        kept: Mapping[str, JsonValue] = found.value if isinstance(found.value, dict) else {}
        source: dict[str, JsonValue] = {
            "convention": self.reading.convention,
            "scope": self._text(self.span.scope),
            "name": self._text(self.span.name),
        }
        return {**(kept if whole else {}), "otel": source}

    def _text(self, said: Any) -> Any:
        if not isinstance(said, str):
            return said
        return self.recorder.redactor.redact_text(sound_text(said), scope=self.run.secrets)

    def _made(
        self,
        fact: type[Fact],
        timestamp_ns: int,
        stamp: tuple[str, int],
        *,
        below: bool = False,
        **fields: Any,
    ) -> Fact:
        writer, seq = stamp
        own = self.span.span_id
        return fact(
            writer=writer,
            seq=seq,
            timestamp_ns=timestamp_ns,
            run_id=self.run.run_id,
            trace_id=self.span.trace_id,
            span_id=digest_raw_text(own).rpartition(":")[2][:16] if below else own,
            parent_span_id=own if below else self.span.parent_span_id,
            **fields,
        )

    def _write(self, fact: Fact) -> None:
        written, self.kept = self.kept, []
        self.recorder.sink.write(fact, [blob for kept in written for blob in kept.blobs])
        for kept in written:
            self.recorder.keeper.written(kept, self.run)
