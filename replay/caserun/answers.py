"""Answers a planner from a case: its observations, its model, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replay.cancelled import UNKNOWN_NS
from replay.case import Case, Fault, Fixture, ModelScript, Reply
from replay.case.schema import holds
from replay.matching import Answer, AskedCall, AskedPrompt, never_answered, not_in_recording
from replay.models import Model, ModelUnavailable
from replay.session import PromptAnswer, Stopped, Turn
from tracekit.canonical import JsonValue, canonical_text
from tracekit.contract import Contract
from tracekit.redact import find_placeholders
from tracekit.trajectory import Observation

_MOST = 3
"""So many parts of a call's arguments are named."""


class CaseAnswers:
    """Answers one run of a planner from a case."""

    def __init__(
        self,
        case: Case,
        *,
        model: str | ModelScript | None,
        live: Model | None,
        deciding: bool = False,
        redact: Callable[[JsonValue], JsonValue] = lambda value: value,
    ) -> None:
        self.given: list[str] = []
        """Ids of the observations that were given, in order."""
        self.unknown: str | None = None
        """Why nobody can tell whether the case answers a write, if there was such a one."""
        self.delay_ns = 0
        """By how much the planner's clock was advanced."""
        self._case = case
        self._model = model
        self._live = live
        self._deciding = deciding
        self._redact = redact
        self._left = {f.id: f.times for f in case.observations}
        self._delays = {f.id: int(f.delay_ms * 1e6) for f in case.observations}
        self._turns = list(case.turns)
        self._contracts = {contract.name: contract for contract in case.tools}
        self._before: dict[tuple[str, str], Fixture] = {}
        self._replies = list(model.replies) if isinstance(model, ModelScript) else []

    def call(self, asked: AskedCall) -> Answer:
        """Answer with the first observation that fits and is left.

        A write of which some argument could not be kept fits none: it may be any write.
        """
        key = (asked.tool, canonical_text(dict(asked.arguments)))
        unknown = () if self._reads(asked) or not self._knows(asked.tool) else asked.described
        fixture = None if unknown else self._next(asked)
        again = fixture is None
        if fixture is None and self._reads(asked):
            fixture = self._before.get(key)
        if fixture is None:
            why = f"{asked.tool}: {self._why_not(asked.tool, unknown)}"
            if unknown and self.unknown is None:
                self.unknown = why
            return Answer(
                "error",
                not_in_recording(asked.tool),
                tainted=True,
                explanation=why,
            )
        self._before[key] = fixture
        self.given.append(fixture.id)
        self.delay_ns += self._delays[fixture.id]
        seen = _observation(fixture, raising=not self._deciding)
        return Answer("reused" if again else "exact", seen, recorded=fixture.id)

    def _next(self, asked: AskedCall) -> Fixture | None:
        for fixture in self._case.observations:
            left = self._left[fixture.id]
            if fixture.tool != asked.tool or left == 0:
                continue
            if self._fits(asked, fixture):
                if left != "every":
                    self._left[fixture.id] = left - 1
                return fixture
        return None

    def _fits(self, asked: AskedCall, fixture: Fixture) -> bool:
        if fixture.arguments is None or holds(dict(asked.arguments), fixture.arguments):
            return True
        # The record may be older than a rule by which the planner's arguments are redacted now.
        today = self._redact(dict(fixture.arguments))
        if holds(dict(asked.arguments), today):
            return True
        # Who has another redaction key, or none, gives a secret another placeholder of its kind.
        return self._reads(asked) and holds(_by_kind(dict(asked.arguments)), _by_kind(today))

    def _reads(self, asked: AskedCall) -> bool:
        """Whether a call that is made again may be answered as it was before."""
        contract = self._contracts.get(asked.tool)
        return (contract.effect if contract else asked.effect) in ("pure", "read")

    def _knows(self, tool: str) -> bool:
        return any(fixture.tool == tool for fixture in self._case.observations)

    def _why_not(self, tool: str, unknown: Sequence[str]) -> str:
        if not self._knows(tool):
            return "the case has no observation of it"
        if unknown:
            return (
                "a write is not answered where its arguments are only described: "
                f"{', '.join(unknown[:_MOST])}{' and more' if len(unknown) > _MOST else ''}"
            )
        used = all(self._left[f.id] == 0 for f in self._case.observations if f.tool == tool)
        return "its observations are used up" if used else "no observation fits these arguments"

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Answer a request to a model as the case says."""
        if self._model is None:
            raise Stopped("the planner asks a model, and the case has none")
        if isinstance(self._model, ModelScript):
            if self._model.script is not None:
                return PromptAnswer("script", Answer("simulate", None))
            return PromptAnswer("answer", self._reply(asked))
        if self._live is None or provider is None or not isinstance(asked.prompt, dict):
            return PromptAnswer("execute", Answer("live", None))
        try:
            return PromptAnswer("answer", Answer("live", self._live.complete(asked.prompt)))
        except ModelUnavailable as error:
            raise Stopped(f"the model could not be asked: {error}") from error

    def _reply(self, asked: AskedPrompt) -> Answer:
        for place, reply in enumerate(self._replies):
            if reply.prompt in (None, asked.prompt_hash):
                taken: Reply = self._replies.pop(place)
                return Answer("exact", Observation(taken.value, "captured"))
        raise Stopped("the case has no reply of the model to this prompt")

    def note_mint(self, kind: str, site: str, occurrence: int, value: JsonValue) -> None:
        """Values that the planner is given come from the case's seed."""

    def latency_ns(self, answer: Answer) -> int:
        """By how much the planner's clock advances with an answer."""
        return self._delays.get(answer.recorded or "", 0)

    def patience(self, answer: Answer) -> Mapping[str, Any]:
        """A case tells that a call was cancelled, and not how long it was waited for."""
        return {"patience_ns": UNKNOWN_NS}

    def outwaited(self, asked: AskedCall, answer: Answer) -> Answer:
        """A call that nothing cancels has no answer in the case."""
        return never_answered(answer, asked.tool)

    def policy(self, answer: Answer) -> Mapping[str, Any]:
        """A case keeps no policy decisions: a refusal in it is an error like any other."""
        return {}

    def begin_decision(self, number: int) -> None:
        """A case does not lock decisions."""

    def next_history(self, decision: Mapping[str, Any], number: int) -> list[JsonValue] | None:
        """A case is always free-running."""
        return None

    def user_turn(self, said: JsonValue, number: int, *, final: bool) -> Turn | None:
        """The case's next turn, once the planner has answered."""
        return Turn(self._turns.pop(0), tainted=False) if final and self._turns else None

    def contract(self, tool: str) -> Contract | None:
        """What the case says of ``tool``."""
        return self._contracts.get(tool)


def _by_kind(value: JsonValue) -> JsonValue:
    """The value with each placeholder of a secret made one that only tells the kind."""
    if isinstance(value, dict):
        return {name: _by_kind(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_kind(item) for item in value]
    if not isinstance(value, str):
        return value
    for wall in reversed(find_placeholders(value)):
        value = f"{value[: wall.start]}<{wall.kind}>{value[wall.end :]}"
    return value


def _observation(fixture: Fixture, *, raising: bool) -> Observation:
    fault = fixture.error
    if fault is None:
        return Observation(fixture.returns, "captured", types=dict(fixture.types))
    value, types = fault.value, dict(fixture.types)
    if value is None and raising:
        value, types = _exception(fault)
    return Observation(
        value,
        "captured",
        types=types,
        is_error=True,
        error_type=fault.type,
        error_message=fault.message,
    )


def _exception(fault: Fault) -> tuple[JsonValue, dict[str, JsonValue]]:
    """The exception that decorated code meets, as the record would hold it."""
    module, _, name = fault.type.rpartition(".")
    path = f"{module or 'builtins'}:{name}"
    said: list[JsonValue] = [] if fault.message is None else [fault.message]
    value: JsonValue = {"args": said, "message": fault.message or "", "type": path}
    return value, {"": ["exception", path]}
