"""Step-locked replay: what was decided at each recorded decision, then and now.

The new planner is shown the recorded history and proposes; the record goes on whatever it says. A
planner that decides is asked at every decision. A decorated agent is locked at its model calls: the
new prompt proposes, the recorded reply is returned. What its own code decides is compared where it
calls a tool. Where the recorded reply would not fit the new code, the lock ends and says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from replay.matching import Answer, AskedCall, AskedPrompt, Player
from replay.matching.binding import recorded_tool, told_to
from replay.proposals import compare_decisions, decision_of, left_out, proposal_of
from replay.result import LockedBy, LockedDecision
from replay.session import Stopped
from replay.tape import RecordedCall, is_servable, prompt_key
from tracekit.canonical import JsonValue, as_compared
from tracekit.contract import Contract
from tracekit.trajectory import Decision, ModelCall, Trajectory

_FITS = ("exact", "normalised")


def _as_recorded(recorded: RecordedCall, asked: AskedCall) -> AskedCall:
    call = recorded.call
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return AskedCall(
        tool=call.tool,
        arguments=arguments,
        effect=call.effect,
        contract=call.contract,
        path=call.path,
        span_id=asked.span_id,
        types=call.argument_types,
        described=recorded.described,
        key=None,
    )


def as_proposal(answer: Answer) -> Answer:
    """What a proposed call is answered: nothing that comes later rests on it, so it taints nothing.

    The planner is shown what was recorded, whatever it proposed.
    """
    return replace(answer, tainted=False)


class Lock:
    """Keeps one planner in step with one record, and writes down what it proposes."""

    def __init__(self, player: Player) -> None:
        self.decisions: list[LockedDecision] = []
        self._player = player
        self._record: Trajectory = player.tape.trajectory
        self._waiting: defaultdict[tuple[str, ...], list[ModelCall]] = defaultdict(list)
        for model in self._record.model_calls:
            if model.covered_by is None:
                self._waiting[model.path].append(model)
        self._by_model = {
            call.event_id for d in self._record.decisions if d.model_call for call in d.calls
        }

    @property
    def number(self) -> int:
        """Of the next comparison, from 1."""
        return len(self.decisions) + 1

    # --- planners that decide ---------------------------------------------------------------------

    def decided(self, decision: Mapping[str, JsonValue], number: int) -> Decision | None:
        """Compare with the recorded decision, and give that; None after the last."""
        if number > len(self._record.decisions):
            return None
        recorded = self._record.decisions[number - 1]
        now: JsonValue = {"calls": decision["calls"], "message": decision["message"]}
        self._note(decision_of(recorded), now, by="planner")
        return recorded

    # --- model calls ------------------------------------------------------------------------------

    def request(self, asked: AskedPrompt, provider: str | None) -> ModelCall:
        """Find the recorded request at whose place ``asked`` stands.

        Sub-agents and parallel requests come in any order: each place in the code has its own, and
        an equal prompt goes before the order of the record. A client may have been told to ask
        another model; an ``@llm`` function of another name is another place.

        Raises:
            Stopped: the record has none there.
        """
        waiting = self._waiting[asked.path]
        named = [model for model in waiting if model.name == asked.name]
        known = {model.name for model in self._record.model_calls if model.path == asked.path}
        candidates = named if provider is None or asked.name in known else waiting
        if not candidates:
            raise Stopped(f"cannot lock: {self._no_request(asked)}")
        key = prompt_key(asked.prompt)
        equal = (m for m in candidates if m.prompt is not None and prompt_key(m.prompt) == key)
        chosen = next(equal, candidates[0])
        if not is_servable(chosen.reply):
            raise Stopped(f"cannot lock: the reply to request {self.number} was not kept")
        waiting.remove(chosen)
        return chosen

    def compare_reply(self, recorded: ModelCall, proposed: JsonValue) -> None:
        """Write down what the new prompt proposes beside what the recorded one did."""
        self._note(proposal_of(recorded), proposed, by="model")

    def _no_request(self, asked: AskedPrompt) -> str:
        where = " / ".join((*asked.path, asked.name or "the model"))
        here = [
            m
            for m in self._record.model_calls
            if m.covered_by is None and m.path == asked.path and m.name == asked.name
        ]
        if here:
            return f"{where} is asked {len(here) + 1} times, the record has {len(here)}"
        places = {
            " / ".join((*m.path, m.name)) for m in self._record.model_calls if not m.covered_by
        }
        known = f"only at {', '.join(sorted(places))}" if places else "nowhere"
        return f"{where} is another place in the code; the record asks a model {known}"

    # --- calls of an agent ------------------------------------------------------------------------

    def call(self, asked: AskedCall) -> Answer:
        """Answer a call of an agent's code by the one that the record has in its place."""
        answer = self._player.call(asked)
        if answer.rung in _FITS:
            recorded = self._player.tape.find(answer.recorded or "")
            if recorded is not None and recorded.call.event_id not in self._by_model:
                self._compare_call(recorded, asked)
            return answer
        expected = self._expected(answer, asked)
        if expected is None:
            return self._cannot(asked, answer, "the record has no such call left")
        self._compare_call(expected, asked)
        if expected.call.writes or asked.effect in ("write", "unknown"):
            return self._cannot(asked, answer, "a write is answered only by an equal one")
        if not expected.servable:
            return self._cannot(asked, answer, "the recorded observation was not kept")
        self._player.call(_as_recorded(expected, asked))  # so that it is used up
        return replace(
            answer,
            rung="exact",
            observation=expected.call.observation,
            tainted=False,
            ambiguous=False,
            recorded=expected.call.event_id,
            explanation=f"locked: {self.decisions[-1].explanation}",
        )

    def _expected(self, answer: Answer, asked: AskedCall) -> RecordedCall | None:
        """The call of the record in whose place this one stands: the next one of its tool."""
        tool = recorded_tool(asked.tool, self._player.tape, self._player.policies.maps)
        same = (c for c in self._player.unconsumed() if c.tool == tool)
        found = next(same, None)
        return None if found is None else self._player.tape.find(found.event_id)

    def _compare_call(self, recorded: RecordedCall, asked: AskedCall) -> None:
        call = recorded.call
        arguments = as_compared(call.arguments, call.argument_types)
        then: JsonValue = {"tool": call.tool, "arguments": arguments}
        told: JsonValue = told_to(recorded.contract, asked, asked.compared)
        now: JsonValue = {"tool": asked.tool, "arguments": told}
        old: JsonValue = {"calls": [then], "message": None}
        new: JsonValue = {"calls": [now], "message": None}
        self._note(old, new, by="code", declared=asked.contract)

    def _cannot(self, asked: AskedCall, answer: Answer, why: str) -> Answer:
        text = f"cannot lock: the code calls {asked.tool} otherwise than recorded: {why}"
        return replace(
            answer, rung="stop", observation=None, explanation=f"{text}; {answer.explanation}"
        )

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> str | None:
        """Write down what the planner came to its end without; say why it was not in step."""
        asked = sum(decision.by == "model" for decision in self.decisions)
        unasked = sum(map(len, self._waiting.values()))
        for call in self._player.unconsumed():
            if call.event_id not in self._by_model:
                self.decisions.append(left_out(self.number, call))
        if not unasked:
            return None
        return f"cannot lock: it ended after {asked} of {asked + unasked} requests to its model"

    def _note(
        self, then: JsonValue, now: JsonValue, *, by: LockedBy, declared: Contract | None = None
    ) -> None:
        maps, tape = self._player.policies.maps, self._player.tape
        self.decisions.append(
            compare_decisions(self.number, then, now, tape, by=by, maps=maps, declared=declared)
        )
