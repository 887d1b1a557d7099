"""Who answers a planner: the questions that a session passes on, and the shape of the answers.

A tape answers (``replay.tape_answers``), and so does a case (``replay.caserun``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from replay.isolation import Exit
from replay.matching import Answer, AskedCall, AskedPrompt
from replay.scribe import Scribe
from tracekit.canonical import JsonValue
from tracekit.contract import Contract
from tracekit.trajectory import Observation

How = Literal["answer", "execute", "script", "fault"]
Compare = Callable[[Observation], None]
"""Takes note of what a model would have replied."""


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """What becomes of a request to a model."""

    how: How
    """``answer`` serves it; ``execute`` runs the body; ``script`` asks the scripted model;
    ``fault`` lets ``fault`` stand for the reply.
    """
    answer: Answer
    fault: Mapping[str, str] = field(default_factory=dict)
    """What goes wrong with the reply, as a ``replay.faults.Fault``; empty where nothing does."""
    compare: Compare | None = None
    """Is told what the scripted model says to it, which is not what the planner is given."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says next."""

    content: JsonValue
    tainted: bool


class Isolated(Protocol):
    """Where a planner runs: a child process, or this one."""

    def run(
        self, request: dict[str, Any], handle: Callable[[dict[str, Any]], dict[str, Any] | None]
    ) -> Exit:
        """Run the planner once."""


class Answerer(Protocol):
    """Answers everything that a planner asks for. Not thread-safe: one question at a time."""

    def call(self, asked: AskedCall) -> Answer:
        """Answer a tool call."""

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Answer a request to a model.

        Raises:
            Stopped: nothing can answer it, and the planner cannot go on without.
        """

    def note_mint(self, kind: str, site: str, occurrence: int, value: JsonValue) -> None:
        """Take note of a value that the planner was given by its conditions."""

    def latency_ns(self, answer: Answer) -> int:
        """How long the answer took when it was recorded; the injected clock advances by it."""

    def patience(self, answer: Answer) -> Mapping[str, Any]:
        """What bounds the wait for a call that was cancelled when it was recorded."""

    def outwaited(self, asked: AskedCall, answer: Answer) -> Answer:
        """Answer a call otherwise that nothing cancels as the record says in ``answer``."""

    def policy(self, answer: Answer) -> Mapping[str, Any]:
        """Columns of the policy decision that the answer stands for; empty where there was none."""

    def begin_decision(self, number: int) -> None:
        """Take note that a planner that decides has made its decision of that number."""

    def next_history(self, decision: Mapping[str, Any], number: int) -> list[JsonValue] | None:
        """Step-locked: the recorded history after decision ``number``; None when free-running."""

    def user_turn(self, said: JsonValue, number: int, *, final: bool) -> Turn | None:
        """What the user says after decision ``number``, if anything."""

    def contract(self, tool: str) -> Contract | None:
        """What is known of ``tool`` where the planner does not say."""


class Stopped(Exception):  # an ending, not an error
    """The session ends here, for this reason."""


class Reached(Stopped):  # a subclass of an ending
    """The session ends here because the user wanted no more."""


class Endless(Stopped):  # a subclass of an ending
    """The session ends here, since the planner never would."""


@dataclass(frozen=True, slots=True)
class Span:
    """From which decision to which a planner is driven."""

    start: int = 1
    """Its first decision; those before it were written down by ``opening``."""
    until: int | None = None
    """Its last; None for its own end."""
    opening: Callable[[Scribe], None] | None = None

    def end_after(self, decision: int) -> None:
        """Raise once the planner goes beyond its last decision.

        Raises:
            Reached: ``decision`` lies behind it.
        """
        if self.until is not None and decision > self.until:
            raise Reached(f"ended after decision {self.until}, as asked")


WHOLE = Span()


@dataclass(frozen=True, slots=True)
class Answered:
    """One call or prompt and how it was answered, in the order of asking."""

    span_id: str
    kind: Literal["call", "prompt"]
    name: str
    arguments: JsonValue
    effect: str
    answer: Answer


def asked_more(answered: Sequence[Answered], message: Mapping[str, Any]) -> list[Answered]:
    """What a ``halt`` asks of a call that was answered: one call more, which no record holds."""
    of = message.get("asks_of")
    more = Answer("stop", None, explanation=str(message["halt"]))
    return [replace(step, answer=more) for step in answered if step.span_id == of]
