"""Answers from a tape: the record of one run, played to a new planner.

Tool calls are answered by the ``Player``; requests to a model by the record, by position, by a live
model or by a script, as the user chose; the user's turns come from the record too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from replay.cancelled import Cancelled
from replay.locked import Lock, as_proposal
from replay.matching import Answer, AskedCall, AskedPrompt, Player
from replay.matching.binding import recorded_tool
from replay.models import Model, ModelUnavailable
from replay.proposals import decision_of, proposal_of_reply
from replay.result import PROMPT_CHANGED, LockedDecision
from replay.session import PromptAnswer, Stopped, Turn, tool_message
from tracekit.canonical import JsonValue
from tracekit.contract import Contract
from tracekit.events import Rung
from tracekit.trajectory import Decision, Message, ModelCall, Observation, Trajectory

ModelMode = Literal["recorded", "live", "scripted", "positional"]
MODEL_MODES: tuple[ModelMode, ...] = ("recorded", "live", "scripted", "positional")
_RECORDED: tuple[Rung, ...] = ("exact", "normalised", "reused", "stale", "nearest")
"""Rungs on which the record answers."""
Mode = Literal["free", "locked"]
MODES: tuple[Mode, ...] = ("free", "locked")


class TapeAnswers:
    """Answers one replay of one tape."""

    def __init__(
        self, player: Player, *, mode: Mode, model_mode: ModelMode, model: Model | None
    ) -> None:
        self.player = player
        self.lock = Lock(player)
        self._record = player.tape.trajectory
        self._mode = mode
        self._model_mode = model_mode
        self._model = model
        self._contracts = {contract.name: contract for contract in self._record.tools}
        self._turns = [
            m for m in self._record.messages if m.role == "user" and m.before_decision > 1
        ]
        self._model_latencies = {m.event_id: m.latency_ns or 0 for m in self._record.model_calls}
        self._policed = any(one.call.policy_decision is not None for one in player.tape.calls)
        self._cancelled = Cancelled(self._record)
        self._deciding = False
        self._proposals = player
        self._spoken_otherwise = False

    @property
    def locked(self) -> tuple[LockedDecision, ...]:
        """The decisions that were compared, where the mode is locked."""
        return tuple(self.lock.decisions)

    # --- calls ------------------------------------------------------------------------------------

    def call(self, asked: AskedCall) -> Answer:
        """Answer a tool call from the record."""
        if self._mode != "locked":
            return self.player.call(asked)
        if self._deciding:
            return as_proposal(self._proposals.call(asked))
        return self.lock.call(asked)

    def note_mint(self, kind: str, site: str, occurrence: int, value: JsonValue) -> None:
        """Take note of a value that the planner was given."""
        self.player.note_mint(kind, site, occurrence, value)

    def latency_ns(self, answer: Answer) -> int:
        """How long the recorded call took that this answer comes from."""
        event = answer.recorded or ""
        found = self.player.tape.find(event)
        return self._model_latencies.get(event, 0) if found is None else found.call.latency_ns or 0

    def patience(self, answer: Answer) -> Mapping[str, Any]:
        """How long a call may wait that was cancelled when it was recorded; empty: not at all."""
        event, known = answer.recorded, self._cancelled
        if answer.rung not in _RECORDED or known.gave_up(event):
            return {}
        return {
            "patience_ns": known.patience_ns(event),
            "outlived": known.outlived(event),
            "cut_off": known.cut_off(event),
        }

    def outwaited(self, asked: AskedCall, answer: Answer) -> Answer:
        """Answer a call that waited for longer than the record knows of."""
        made = self.player.outwait(asked, answer)
        if self._mode == "locked":
            return replace(made, rung="stop", explanation=f"cannot lock: {made.explanation}")
        return made

    def policy(self, answer: Answer) -> Mapping[str, Any]:
        """The recorded policy decision: a call that was denied then is denied again."""
        if not self._policed:
            return {}
        found = self.player.tape.find(answer.recorded or "")
        if found is None or found.call.policy_decision is None or answer.observation is None:
            return {}
        return {
            "policy_decision": found.call.policy_decision,
            "policy_id": found.call.policy_id,
            "policy_reason": found.call.policy_reason,
        }

    def contract(self, tool: str) -> Contract | None:
        """The recorded contract of ``tool``, unless it is the one of another that has its name."""
        tape, maps = self.player.tape, self.player.policies.maps
        return self._contracts.get(tool) if recorded_tool(tool, tape, maps) == tool else None

    # --- models -----------------------------------------------------------------------------------

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Answer a request to a model in the way that the user chose."""
        if self._mode == "locked":
            return self._lock(asked, provider)
        return self._propose(asked, provider)

    def _propose(self, asked: AskedPrompt, provider: str | None) -> PromptAnswer:
        match self._model_mode:
            case "recorded" | "positional":
                positional = self._model_mode == "positional"
                ask = self.player.prompt_by_position if positional else self.player.prompt
                answer = ask(asked)
                if answer is None:
                    raise Stopped(f"{PROMPT_CHANGED}; {self.player.explain_prompt(asked)}")
                return PromptAnswer("answer", answer)
            case "scripted":
                return PromptAnswer("script", Answer("simulate", None))
            case "live":
                request = self._for_live(asked, provider)
                if request is None:
                    return PromptAnswer("execute", Answer("live", None))
                return PromptAnswer("answer", Answer("live", self._complete(request)))

    def _for_live(self, asked: AskedPrompt, provider: str | None) -> Mapping[str, JsonValue] | None:
        """What a live model is asked; None where a function's own body asks its own model."""
        of_all = self._model is not None and self._model.answers_functions
        known = provider is not None or of_all
        return asked.prompt if known and isinstance(asked.prompt, dict) else None

    def _complete(self, request: Mapping[str, JsonValue]) -> Observation:
        assert self._model is not None
        try:
            return self._model.complete(request)
        except ModelUnavailable as error:
            raise Stopped(f"the model could not be asked: {error}") from error

    def _lock(self, asked: AskedPrompt, provider: str | None) -> PromptAnswer:
        """Compare what the new prompt proposes with the record, and return the recorded reply."""
        recorded = self.lock.request(asked, provider)
        event, left = recorded.event_id, recorded.left
        answer = Answer("exact", recorded.reply, recorded=event, explanation="locked", left=left)
        if self._model_mode == "scripted":
            return PromptAnswer("answer", answer, compare=partial(self._compare, recorded))
        self.lock.compare_reply(recorded, self._proposal(asked, provider))
        return PromptAnswer("answer", answer)

    def _compare(self, recorded: ModelCall, reply: Observation) -> None:
        self.lock.compare_reply(recorded, proposal_of_reply(reply))

    def _proposal(self, asked: AskedPrompt, provider: str | None) -> JsonValue:
        if self._model_mode == "positional":
            raise Stopped("cannot lock: --model positional proposes nothing of its own")
        if self._model_mode == "recorded":
            answer = self.player.prompt(asked)
            reply = answer.observation if answer else None
        elif (request := self._for_live(asked, provider)) is None:
            raise Stopped("cannot lock: a live model behind an @llm function runs in its own body")
        else:
            reply = self._complete(request)
        return None if reply is None else proposal_of_reply(reply)

    def close(self, *, ended: bool) -> str | None:
        """Say why the planner was not in step with the record to its end; None where it was."""
        if self._mode != "locked" or self._deciding or not ended:
            return None
        return self.lock.close()

    # --- planners that decide ---------------------------------------------------------------------

    def begin_decision(self, number: int) -> None:
        """Locked: all that was recorded before was made, and nothing that was proposed."""
        self._deciding = True
        if self._mode == "locked":
            before = self._proposals
            self._proposals = Player(self.player.tape, self.player.policies)
            self._proposals.advance_to(number, before)

    def next_history(self, decision: Mapping[str, Any], number: int) -> list[JsonValue] | None:
        """Locked: compare with the recorded decision and go on with what was recorded."""
        if self._mode != "locked":
            return None
        recorded = self.lock.decided(decision, number)
        if recorded is None or number == len(self._record.decisions):
            return []
        return [*decision_messages(recorded), *self._turn_messages(number)]

    def _turn_messages(self, number: int) -> list[JsonValue]:
        return [
            {"role": "user", "content": turn.content}
            for turn in self._turns
            if turn.before_decision == number + 1
        ]

    def user_turn(self, said: JsonValue, number: int, *, final: bool) -> Turn | None:
        """The recorded user's next turn; tainted once the agent said something else before it."""
        if not self._turns:
            return None
        turn: Message = self._turns[0]
        if not final and turn.before_decision > number + 1:
            return None
        self._turns.pop(0)
        before = self._record.decisions[turn.before_decision - 2 : turn.before_decision - 1]
        if not before or before[0].message != said:
            self._spoken_otherwise = True
        return Turn(turn.content, tainted=self._spoken_otherwise)


def history_of(record: Trajectory) -> list[JsonValue]:
    """What a planner that decides is shown before its first decision.

    The user's first words are the input, which may also stand there as a message.
    """
    before = [message for message in record.messages if message.before_decision == 1]
    opening: list[JsonValue] = [{"role": m.role, "content": m.content} for m in before]
    place = next((at for at, m in enumerate(before) if m.role == "user"), len(before))
    beside = place < len(before) and before[place] is next(iter(record.turns), None)
    if place == len(before) or (beside and _says_something(record.input)):
        opening.insert(place, {"role": "user", "content": prompt_text(record.input.value)})
    return opening


def _says_something(given: Observation) -> bool:
    return given.state == "captured" and given.value not in (None, "", {}, [])


def prompt_text(value: JsonValue) -> JsonValue:
    """The user's words in a run's input: its only argument where there is just one."""
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value


def script_of(record: Trajectory) -> list[JsonValue]:
    """What the recorded model did, decision by decision; words after which it went on say so."""
    return [
        decision_of(decision)
        if decision.calls or decision.index == len(record.decisions)
        else {"calls": [], "message": decision.message, "final": False}
        for decision in record.decisions
    ]


def tools_of(contracts: Sequence[Contract]) -> list[JsonValue]:
    """The tools that a planner may call, as it is told of them."""
    return [
        {
            "name": contract.name,
            "description": contract.purpose,
            "effect": contract.effect,
            "parameters": contract.argument_schema,
        }
        for contract in contracts
    ]


def decision_messages(decision: Decision) -> list[JsonValue]:
    """The messages that a recorded decision and its observations come to."""
    calls: list[JsonValue] = []
    results: list[JsonValue] = []
    for place, call in enumerate(decision.calls):
        call_id = call.tool_call_id or f"call_{decision.index}_{place}"
        calls.append({"id": call_id, "name": call.tool, "arguments": call.arguments})
        results.append(tool_message(call_id, call.tool, call.observation))
    spoken: dict[str, JsonValue] = {"role": "assistant", "content": decision.message}
    return [{**spoken, "tool_calls": calls} if calls else spoken, *results]
