"""One call, from its begin to its end: recorded, guarded, and then run or answered.

This is where recorder and guard meet. Decorators and client integrations open steps; nothing else
does, so what holds here holds for every way into a tool or a model. More than 400 lines, because
a call is followed here through everything that may become of it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit import carrying, configuration, guard
from tracekit.canonical import Encoded, JsonValue, encode, text_of
from tracekit.canonical.classes import name_class
from tracekit.contract import Contract
from tracekit.errors import CallRefused
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
from tracekit.interruption import Suppressed, pass_on
from tracekit.recorder import Kind, Operation, Recorder, active
from tracekit.redact import Scope, inside_a_rule
from tracekit.sent import Entry, are_equal, encode_sent, entry_of, told
from tracekit.sink import stands
from tracekit.trajectory import BODY_CHANGED, GAVE_UP

FACTS: dict[Kind, tuple[type[Fact], type[Fact]]] = {
    "run": (RunBegun, RunEnded),
    "agent": (AgentBegun, AgentEnded),
    "span": (SpanBegun, SpanEnded),
    "llm_call": (LlmCallBegun, LlmCallEnded),
    "tool_call": (ToolCallBegun, ToolCallEnded),
    "retrieval": (RetrievalBegun, RetrievalEnded),
}
_GUARDED: tuple[Kind, ...] = ("llm_call", "tool_call", "retrieval")
_log = logging.getLogger("tracekit")
_complained = False
_SENT_OTHERWISE = "something else was sent in"
_SENT_UNKNOWN = "the record does not hold what was sent"
_Sent = tuple[int, Encoded, str | None]
"""What was sent in, behind how many items; of an error its class."""
_LOST = Encoded({"$unreplayable": {"type": "lost"}}, replayable=False)
"""Stands for what was sent in and could not be taken."""
MAX_ITEMS = 100_000
"""Items of a generator that are kept; a stream without end must not fill the agent's memory."""


@dataclass(slots=True)
class Step:
    """One call under way; see ``wrap.Step`` for what the methods mean."""

    recorder: Recorder
    operation: Operation
    outcome: guard.Outcome = guard.EXECUTE
    fields: dict[str, Any] = field(default_factory=dict)
    _items: list[Encoded] = field(default_factory=list)
    _yielded: int = 0
    _changed: tuple[str, ...] = ()
    _sent: list[_Sent] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """Whether the call is answered without running its body."""
        return not isinstance(self.outcome, guard.Execute)

    async def wait(self) -> None:
        """Give way once, as a body would: what was begun beside it comes to begin.

        A call that gives no answer waits to be cancelled.
        """
        if isinstance(self.outcome, guard.Withheld):
            await self._withheld(self.outcome)
            return
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None and asyncio._get_running_loop() is not None:
            await asyncio.sleep(0)

    async def _withheld(self, given: guard.Withheld) -> None:
        try:
            self.outcome = await given.wait()
        except BaseException as error:
            self.fields |= given.fields
            self.fail(error)
            raise

    def answer(self) -> Any:
        """Return or raise what answers the call; it is recorded as its observation."""
        match self.outcome:
            case guard.Served(value, _, True):
                return value  # whoever answered has recorded it
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

    def awaited(self, waiting: Awaitable[Any]) -> Awaitable[Any]:
        """Await the body as it is."""
        return waiting

    def item(self, value: object) -> None:
        """Keep what a generator yielded, as it is now."""
        self._yielded += 1
        if self._yielded <= MAX_ITEMS:
            self._items.append(encode(value))

    def sent(self, value: object) -> None:
        """Keep what the reader of a generator sent or threw in, as it is now."""
        if self._yielded > MAX_ITEMS:
            return
        try:
            self._sent.append(self._as_sent(self._yielded, value))
        except Exception as error:
            if self.recorder.strict:
                raise
            self.recorder.note_fault(error, self.operation)
            thrown = None
            with Suppressed(Exception):  # hostile even to be named
                thrown = _thrown(value)
            self._sent.append((self._yielded, _LOST, thrown))

    def compare_sent(self, recorded: object, position: int, value: object) -> None:
        """End the replay where behind item ``position`` something else was sent; None is nothing.

        A `GeneratorExit` is a reader who goes away there. Where the record certainly holds nothing
        of it, it is one call more of the tool, and a finding where that writes.

        Raises:
            NotRecorded: what was sent is not what the record of the stream holds.
        """
        known: Sequence[Entry] = getattr(recorded, "sent", ())
        unsent: dict[int, Entry] = getattr(recorded, "unsent", {})
        leaves = isinstance(value, GeneratorExit)
        kept = unsent.get(position)
        asked = None
        if not (value is None or leaves):
            (asked,) = self._entries([self._as_sent(position, value)])
        if kept is None or asked is None:
            equal: bool | None = kept is asked
        else:
            equal = are_equal(kept, asked)
        if equal:
            unsent.pop(position, None)
            return
        said = _SENT_OTHERWISE if known else _SENT_UNKNOWN
        where = f"{self.operation.actor}: behind item {position}"
        reason = f"{where} {said}: recorded {told(kept)}, asked {told(asked)}"
        if leaves:  # it may be a finaliser that closes it: the replay ends at the next question
            if self.recorder is configuration.recorder():  # else that of an earlier replay
                with Suppressed(Exception):
                    guard.read_on(reason)
            return
        # The text of an error may hold what is made anew each time.
        name = _thrown(value)
        alike = name is not None and kept is not None and kept.get("thrown") == name
        asks = equal is False and bool(known) and not alike
        guard.read_on(reason, asks_of=self.operation.span_id if asks else None)

    def _as_sent(self, position: int, value: object) -> _Sent:
        """Take what is sent in as it is now, without its secrets, which the run comes to know."""
        kept = encode_sent(value)
        found = self.recorder.redactor.redact(kept.value, scope=self.operation.run.secrets)
        if found.failure is not None:
            return position, Encoded(found.value), _thrown(value)
        return position, replace(kept, value=found.value), _thrown(value)

    def _entries(self, sent: Sequence[_Sent]) -> list[Entry]:
        """Say what was sent in, also without the secrets that no value shows alone."""
        whole = _joined([kept for _, kept, _ in sent], whole=True)
        values = self._without_shared_secrets(whole, ended=False).value
        assert isinstance(values, list)  # as it was joined
        if len(values) != len(sent):  # a rule failed: one stands for all
            values = values * len(sent)
        most = self.recorder.keeper.limits.value_bytes
        return [
            entry_of(position, replace(kept, value=value), thrown, most=most)
            for (position, kept, thrown), value in zip(sent, values, strict=True)
        ]

    def body_changed(self, places: set[str]) -> None:
        """Keep what the body changed of whose call it is."""
        self._changed = tuple(sorted(places))

    def end(self, value: object) -> None:
        """Record that the call returned ``value``."""
        self._end(status="ok", observation=value)

    def end_unread(self, value: object, error: BaseException) -> None:
        """Record that the call returned ``value``, and that reading it raised ``error``.

        A replay hands the value out, and whoever reads it there raises the same again.
        """
        told = {"error_type": error_name(error), "error_message": text_of(error)}
        self._end(status="ok", observation=value, **told)

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """Record what a generator yielded; a partial read is recorded as partial."""
        attributes: dict[str, JsonValue] = {"stream": True}
        if not complete:
            attributes["partial"] = True
        if self._yielded > MAX_ITEMS:
            attributes["items"] = self._yielded
        end = "left" if not complete else "over" if returned is None else "returned"
        try:
            kept = self._stream(end, returned)
            self._end(status="ok", observation=kept, attributes=attributes)
        except BaseException as error:  # a signal handler's
            self.fail(error)
            raise

    def end_without_answer(self) -> None:
        """Record that a run opened by hand is over."""
        self._end(status="ok")

    def fail(self, error: BaseException) -> None:
        """Record that the call raised ``error``, after what a generator had yielded."""
        try:
            fields = self._failure(error)
        except BaseException as fault:  # hostile even to be named; a handler's
            self._end(status="error")
            if not isinstance(fault, Exception):
                raise
            self.recorder.note_fault(fault, self.operation)
        else:
            self._end(**fields)

    def _failure(self, error: BaseException) -> dict[str, Any]:
        fields = _described(error)
        if self._yielded:
            fields["observation"] = self._stream("raised", error)
        if self.operation.kind in ("tool_call", "retrieval"):
            transient = issubclass(type(error), (TimeoutError, ConnectionError))
            fields["result_category"] = "retryable_error" if transient else "fatal_error"
            fields["observation_is_error"] = True
        if self.operation.kind in _GUARDED and _gives_up(error):
            fields["attributes"] = {GAVE_UP: True}
        return fields

    def _stream(self, end: str, last: object) -> Encoded:
        """What was yielded and how it ended; what it raised or returned stands last."""
        items = [*self._items]
        if end in ("raised", "returned"):
            items.append(encode(last))
        joined = _joined(items, whole=self._yielded <= MAX_ITEMS)
        kept = self._without_shared_secrets(joined, ended=end in ("raised", "returned"))
        if end == "over" and not self._sent:
            return kept
        sent = [dict(entry) for entry in self._entries(self._sent)]
        return replace(kept, types={**kept.types, "": ["stream", end, *sent]})

    def _without_shared_secrets(self, kept: Encoded, *, ended: bool) -> Encoded:
        """Take out the secrets, also those that no item shows alone."""
        scope = self.operation.run.secrets
        items: list[JsonValue] = kept.value  # type: ignore[assignment]  # what _joined made
        found = self.recorder.redactor.redact_stream(items, scope=scope, ended=ended)
        if found.failure is not None:
            return Encoded(found.value, replayable=False)
        return replace(kept, value=found.value)

    def _end(self, **fields: Any) -> None:
        if self.operation.kind in ("tool_call", "retrieval") and fields["status"] == "ok":
            fields |= {"observation_is_error": False, "result_category": "ok"}
        if self._changed:
            fields["attributes"] = {**fields.get("attributes", {}), BODY_CHANGED: [*self._changed]}
        ended = FACTS[self.operation.kind][1]
        self.recorder.end(self.operation, ended, **{**fields, **self.fields})


class Unrecorded:
    """A call that runs as if it were not decorated, because it could not be recorded."""

    answered = False

    async def wait(self) -> None:
        """Nothing passes: there is no answer."""

    def answer(self) -> Any:
        """There is none."""
        raise AssertionError("only an answered step has an answer")

    def active(self) -> AbstractContextManager[None]:
        """Change nothing."""
        return nullcontext()

    def awaited(self, waiting: Awaitable[Any]) -> Awaitable[Any]:
        """Change nothing."""
        return waiting

    def item(self, value: object) -> None:
        """Keep nothing."""

    def sent(self, value: object) -> None:
        """Keep nothing."""

    def compare_sent(self, recorded: object, position: int, value: object) -> None:
        """There is nothing to compare with."""

    def body_changed(self, places: set[str]) -> None:
        """Keep nothing."""

    def end(self, value: object) -> None:
        """Record nothing."""

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """Record nothing."""

    def end_without_answer(self) -> None:
        """Record nothing."""

    def fail(self, error: BaseException) -> None:
        """Record nothing."""


def without_secrets(place: str, name: str, value: JsonValue) -> JsonValue:
    """Take the secrets out of a field of which only the digest is to be kept.

    Returns:
        The field; None where something is named a secret in it. A run must come to know that, so
        the field is to be recorded like any other.
    """
    scope = Scope()
    found = configuration.recorder().redactor.redact({place: {name: value}}, scope=scope)
    if scope.known or found.failure is not None or not isinstance(found.value, dict):
        return None
    (fields,) = found.value.values()
    return next(iter(fields.values())) if isinstance(fields, dict) else None


def passed_by() -> bool:
    """Whether calls simply run: recording is off, or redaction asks a function of the user's."""
    return (configuration.off or inside_a_rule()) and not guard.installed()


def unrecorded(error: Exception, contract: Contract | None = None) -> Unrecorded:
    """Let a call run though nothing can be recorded (no key, say), and tell why once.

    A replay that does not know what to answer runs nothing: there ``error`` is raised.

    Raises:
        CallRefused: the tool may write, and such calls are not to run unrecorded.
    """
    pass_on(error)
    if guard.installed() or configuration.strict():
        raise error
    if contract is not None and contract.writes and configuration.refuses_writes():
        raise _refusal(contract, str(error)) from error
    global _complained  # once a process
    if not _complained:
        _complained = True
        with Suppressed(BaseException):  # a handler of the program's, or no room on the stack
            _log.error("tracekit cannot record: %s", error)
    return Unrecorded()


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
    model, provider = fields.get("model_requested"), fields.get("provider")
    operation = recorder.open(kind, actor, run_id=run_id, model=model, provider=provider)
    if operation.parent is None:
        carrying.install()
    if kind == "run":
        fields["parent_run_id"] = operation.parent_run_id
    if contract is not None:
        fields |= {"effect": contract.effect, "contract_json": contract_json}
    given = {} if arguments is None else dict(arguments)
    if arguments is not None:
        fields["argument"] = given
    if contract is not None and contract.writes and configuration.refuses_writes():
        stands(recorder.sink)  # where the journal was deleted, the begin goes to another file
    fields = {"actor": actor, **fields}  # in the order of ``prepared``
    return _begin(Step(recorder, operation), fields, contract, given, stream=stream)


def _begin(
    step: Step,
    fields: Mapping[str, Any],
    contract: Contract | None,
    given: dict[str, object],
    *,
    stream: bool,
) -> Step:
    recorder, operation = step.recorder, step.operation
    begun = FACTS[operation.kind][0]
    try:
        fault = recorder.begin(operation, begun, **fields)
        step.outcome = _outcome(recorder, operation, contract, given, stream=stream, fault=fault)
        return step
    except BaseException as error:  # a signal handler's: the body is not entered
        if not recorder.strict:
            # Whether the begin was written is not known; one that stands there twice counts once.
            recorder.begin(operation, begun, **fields)
            step.fail(error)
        raise


def _outcome(
    recorder: Recorder,
    operation: Operation,
    contract: Contract | None,
    given: dict[str, object],
    *,
    stream: bool,
    fault: str | None,
) -> guard.Outcome:
    """What becomes of a call whose begin stands there, or does not as a whole, and why."""
    if operation.kind in _GUARDED and guard.installed():
        return guard.decide(guard.Question(operation, contract, given, stream))
    refused = contract is not None and contract.writes and configuration.refuses_writes()
    if contract is None or not refused:
        return guard.EXECUTE
    if recorder.lost or not stands(recorder.sink):
        return _refused(contract, "nothing can be recorded just now")
    if fault is not None:
        return _refused(contract, fault)
    return guard.EXECUTE


def _refused(contract: Contract, reason: str) -> guard.Raised:
    error = _refusal(contract, reason)
    told = {"policy_decision": "deny", "policy_id": error.rule, "policy_reason": reason}
    return guard.Raised(error, told)


def _refusal(contract: Contract, reason: str) -> CallRefused:
    return CallRefused(contract.name, rule="on_loss='refuse_writes'", reason=reason)


def _thrown(value: object) -> str | None:
    return error_name(value) if isinstance(value, BaseException) else None


def _joined(items: list[Encoded], *, whole: bool) -> Encoded:
    types: dict[str, JsonValue] = {}
    for index, item in enumerate(items):
        types |= {f"/{index}{pointer}": tag for pointer, tag in item.types.items()}
    return Encoded(
        value=[item.value for item in items],
        types=types,
        replayable=whole and all(item.replayable for item in items),
        problems=tuple(problem for item in items for problem in item.problems),
    )


def _described(error: BaseException) -> dict[str, Any]:
    """The error columns of an operation that raised, with the error itself as its observation."""
    return {
        "status": "error",
        "error_type": error_name(error),
        "error_message": text_of(error),
        "observation": error,
    }


def _gives_up(error: BaseException) -> bool:
    """Whether a body ends in a cancellation that nobody asked of it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
    return task is None or getattr(task, "cancelling", lambda: 1)() == 0


def error_name(error: BaseException) -> str:
    """Name the class of an error as it is recorded: bare if built-in, else with its module."""
    module, _, name = name_class(type(error)).partition(":")
    return name if module == "builtins" else f"{module}.{name}"
