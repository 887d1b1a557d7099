"""One planner, driven once against somebody who answers.

The parent's half of the conversation with the planner's process. Messages that it gets:
``{"fact", "blobs"}`` tells what the planner does; ``{"ask": span}`` asks what becomes of the call
that the fact of ``span`` announced; ``{"call", "argument"}`` does both for a call of plain
arguments, whose end is recorded with the answer; ``{"decision": {...}}`` proposes the next action
of a planner that only decides; ``{"proposed": span}`` tells what a script would reply,
``{"scripted": span}`` that one did, and ``{"outwaited": span}`` that nothing cancels a call;
``{"tag": [kind, secret]}`` asks for a placeholder; ``{"finding": {...}}`` reports what a wall
refused; ``{"halt": reason}`` ends it. Who answers, a tape or a case, is an ``Answerer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replay.answering import (
    WHOLE,
    Answered,
    Answerer,
    Compare,
    Endless,
    Isolated,
    PromptAnswer,
    Span,
    Stopped,
    Turn,
    asked_more,
)
from replay.around import Surroundings
from replay.cancelled import OUTWAITED, was_cancelled
from replay.isolation import OUTSIDE, Exit
from replay.matching import Answer, AskedCall, AskedPrompt
from replay.messages import (
    Given,
    announced,
    assistant_message,
    is_plain,
    proposed_reply,
    provider_message,
    refusal,
    reply,
    tool_message,
)
from replay.scribe import Scribe
from replay.session_result import SessionResult, result_of, trajectory_of
from tracekit.canonical import JsonValue, described_parts
from tracekit.events import (
    Fact,
    LlmCallBegun,
    LlmCallEnded,
    MessageNoted,
    MintNoted,
    RunBegun,
    RunEnded,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.trajectory import Observation

__all__ = [
    "Answered",
    "Answerer",
    "Isolated",
    "PromptAnswer",
    "Session",
    "SessionResult",
    "Stopped",
    "Turn",
    "tool_message",
]

MAX_DECISIONS = 200
"""Of a planner that decides; one that has not stopped by then never will."""
MAX_CALLS = 10_000
"""Of an agent, whose loops are its own."""


class Session:
    """One conversation; ``run`` has it."""

    def __init__(
        self, answerer: Answerer, scribe: Scribe, *, planner_name: str, span: Span = WHOLE
    ) -> None:
        self._answerer = answerer
        self._scribe = scribe
        self._planner_name = planner_name
        self._span = span
        self._begun: dict[str, Fact] = {}
        self._surroundings = Surroundings()
        self._values: dict[str, JsonValue] = {}
        self._given: dict[str, Given] = {}
        self._compare: dict[str, Compare] = {}
        self._scripted: set[str] = set()
        """Prompts that a script is being asked."""
        self._waiting: dict[str, tuple[int, AskedCall | AskedPrompt]] = {}
        self._answered: list[Answered] = []
        self._findings: list[dict[str, Any]] = []
        self._decisions = span.start - 1
        self._tainted = False
        """Whether something before was no evidence: all that comes after rests on it."""

    def run(self, isolate: Isolated, request: dict[str, Any]) -> SessionResult:
        """Run the planner of ``isolate`` once and answer it to its end."""
        if "history" in request:
            self._begin_deciding(request)
        stopped: Stopped | None = None
        try:
            ended = isolate.run(request, self._handle)
            if self._scripted and ended.kind not in ("done", *OUTSIDE):
                said = ended.detail.replace("the planner's", "its").replace("the planner", "it")
                raise Stopped(f"the script did not answer: {said}")
        except Stopped as stop:
            stopped = stop
            ended = Exit("done", "", {})
        if "history" in request:
            self._end_deciding(ended)
        return result_of(
            ended, stopped, self._scribe, answered=self._answered, findings=self._findings
        )

    def _handle(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if "call" in message:
            return self._announced(message)
        if "fact" in message:
            self._fact(message["fact"], message.get("blobs", {}))
            return None
        if "ask" in message:
            return self._ask(str(message["ask"]))
        if "decision" in message:
            return self._decide(message["decision"])
        if "outwaited" in message:
            return self._outwaited(str(message["outwaited"]))
        if "tag" in message:
            return {"tag": self._scribe.redactor.tagger.tag(*map(str, message["tag"]))}
        self._scripted.discard(str(message.get("scripted")))
        if "finding" in message:
            self._findings.append({**message["finding"], "after": len(self._answered)})
        if "proposed" in message:
            told = proposed_reply(message["reply"], self._scribe.redactor)
            self._compare.pop(str(message["proposed"]))(told)
            return {}
        if "halt" in message:
            self._answered += asked_more(self._answered, message)
            raise Stopped(str(message["halt"]))
        return None

    # --- decorated code ---------------------------------------------------------------------------

    def _fact(self, raw: dict[str, Any], blobs: dict[str, str]) -> None:
        span = str(raw.get("span_id"))
        ended = str(raw.get("fact")).endswith(".ended")
        seen, fields = (self._given.get(span) if ended else None) or (None, {})
        fact, values = self._scribe.adopt(raw, blobs, observation=seen, fields=fields)
        if fact.fact.endswith(".begun"):
            self._begun[span] = fact
            self._surroundings.begin(fact)
            self._values[span] = values.get("argument")
        elif isinstance(fact, MintNoted):
            self._answerer.note_mint(fact.kind, fact.site, fact.occurrence, fact.value)

    def _announced(self, message: dict[str, Any]) -> dict[str, Any]:
        """Record a call of plain arguments, answer it, and record its end where it is plain too."""
        call = announced(message)
        span = call.span_id
        given, contract = message["argument"], message.get("contract")
        arguments, digest = self._scribe.begin_call(call, given, contract)
        around = self._surroundings.inside(call.parent_span_id)
        asked = AskedCall(
            tool=call.actor,
            arguments=arguments if isinstance(arguments, dict) else {},
            effect=call.effect,
            contract=self._scribe.contract(call.contract),
            path=around.path,
            span_id=span,
            under=around.under,
            digest=digest,
        )
        self._keep_to_span()
        answer = self._call(asked)
        fields, after_ns = self._fields(answer), self._answerer.latency_ns(answer)
        seen = answer.observation
        if seen is not None and is_plain(seen):
            self._scribe.end_call(call, seen.value, after_ns=after_ns, fields=fields)
            return {"do": "return", "told": True, "value": seen.value, "latency_ns": after_ns}
        self._given[span] = Given(seen, fields)
        self._surroundings.begin_call(span, call.actor, around)
        self._scribe.ledger.flush()  # a body may run now
        return self._reply(answer, asked)

    def _fields(self, answer: Answer) -> Mapping[str, Any]:
        """The columns that the answer to a tool call adds to its end."""
        policy = self._answerer.policy(answer)
        return {"rung": answer.rung, "tainted": self._tainted, **policy}

    def _ask(self, span: str) -> dict[str, Any]:
        begun = self._begun.get(span)
        if begun is None:
            return refusal("the call was not announced")
        if isinstance(begun, LlmCallBegun):
            return self._ask_model(begun)
        if isinstance(begun, ToolCallBegun):
            return self._ask_tool(begun)
        return {"do": "execute"}

    def _ask_tool(self, begun: ToolCallBegun) -> dict[str, Any]:
        arguments = self._values[begun.span_id]
        around = self._surroundings.inside(begun.parent_span_id)
        asked = AskedCall(
            tool=begun.actor,
            arguments=arguments if isinstance(arguments, dict) else {},
            effect=begun.effect,
            contract=self._scribe.contract(begun.contract),
            path=around.path,
            span_id=begun.span_id,
            under=around.under,
            types=begun.argument.types,
            described=described_parts(arguments, begun.argument.state),
            key=begun.idempotency_key or "",
            call_id=begun.tool_call_id,
        )
        self._keep_to_span()
        answer = self._call(asked)
        self._given[asked.span_id] = Given(answer.observation, self._fields(answer))
        return self._reply(answer, asked)

    def _keep_to_span(self) -> None:
        until = self._span.until  # no decision without something that was answered
        if until is not None and len(self._answered) >= until:
            so_far = trajectory_of(self._scribe.ledger.facts, self._scribe.ledger.texts)
            self._span.end_after(len(so_far.decisions))

    def _call(self, asked: AskedCall) -> Answer:
        if len(self._answered) >= MAX_CALLS:
            raise Endless(f"the planner has not stopped after {MAX_CALLS:,} calls")
        answer = self._answerer.call(asked)
        arguments: Any = asked.arguments
        effect = answer.effect or asked.effect
        step = Answered(asked.span_id, "call", asked.tool, arguments, effect, answer)
        self._answered.append(step)
        self._tainted = self._tainted or answer.tainted
        if answer.rung == "stop":
            raise Stopped(answer.explanation)
        return answer

    def _ask_model(self, begun: LlmCallBegun) -> dict[str, Any]:
        asked = AskedPrompt(
            prompt=self._values[begun.span_id],
            prompt_hash=begun.prompt_hash,
            name=begun.actor,
            path=self._surroundings.inside(begun.parent_span_id).path,
            span_id=begun.span_id,
            model=begun.model_requested,
        )
        made = self._answerer.prompt(asked, provider=begun.provider)
        step = Answered(begun.span_id, "prompt", begun.actor, asked.prompt, "pure", made.answer)
        self._answered.append(step)
        self._tainted = self._tainted or made.answer.tainted
        fields = {"rung": made.answer.rung, "tainted": self._tainted}
        # What a fault makes of a reply is known on the planner's side alone.
        known = made.how == "answer" and not made.fault
        self._given[begun.span_id] = Given(made.answer.observation if known else None, fields)
        said: dict[str, Any] = {"do": made.how, "fields": fields}
        if made.how == "answer":
            said = self._reply(made.answer, asked)
            if known and made.answer.left is not None:
                said["left"] = made.answer.left
        said["client"] = begun.provider is not None
        if made.compare is not None or made.how == "script":
            self._scripted.add(begun.span_id)
        if made.compare is not None:
            self._compare[begun.span_id] = made.compare
            said["propose"] = True
        return {**said, "fault": dict(made.fault)} if made.fault else said

    def _reply(self, answer: Answer, asked: AskedCall | AskedPrompt) -> dict[str, Any]:
        name, effect = asked.name, asked.effect
        said = reply(answer, self._answerer.latency_ns(answer), tool=name, effect=effect)
        if was_cancelled(answer.observation) and (wait := self._answerer.patience(answer)):
            self._waiting[asked.span_id] = (len(self._answered) - 1, asked)
            said |= {"latency_ns": 0, **wait}
        return said

    def _outwaited(self, span: str) -> dict[str, Any]:
        """Answer otherwise what waited to be cancelled: nothing cancels it, or not in time."""
        place, asked = self._waiting.pop(span)
        step = self._answered[place]
        if isinstance(asked, AskedPrompt):
            raise Stopped(f"{step.name}: {OUTWAITED}")
        answer = self._answerer.outwaited(asked, step.answer)
        self._answered[place] = replace(step, answer=answer)
        self._tainted = True
        if answer.rung == "stop":
            raise Stopped(answer.explanation)
        self._given[span] = Given(answer.observation, self._fields(answer))
        return reply(answer, self._answerer.latency_ns(answer), tool=asked.tool, effect=step.effect)

    # --- planners that decide ---------------------------------------------------------------------

    def _begin_deciding(self, request: Mapping[str, Any]) -> None:
        self._scribe.begin(
            RunBegun, parent=None, actor=self._planner_name, argument=request["input"]["value"]
        )
        if self._span.opening is not None:
            self._span.opening(self._scribe)

    def _end_deciding(self, ended: Exit) -> None:
        if self._scribe.over:
            return
        error = (ended.result or {}).get("error")
        if error or ended.kind != "done":
            told = error or {"type": ended.kind, "message": ended.detail}
            kind, text = told["type"], told["message"]
            failed = Observation(is_error=True, error_type=kind, error_message=text)
            self._scribe.end(RunEnded, self._scribe.root or "", parent=None, observation=failed)

    def _decide(self, proposed: dict[str, Any]) -> dict[str, Any]:
        if self._decisions >= self._span.start - 1 + MAX_DECISIONS:
            raise Endless(f"the planner has not stopped after {MAX_DECISIONS} decisions")
        # Redacted like any call: a secret in the planner's code is a placeholder in the record.
        decision: Any = self._scribe.redactor.redact(proposed).value
        self._decisions += 1
        number = self._decisions
        self._span.end_after(number)
        self._answerer.begin_decision(number)
        spoken = assistant_message(decision, number)
        results = self._act(decision, spoken, number)
        locked = self._answerer.next_history(decision, number)
        if locked is not None:
            append, more = locked, bool(locked)
            for message in locked:
                if isinstance(message, dict) and message["role"] == "user":
                    self._note_turn(message["content"])
        else:
            append = [spoken, *results]
            final = bool(decision["final"])
            turn = self._answerer.user_turn(decision["message"], number, final=final)
            more = turn is not None or not final
            if turn is not None:
                self._tainted = self._tainted or turn.tainted
                self._note_turn(turn.content)
                append.append({"role": "user", "content": turn.content})
        if more:
            return {"append": append}
        said = Observation(decision["message"], "captured")
        answer = said if decision["message"] is not None else None
        self._scribe.end(RunEnded, self._scribe.root or "", parent=None, observation=answer)
        return {"stop": True, "answer": decision["message"]}

    def _note_turn(self, content: JsonValue) -> None:
        self._scribe.note(MessageNoted, actor="user", actor_kind="user", observation=content)

    def _act(
        self, decision: Mapping[str, Any], spoken: Mapping[str, Any], number: int
    ) -> list[JsonValue]:
        """Record what the planner decided, and answer its calls one after the other."""
        root = self._scribe.root
        span = self._scribe.begin(LlmCallBegun, parent=root, actor=self._planner_name)
        said = Observation(provider_message(spoken), "captured")
        self._scribe.end(LlmCallEnded, span, parent=root, observation=said)
        results: list[JsonValue] = []
        for place, call in enumerate(decision["calls"]):
            contract = self._answerer.contract(call["tool"])
            effect = contract.effect if contract else "unknown"
            begun = self._scribe.begin(
                ToolCallBegun,
                parent=root,
                actor=call["tool"],
                argument=call["arguments"],
                effect=effect,
                contract_of=contract,
                tool_call_id=f"call_{number}_{place}",
                llm_span_id=span,
                call_index=place,
            )
            asked = AskedCall(call["tool"], call["arguments"], effect, contract, (), begun)
            described = tuple(call.get("described", ()))
            answer = self._call(replace(asked, described=described, key=None))
            seen = answer.observation or Observation()
            self._scribe.elapsed_ns += 1_000 + self._answerer.latency_ns(answer)
            self._scribe.end(
                ToolCallEnded,
                begun,
                parent=root,
                observation=seen,
                rung=answer.rung,
                tainted=self._tainted,
                observation_is_error=seen.is_error,
                **self._answerer.policy(answer),
            )
            results.append(tool_message(f"call_{number}_{place}", call["tool"], seen))
        return results
