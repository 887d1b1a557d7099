"""The planner's half of the conversation with the parent: what it tells, and what it is answered.

Facts go to the parent, which alone has the store; secrets are tagged by the parent, which alone has
the key; and every call is decided by the parent. Only a scripted model runs on this side.

A call of plain arguments is one question, which tells of the call as well: the parent records its
begin and, where the answer is plain too, its end. All others are told of fact by fact.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from replay.cancelled import OUTWAITED
from replay.errortext import place_of, text_of
from replay.fixed_loop import Patience, wait_to_be_cancelled
from tracekit import conditions, guard, sent
from tracekit.canonical import Encoded, JsonValue, Stream, copy_json, decode, encode
from tracekit.errors import (
    NotRecorded,
    NotReplayable,
    PlannerSignatureError,
    RecordedError,
    WriteBlocked,
)
from tracekit.events import Blob, Fact

if TYPE_CHECKING:
    # Most replays have neither, and a child starts faster without.
    from replay.faults import Fault
    from replay.scripted import ScriptRun

NOT_IN_RECORDING = "NotInRecording"
"""``error_type`` of the observation that stands for a call which the record does not hold."""

CANNOT_BE_GIVEN = "what it came back with cannot be rebuilt"
"""Why a replay ends at a call whose recorded value is no value of its class here."""


class Channel(Protocol):
    """The way to the parent."""

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send ``message`` and wait for the answer."""

    def tell(self, message: dict[str, Any]) -> None:
        """Send ``message``; there is no answer."""


class PipeSink:
    """Sends facts to the parent, which alone has the store."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._seq = 0

    def stamp(self) -> tuple[str, int]:
        self._seq += 1
        return "planner", self._seq

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        self._channel.tell(
            {
                "fact": {**fact.model_dump(mode="json", exclude_defaults=True), "fact": fact.fact},
                "blobs": {blob.digest: blob.data.decode() for blob in blobs},
            }
        )

    def close(self) -> None:
        pass  # the channel is the host's


class PipeTagger:
    """Has secrets tagged by the parent, which alone has the key."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def tag(self, kind: str, secret: str) -> str:
        return str(self._channel.ask({"tag": [kind, secret]})["tag"])


class PipeAnswerer:
    """Has every call decided by the parent.

    Args:
        channel: The way there.
        sink: Takes the facts of calls that are told of one by one.
        script: Answers what the parent leaves to a script.
    """

    def __init__(self, channel: Channel, sink: PipeSink, script: ScriptRun | None) -> None:
        self._channel = channel
        self._sink = sink
        self._script = script
        self._conditions = conditions.current()
        self._told: set[str] = set()
        self._sent_into: list[tuple[str, Stream]] = []
        self._near = getattr(channel, "near", False)

    @property
    def sink(self) -> PipeSink | None:
        """For which calls are told of with the question; the parent knows this run's clock only."""
        return self._sink if conditions.current() is self._conditions else None

    def answer(self, question: guard.Question) -> guard.Outcome:
        """Ask the parent; a call is run here only where it says so."""
        answer = self._ask(question)
        conditions.current().advance(int(answer.get("latency_ns", 0)))
        if answer.get("told") is True:  # the parent has recorded all of it
            return guard.Served(_value(answer, shared=self._near), {}, told=True)
        fault = None
        fields = answer.get("fields", {})
        if answer.get("propose"):
            self._propose(question)
        if answer["do"] == "script":
            outcome, fault = self._scripted(question, fields)
        else:
            outcome = self._outcome(question, answer, fields)
        request = question.arguments if answer.get("client") else None
        if fault is not None:
            outcome = self._faulty(fault, outcome, request, stream=question.stream)
        if "fault" in answer:
            from replay.faults import Fault

            fault = Fault(**answer["fault"])
            outcome = self._faulty(fault, outcome, request, stream=question.stream)
        return outcome

    def _ask(self, question: guard.Question) -> dict[str, Any]:
        operation, untold = question.operation, question.untold
        if untold is None:
            return self._channel.ask({"ask": operation.span_id})
        contract = untold.contract.digest
        message: dict[str, Any] = {
            "call": (  # in the order of `replay.messages.Announced`
                operation.kind,
                operation.actor,
                question.contract.effect if question.contract else "unknown",
                operation.span_id,
                operation.parent_span_id,
                untold.at_ns,
                contract,
            ),
            "argument": untold.argument if self._near else untold.argument.data.decode(),
        }
        if contract not in self._told:
            message["contract"] = untold.contract.data.decode()
        answer = self._channel.ask(message)
        self._told.add(contract)  # not before: another thread's question may overtake this one
        return answer

    def _outcome(
        self, question: guard.Question, answer: Mapping[str, Any], fields: dict[str, Any]
    ) -> guard.Outcome:
        match answer["do"]:
            case "return":
                value = self._given_out(question.operation.actor, answer)
                if isinstance(value, Stream):
                    value.read_on = guard.read_on
                    self._follow_sent(question, value)
                if answer.get("client") and "left" in answer:
                    value = guard.Part(value, answer["left"])
                return guard.Served(value, fields)
            case "raise":
                failed = _failed(_error(answer), fields, stream=question.stream)
                if isinstance(failed, guard.Served):
                    self._follow_sent(question, failed.value)
                if "patience_ns" in answer:
                    return self._withheld(failed, question, answer)
                return failed
            case "execute":
                return guard.EXECUTE
            case "fault":
                return guard.Served(None, fields)
            case strange:
                raise WriteBlocked(question.operation.actor, "unknown", reason=f"told {strange!r}")

    def _withheld(
        self, failed: guard.Outcome, question: guard.Question, answer: Mapping[str, Any]
    ) -> guard.Outcome:
        """Have a call wait that was cancelled when it was recorded."""
        operation, contract = question.operation, question.contract
        patience = Patience(
            answer["patience_ns"] / 1e9,
            may_be_left=answer.get("outlived") is True and not (contract and contract.writes),
            cut_off=answer.get("cut_off") is True,
        )

        async def wait() -> guard.Outcome:
            if asyncio._get_running_loop() is None:  # driven by hand
                return failed
            await wait_to_be_cancelled(patience)
            otherwise = self._channel.ask({"outwaited": operation.span_id})
            conditions.current().advance(int(otherwise["latency_ns"]))
            return self._outcome(question, otherwise, otherwise["fields"])

        async def wait_for_reader() -> NoReturn:
            await wait_to_be_cancelled(patience)
            self.halt(f"{operation.actor}: {OUTWAITED}")

        if isinstance(failed, guard.Raised):
            return guard.Withheld(failed.error, failed.fields, wait)
        if isinstance(failed, guard.Served):
            failed.value.withheld = wait_for_reader
        return failed

    def _given_out(self, name: str, answer: Mapping[str, Any]) -> object:
        """Rebuild what a call came back with; where that fails, no planner is to cope with it."""
        try:
            return _value(answer, shared=self._near)
        except NotReplayable as error:
            why = "; ".join(map(str.strip, text_of(error).splitlines()))
            self.halt(f"{name}: {CANNOT_BE_GIVEN}: {why}")

    def _scripted(
        self, question: guard.Question, fields: dict[str, Any]
    ) -> tuple[guard.Outcome, Fault | None]:
        from replay.scripted import ScriptOver

        assert self._script is not None
        try:
            given = self._script.reply(question.arguments)
        except (ScriptOver, PlannerSignatureError) as over:
            self.halt(str(over))
        except BaseException as error:  # the script is broken, whatever it raised
            if self._near and isinstance(error, KeyboardInterrupt):  # the user's
                raise
            told = type(error).__name__, text_of(error)
            self.halt(
                f"the script failed with {': '.join(filter(None, told))}{_at_line(error)} "
                "(an exception that the planner is to meet is returned, not raised)"
            )
        self._channel.tell({"scripted": question.operation.span_id})
        if isinstance(given.value, BaseException):
            return guard.Raised(given.value, fields), None
        return guard.Served(given.value, fields), given.fault

    def _propose(self, question: guard.Question) -> None:
        """Tell what the script says, which is compared with the recorded reply."""
        outcome, fault = self._scripted(question, {})
        reply: dict[str, Any]
        if isinstance(outcome, guard.Raised):
            reply = {"error": type(outcome.error).__name__, "message": text_of(outcome.error)}
        elif fault is not None:
            reply = {"error": fault.kind, "message": str(fault)}
        else:
            assert isinstance(outcome, guard.Served)
            reply = {"value": encode(outcome.value).value}
        self._channel.ask({"proposed": question.operation.span_id, "reply": reply})

    def _faulty(
        self,
        fault: Fault,
        outcome: guard.Outcome,
        request: Mapping[str, Any] | None,
        *,
        stream: bool,
    ) -> guard.Outcome:
        from replay.broken_replies import CannotBreak
        from replay.faults import inject

        if fault.kind == "timeout":
            conditions.current().advance(int((fault.seconds or 0) * 1e9))
        try:
            return inject(fault, outcome, request, stream=stream)
        except CannotBreak as error:
            self.halt(f"the fault {fault} cannot be put in: {error}")

    def _follow_sent(self, question: guard.Question, played: Stream) -> None:
        """Remember a stream of which the end is to tell whether all was sent in again."""
        if played.sent:
            self._sent_into.append((question.operation.actor, played))

    def unsent(self) -> list[str]:
        """Name the generators into which something was sent when recorded, and not now."""
        rest = [(n, next(iter(s.unsent.values()))) for n, s in self._sent_into if s.unsent]
        return [
            f"{name}: behind item {entry['behind']} nothing was sent in: "
            f"recorded {sent.told(entry)}"
            for name, entry in rest
        ]

    def halt(self, reason: str, *, asks_of: str | None = None) -> NoReturn:
        """Have the replay ended, for this reason; ``asks_of`` is that of ``guard.read_on``."""
        self._channel.ask({"halt": reason, **({} if asks_of is None else {"asks_of": asks_of})})
        raise NotRecorded(reason)  # where the parent answers all the same


def _at_line(error: BaseException) -> str:
    """Say in which file, by its name, and line of it a user's code raised an error."""
    file, _, at = (place_of(error) or "").rpartition(":")[0].rpartition(":")
    return f", at {Path(file).name}:{at}" if file else ""


def _value(answer: Mapping[str, Any], *, shared: bool = True) -> object:
    """Give the value of an answer; one that came through a pipe is nobody else's."""
    types = answer.get("types")
    value: JsonValue = answer["value"]
    if types:
        return decode(Encoded(value, types))
    return copy_json(value) if shared else value


def _failed(
    found: BaseException | Stream, fields: dict[str, Any], *, stream: bool
) -> guard.Outcome:
    if isinstance(found, BaseException):
        return guard.Raised(found, fields)
    return guard.Served(found, fields) if stream else guard.Raised(found[-1], fields)


def _error(answer: Mapping[str, Any]) -> BaseException | Stream:
    """Rebuild a recorded error as its own class where that is known here."""
    kind, message = str(answer["error_type"]), str(answer["error_message"] or "")
    if kind == NOT_IN_RECORDING:
        return NotRecorded(message)
    if kind == "tracekit.errors.WriteBlocked":
        return WriteBlocked(answer["tool"], answer["effect"], reason=message)
    try:
        rebuilt = _value(answer)
    except NotReplayable:
        rebuilt = None
    if isinstance(rebuilt, BaseException | Stream):
        return rebuilt
    return _by_name(kind, message) or RecordedError(kind, message)


def _by_name(kind: str, message: str) -> Exception | None:
    """Make an error of Python's own class where only its name and text were kept."""
    cls = getattr(builtins, kind, None)
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        return None
    try:
        return cls(message)
    except TypeError:  # a class that needs more than a text
        return None
