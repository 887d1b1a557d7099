"""One call, from its begin to its end: recorded, guarded, and then run or answered.

This is where recorder and guard meet. Decorators and client integrations open steps; nothing else
does, so what holds here holds for every way into a tool or a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tracekit import guard
from tracekit.canonical import Encoded, JsonValue, encode
from tracekit.contract import Contract
from tracekit.events import (
    AgentBegun,
    AgentEnded,
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    RetrievalBegun,
    RetrievalEnded,
    RunBegun,
    RunEnded,
    SpanBegun,
    SpanEnded,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.recorder import Kind, Operation, Recorder, active, described_error

FACTS: dict[Kind, tuple[type[Fact], type[Fact]]] = {
    "run": (RunBegun, RunEnded),
    "agent": (AgentBegun, AgentEnded),
    "span": (SpanBegun, SpanEnded),
    "llm_call": (LlmCallBegun, LlmCallEnded),
    "tool_call": (ToolCallBegun, ToolCallEnded),
    "retrieval": (RetrievalBegun, RetrievalEnded),
}
_GUARDED: tuple[Kind, ...] = ("llm_call", "tool_call", "retrieval")


@dataclass
class Step:
    """One call under way; see ``wrap.Step`` for what the methods mean."""

    recorder: Recorder
    operation: Operation
    outcome: guard.Outcome = guard.EXECUTE
    fields: dict[str, Any] = field(default_factory=dict)
    _items: list[Encoded] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """Whether the call is answered without running its body."""
        return not isinstance(self.outcome, guard.Execute)

    def answer(self) -> Any:
        """Return or raise what answers the call; it is recorded as its observation."""
        match self.outcome:
            case guard.Served(value, fields):
                self.fields |= fields
                self.end(value)
                return value
            case guard.Raised(error, fields):
                self.fields |= fields
                self.fail(error)
                raise error
            case guard.Execute():
                raise AssertionError("only an answered step has an answer")

    def active(self) -> AbstractContextManager[None]:
        """Make the step the parent of what runs inside."""
        return active(self.operation)

    def item(self, value: object) -> None:
        """Keep what a generator yielded, as it is now."""
        self._items.append(encode(value))

    def end(self, value: object) -> None:
        """Record that the call returned ``value``."""
        self._end(status="ok", observation=value)

    def end_stream(self, *, complete: bool) -> None:
        """Record what a generator yielded; a partial read is recorded as partial."""
        attributes: dict[str, JsonValue] = {"stream": True}
        if not complete:
            attributes["partial"] = True
        self._end(status="ok", observation=_joined(self._items), attributes=attributes)

    def end_without_answer(self) -> None:
        """Record that a run opened by hand is over."""
        self._end(status="ok")

    def fail(self, error: BaseException) -> None:
        """Record that the call raised ``error``."""
        fields = described_error(error)
        if self.operation.kind in ("tool_call", "retrieval"):
            transient = isinstance(error, (TimeoutError, ConnectionError))
            fields["result_category"] = "retryable_error" if transient else "fatal_error"
            fields["observation_is_error"] = True
        self._end(**fields)

    def _end(self, **fields: Any) -> None:
        if self.operation.kind in ("tool_call", "retrieval") and fields["status"] == "ok":
            fields |= {"observation_is_error": False, "result_category": "ok"}
        ended = FACTS[self.operation.kind][1]
        self.recorder.end(self.operation, ended, **{**fields, **self.fields})


def open_step(
    recorder: Recorder,
    kind: Kind,
    actor: str,
    arguments: Mapping[str, object] | None,
    *,
    contract: Contract | None = None,
    contract_json: str | None = None,
    stream: bool = False,
    run_id: str | None = None,
    **fields: Any,
) -> Step:
    """Record that a call begins, and ask the guard what becomes of it.

    Args:
        recorder: Where it is recorded.
        kind: What is called.
        actor: Its name.
        arguments: Bound arguments, kept as they are now; None for a run opened by hand.
        contract: The tool's contract.
        contract_json: Its canonical text, made once by the caller.
        stream: Whether the caller will iterate over the answer.
        run_id: Of a run, where the caller chooses it.
        fields: Further columns of the begin fact.
    """
    operation = recorder.open(kind, actor, run_id=run_id)
    if contract is not None:
        fields |= {"effect": contract.effect, "contract_json": contract_json}
    given = {} if arguments is None else dict(arguments)
    if arguments is not None:
        fields["argument"] = given
    recorder.begin(operation, FACTS[kind][0], actor=actor, **fields)
    step = Step(recorder, operation)
    if kind in _GUARDED and guard.installed():
        step.outcome = guard.decide(guard.Question(operation, contract, given, stream))
    return step


def _joined(items: list[Encoded]) -> Encoded:
    types: dict[str, JsonValue] = {}
    for index, item in enumerate(items):
        types |= {f"/{index}{pointer}": tag for pointer, tag in item.types.items()}
    return Encoded(
        value=[item.value for item in items],
        types=types,
        replayable=all(item.replayable for item in items),
        problems=tuple(problem for item in items for problem in item.problems),
    )
