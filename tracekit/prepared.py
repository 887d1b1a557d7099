"""Calls as most are, recorded on the shortest way: prepared when a function is decorated.

A call inside a run, with arguments and a result of plain JSON in which nothing is secret, needs no
more than two lines of text, each behind one payload. What all calls of a function have in common is
written once, and each line is that text and what is its own. Whatever is not that simple ``begin``
leaves to the general way, which writes the very same facts; a call that began here may end there.
In a replay such a call is one question: whoever answers it records its begin and its end.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Mapping
from contextvars import Token
from typing import Any, NamedTuple

import orjson

from tracekit import conditions, configuration, guard, otel
from tracekit.canonical.plain import Plain, read_plain
from tracekit.contract import Contract
from tracekit.declaring import kept_contract
from tracekit.events import Blob, Fact
from tracekit.interruption import pass_on
from tracekit.keeping import keep_plain
from tracekit.operations import Kind, Operation, enter, leave, this_process
from tracekit.recorder import Recorder
from tracekit.redact import Redactor
from tracekit.steps import FACTS, Step

_ENDS: Mapping[str, Any] = {"status": "ok"}
_JUDGED: Mapping[str, Any] = {"observation_is_error": False, "result_category": "ok"}
"""What the end of a tool's call says, too."""


class Prepared:
    """The calls of one function.

    Args:
        kind: What a call of it is.
        actor: Its name.
        contract: Of a tool.
        contract_json: Its canonical text.
    """

    __slots__ = ("_contract_json", "_said", "actor", "declared", "ended", "kind", "writes")

    def __init__(
        self,
        kind: Kind,
        actor: str,
        contract: Contract | None = None,
        contract_json: str | None = None,
    ) -> None:
        self.kind, self.actor = kind, actor
        self.declared, self._contract_json = contract, contract_json
        self.writes = contract is not None and contract.writes
        self.ended = Words.of(FACTS[kind][1], _ENDS, "observation", self._judged)
        self._said: _Said | None = None

    @property
    def _begins(self) -> dict[str, Any]:
        """What the begin of a call says beside its argument, on the general way."""
        if self.declared is None:
            return {"actor": self.actor}
        effect = self.declared.effect
        return {"actor": self.actor, "effect": effect, "contract_json": self._contract_json}

    @property
    def _judged(self) -> Mapping[str, Any]:
        return {} if self.declared is None else _JUDGED

    def said_by(self, recorder: Recorder) -> _Said:
        """What ``recorder`` says of each call: the contract is kept as it redacts."""
        redactor = recorder.redactor
        if self._said is not None and self._said.redactor is redactor:
            return self._said
        begins: dict[str, Any] = {"actor": self.actor}
        contract: tuple[Blob, ...] = ()
        declared: dict[str, Any] = {}
        if self.declared is not None and self._contract_json is not None:
            contract = (kept_contract(self._contract_json, redactor),)
            begins["effect"] = self.declared.effect
            declared = {"contract": contract[0].digest}
        began, ended = FACTS[self.kind]
        said = self._said = _Said(
            redactor,
            contract,
            Words.of(began, begins, "argument", declared),
            otel.CallAttributes(began, begins | declared, ended, {**_ENDS, **self._judged}),
        )
        return said

    def begin(
        self, recorder: Recorder, parent: Operation | None, arguments: Mapping[str, object]
    ) -> Short | Step | None:
        """Record that a call begins; None, and nothing has been done, where that is not simple."""
        if guard.installed():
            return None if parent is None else self._ask(recorder, parent, arguments)
        if (
            parent is None
            or recorder.append is None
            or recorder.lost
            or otel.sent_content() is not None
            or (self.writes and configuration.refuses_writes())
        ):
            return None
        try:
            said = self._said
            if said is None or said.redactor is not recorder.redactor:
                said = self.said_by(recorder)
            kept = keep_plain(arguments, said.redactor, parent.run.secrets, recorder.keeper)
        except Exception as error:  # noqa: BLE001  # a stack that is full: the general way counts it
            pass_on(error)
            return None
        if kept is None:
            return None
        digest, blob = kept
        step = Short(self, recorder, parent)
        at, seq, line = step.line(said.began, digest, blob[0])
        if step.span is not otel.NO_SPAN:
            trace_id = step.run.trace_id
            step.span.say(said.attributes.of_begin(trace_id, step.span_id, seq, digest))
        try:
            try:
                recorder.append(line, at, (blob, *said.contract))
            except Exception as error:  # noqa: BLE001  # the traced program is never the victim
                self._not_begun(recorder, step, arguments, error)
        except BaseException as error:  # a signal handler's: the body is not entered
            step.put_again(line, at, (blob, *said.contract))
            step.fail(error)
            raise
        return step

    def _not_begun(
        self,
        recorder: Recorder,
        step: Operation,
        arguments: Mapping[str, object],
        error: Exception,
    ) -> None:
        """Count a begin that could not be written, or have the general way keep what may be."""
        if _is_too_large(error):
            recorder.begin(step, FACTS[self.kind][0], **self._begins, argument=arguments)
        else:
            recorder.note_fault(error, step)

    def _ask(
        self, recorder: Recorder, parent: Operation, arguments: Mapping[str, object]
    ) -> Step | None:
        """Ask what becomes of a call by telling of it; else as ``begin``."""
        if self.declared is None or recorder.sink is not guard.told_by() or otel.active():
            return None
        argument = _plainly(arguments, recorder, parent)
        if argument is None:
            return None
        span_id = conditions.new_span_id()
        operation = Operation(self.kind, self.actor, parent.run, span_id, parent, otel.NO_SPAN)
        untold = guard.Untold(conditions.now_ns(), argument, self.said_by(recorder).contract[0])
        question = guard.Question(operation, self.declared, dict(arguments), untold=untold)
        outcome = guard.decide(question)
        operation.over = isinstance(outcome, guard.Served) and outcome.told
        return Step(recorder, operation, outcome)


def _plainly(value: object, recorder: Recorder, operation: Operation) -> Plain | None:
    """Write a value that is kept as it is; None for any other."""
    redactor = recorder.redactor
    try:
        plain = read_plain(value)
        if plain is None or not redactor.finds_nothing(plain, operation.run.secrets):
            return None
    except Exception as error:  # noqa: BLE001  # a stack that is full: the general way counts it
        pass_on(error)
        return None
    return plain if recorder.keeper.keeps_whole(len(plain.data)) else None


def _is_too_large(error: Exception) -> bool:
    """Whether a line is longer than any file may be."""
    pass_on(error)
    return isinstance(error, OSError) and error.errno == errno.EFBIG


class _Said(NamedTuple):
    """What is said of each call of a function while one redactor is in use."""

    redactor: Redactor
    contract: tuple[Blob, ...]
    began: Words
    attributes: otel.CallAttributes


class Words(NamedTuple):
    """What all lines of one fact have in common, in the order in which the general way says it."""

    first: str
    """Up to who wrote it."""
    middle: str
    """From where it happened to the payload."""
    last: str
    """All behind the payload."""

    @classmethod
    def of(
        cls, kind: type[Fact], before: Mapping[str, Any], payload: str, after: Mapping[str, Any]
    ) -> Words:
        """Put them together.

        Args:
            kind: Class of the fact.
            before: What it says first.
            payload: Where its value stands.
            after: What it says behind that.
        """
        tag = kind.model_fields["fact"].default
        middle = orjson.dumps(dict(before)).decode()[1:-1]
        last = orjson.dumps(dict(after)).decode()[1:]
        return cls(
            f'{{"fact":"{tag}","writer":"',
            f',{middle},"{payload}":{{"digest":"',
            f'"}},{last}\n' if after else '"}}\n',
        )


class Short(Operation):
    """A call under way, and the step of it; see ``wrap.Step`` for what the methods mean."""

    __slots__ = ("_attached", "_general", "_place", "_prepared", "_recorder", "_token")

    def __init__(self, prepared: Prepared, recorder: Recorder, parent: Operation) -> None:
        self.kind = prepared.kind
        self.actor = prepared.actor
        self.run = parent.run
        self.parent = parent
        self.between = None
        if otel.active():
            if otel.watching():
                self.between = otel.recorded_above(self.run.run_id)
            self.span = recorder.start_span(self.kind, self.actor, None)
            self.span_id = self.span.span_id or conditions.new_span_id()
        else:
            self.span, self.span_id = otel.NO_SPAN, conditions.new_span_id()
        self.over, self.work = False, None
        self.process = this_process()
        self._prepared = prepared
        self._recorder = recorder
        self._general: Step | None = None
        self._place = (
            f',"run_id":"{self.run.run_id}","trace_id":"{self.run.trace_id}","span_id":"{self.span_id}"'
            f',"parent_span_id":"{self.between or parent.span_id}"'
        )

    answered = False
    """Never: what is answered without running its body is not simple."""

    async def wait(self) -> None:
        """Nothing passes: there is no answer."""

    def answer(self) -> Any:
        """There is none."""
        raise AssertionError("only an answered step has an answer")

    def active(self) -> Short:
        """Make the step the parent of what runs inside, where its own parent is one already."""
        return self

    def __enter__(self) -> None:
        self._token: Token[Operation | None] = enter(self)
        self._attached = None if self.span.context is None else self.span.attach()

    def __exit__(self, _kind: object, _error: object, _place: object) -> None:
        if leave(self._token) and self._attached is not None:
            self.span.detach(self._attached)

    def awaited(self, waiting: Awaitable[Any]) -> Awaitable[Any]:
        """Await the body as it is."""
        return waiting

    def body_changed(self, places: set[str]) -> None:
        """Take note of what the body changed of whose call it is."""
        if places:
            self._in_general().body_changed(places)

    def end(self, value: object) -> None:
        """Record that the call returned ``value``."""
        if self._general is not None:
            self._general.end(value)
            return
        try:
            self._end(value)
        except BaseException:  # a signal handler's: an end that stands there twice counts once
            self.over = False
            self._in_general().end(value)
            raise

    def _end(self, value: object) -> None:
        recorder = self._recorder
        kept = None
        if not (recorder.lost or self.over or self.process != this_process()):
            try:
                kept = keep_plain(value, recorder.redactor, self.run.secrets, recorder.keeper)
            except Exception as error:  # noqa: BLE001  # as where a call begins
                pass_on(error)
        append = recorder.append
        if kept is None or append is None:
            self._in_general().end(value)
            return
        digest, blob = kept
        at, _, line = self.line(self._prepared.ended, digest, blob[0])
        self.over = True
        try:
            append(line, at, (blob,))
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            if _is_too_large(error):
                self.over = False
                self._in_general().end(value)
                return
            recorder.note_fault(error, self)
        if self.span is not otel.NO_SPAN:
            self.span.say(self._prepared.said_by(recorder).attributes.of_end(digest))
            recorder.end_span(self)

    def line(self, words: Words, digest: str, blob: str) -> tuple[int, int, bytes]:
        """Write a fact of this call: when it happened, its number, and its line."""
        first, middle, last = words
        at = conditions.now_ns()
        writer, seq = self._recorder.sink.stamp()
        line = (
            f'{first}{writer}","seq":{seq},"timestamp_ns":{at}{self._place}'
            f'{middle}{digest}","blob":"{blob}{last}'
        )
        return at, seq, line.encode()

    def put_again(self, line: bytes, at: int, blobs: tuple[Blob, ...]) -> None:
        """Write a line of which nobody knows whether it was written; twice, it counts once."""
        append = self._recorder.append
        assert append is not None  # it was there the first time
        try:
            append(line, at, blobs)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            self._recorder.note_fault(error, self)

    def fail(self, error: BaseException) -> None:
        """Record that the call raised ``error``."""
        self._in_general().fail(error)

    def item(self, value: object) -> None:
        """A generator that the call handed out yielded ``value``."""
        self._in_general().item(value)

    def sent(self, value: object) -> None:
        """The reader of a generator sent or threw ``value`` in."""
        self._in_general().sent(value)

    def compare_sent(self, recorded: object, position: int, value: object) -> None:
        """There is nothing to compare with: the body runs."""

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """A generator that the call handed out is over, or its reader went away."""
        self._in_general().end_stream(complete=complete, returned=returned)

    def _in_general(self) -> Step:
        """The same step on the general way."""
        if self._general is None:
            self._general = Step(self._recorder, self)
        return self._general
