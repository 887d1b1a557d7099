"""The cursor over a tape: decides how each call of a replay is answered, and executes none.

A call that no tool would take fails as it would have. Any other goes down the rungs until one
holds: unused and equal; equal after aliases and matchers; a reading given again; a reading of
another state of the world; and, where the record has no answer, what the user wants. Not
thread-safe: whoever runs the replay asks one question at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from replay.cancelled import OUTWAITED
from replay.matching import rungs
from replay.matching.aliases import Aliases
from replay.matching.binding import recorded_tool
from replay.matching.explain import not_compared, not_kept, place_of, times
from replay.matching.learning import Learner
from replay.matching.library import Library
from replay.matching.prompts import PromptPlayer
from replay.matching.question import Question, ask, nature_of, sees_writes
from replay.matching.rungs import Found
from replay.matching.unmatched import answer_unmatched, never_answered
from replay.matching.validating import Fault, find_fault
from replay.matching.values import Answer, AskedCall, AskedPrompt, Policies
from replay.matching.writes import WritesSoFar
from replay.tape import RecordedCall, Tape, set_apart
from tracekit.canonical import JsonValue, as_compared, class_differences, cut_digest, digest
from tracekit.events import Effect, Rung
from tracekit.trajectory import Call, Observation

EVIDENCE: tuple[Rung, ...] = ("exact", "normalised")
"""Rungs whose observations taint nothing."""

_DOWN = (rungs.beneath_same, rungs.fresh, rungs.beneath, rungs.again, rungs.stale)


class Player:
    """One replay's way through a tape: what was used up, and what it has written so far."""

    def __init__(self, tape: Tape, policies: Policies | None = None) -> None:
        self.tape = tape
        self.policies = policies or Policies()
        self._library = Library(tape)
        self._aliases = Aliases()
        self._writes = WritesSoFar()
        self._cut = {
            (one.call.tool, known): one.call.arguments
            for one in tape.calls
            if (known := cut_digest(one.call.arguments)) is not None
        }
        self._learner = Learner(tape) if self.policies.learn else None
        chosen = self.policies
        self._simple = not (chosen.maps or chosen.learn or chosen.exercise)
        self._prompts = PromptPlayer(tape, self._aliases, self._learner)
        self._asked_for: set[int] = set()
        self._asks: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._waiting: dict[str, RecordedCall] = {}
        self._shares: Counter[Rung] = Counter()
        self._prompt_shares: Counter[Rung] = Counter()
        self._answers = 0
        self._tainted_from: int | None = None

    def call(self, asked: AskedCall) -> Answer:
        """Decide how ``asked`` is answered."""
        asked = self._set_apart(self._as_recorded(asked))
        answer = self._at_once(asked) or self._looked_up(asked)
        self._shares[answer.rung] += 1
        self._count(answer)
        return answer

    def _as_recorded(self, asked: AskedCall) -> AskedCall:
        """Spell arguments as the record does that kept them whole, or a cut of them, by the digest.

        How large a value may be is a setting, of the recording and of a replay.
        """
        known = cut_digest(asked.arguments) if len(asked.arguments) == 1 else None
        if known is not None:
            calls = (one.call for one in self.tape.calls if one.call.tool == asked.tool)
            whole = (c.arguments for c in calls if _digest(c.arguments, c.argument_types) == known)
            found = next(whole, None)
        elif self._cut:
            found = self._cut.get((asked.tool, _digest(dict(asked.arguments), asked.types)))
        else:
            return asked
        return replace(asked, arguments=found, digest=None) if isinstance(found, dict) else asked

    def _set_apart(self, asked: AskedCall) -> AskedCall:
        """Set apart the arguments that stand where the record says whose a call is."""
        if asked.contract is None:
            return asked
        tool = recorded_tool(asked.tool, self.tape, self.policies.maps)
        recorded = self.tape.contracts.get(tool)
        compared = dict(asked.compared)
        arguments = set_apart(compared, asked.contract, recorded)
        if arguments == compared or not isinstance(arguments, dict):
            return asked
        return replace(asked, arguments=arguments, digest=None)

    def _at_once(self, asked: AskedCall) -> Answer | None:
        """Answer a call that is spelt as recorded and can mean one recorded call only.

        As most are; the rungs would come to the same answer, on a longer way.
        """
        if asked.digest is None or asked.under is not None or not self._simple:
            return None
        if tuple(asked.arguments) != self.tape.parameters.get(asked.tool):
            return None
        recorded = self._library.sole(asked.tool, asked.digest)
        if recorded is None or not recorded.servable or recorded.described:
            return None
        seen = sees_writes(asked, self.tape, self._writes)
        if seen is not None and seen != recorded.call.write_set:
            return None
        if seen is None and self._library.keys.count(asked.tool, asked.key):
            return None
        self._asks[asked.tool, recorded.key] += 1
        self._use_up(recorded)
        return Answer(
            rung="exact",
            observation=recorded.call.observation,
            recorded=recorded.call.event_id,
            explanation=f"{asked.tool}: {place_of(recorded)}",
        )

    def _looked_up(self, asked: AskedCall) -> Answer:
        """Go down the rungs."""
        question = ask(asked, self.tape, self.policies, self._aliases, self._writes, self._learner)
        if clash := question.first.clash:
            fault = self._fault(asked, question) if asked.declared is not None else None
            return self._unmatched(question, why=clash) if fault is None else _failing(asked, fault)
        self._asks[question.tool, question.first.key] += 1
        found = next((f for look in _DOWN if (f := look(self._library, question))), None)
        exact = found is not None and found.rung == "exact"
        fault = None if exact else self._fault(asked, question)
        if fault is not None:
            return _failing(asked, fault)
        if found is not None and question.nature == "write":
            unknown = not_compared(asked, self.tape.calls[found.place])
            if unknown:
                return self._unmatched(question, why=unknown)
        if found is not None:
            self._library.keys.pair(found.place, question.arguments, asked.key)
            return self._serve(question, found)
        other = rungs.other_key(self._library, question)
        keys, given = self._library.keys, (question.arguments, asked.key)
        answer = self._unmatched(
            question, why=None if other is None else keys.why_not(other, *given)
        )
        keys.note(question.tool, *given)
        return answer

    def outwait(self, asked: AskedCall, answer: Answer) -> Answer:
        """Answer a call by policy that was given a recorded cancellation, and was not cancelled."""
        recorded = self.tape.find(answer.recorded or "")
        if recorded is None:
            return never_answered(answer, asked.tool)
        question = ask(asked, self.tape, self.policies, self._aliases, self._writes, self._learner)
        why = f"recorded as {place_of(recorded)}, but {OUTWAITED}"
        made = self._unmatched(question, why=why, recorded=recorded)
        self.recount(answer.rung, made.rung)
        if self._tainted_from is None:
            self._tainted_from = self._answers
        return made

    def prompt(self, asked: AskedPrompt) -> Answer | None:
        """Find the recorded reply to an equal prompt; None where the record has none."""
        return self._count_prompt(self._prompts.answer(asked))

    def prompt_by_position(self, asked: AskedPrompt) -> Answer | None:
        """Give the next unused reply whatever was asked, always tainted; None at the end."""
        return self._count_prompt(self._prompts.by_position(asked))

    def give_reply(self, event_id: str) -> Answer:
        """Give the reply of one recorded model call, whatever was asked."""
        answer = self._prompts.give(event_id)
        self._count_prompt(answer)
        return answer

    def explain_prompt(self, asked: AskedPrompt) -> str:
        """Say where a prompt that is not in the record parts from the one expected next."""
        return self._prompts.explain(asked)

    def note_result(self, asked: AskedCall, observation: Observation) -> None:
        """Take note of what a call came back with that was simulated or really made."""
        recorded = self._waiting.pop(asked.span_id, None)
        if observation.is_error or nature_of(asked.effect, self._known(asked)) != "write":
            return
        if recorded is not None and recorded.call.event_id in self.tape.counted_writes:
            self._writes.add(recorded.call.event_id, recorded.call.contract)
        else:
            self._writes.add(f"new {self._answers} {asked.span_id}", asked.contract)

    def _known(self, asked: AskedCall) -> Effect | None:
        return self.tape.effect(recorded_tool(asked.tool, self.tape, self.policies.maps))

    def recount(self, was: Rung, now: Rung) -> None:
        """Count an answer on another rung: who was to make it could not."""
        self._shares[was] -= 1
        self._shares[now] += 1

    def mint(self, kind: str, site: str, occurrence: int) -> JsonValue | None:
        """Return the clock, id or random value that the recorded run was given there."""
        return self.tape.mint(kind, site, occurrence)

    def note_mint(self, kind: str, site: str, occurrence: int, value: JsonValue) -> None:
        """Let a value that the replay was given stand for the recorded one of the same place."""
        recorded = self.tape.mint(kind, site, occurrence)
        if recorded is not None:
            self._aliases.pair(value, recorded)

    def advance_to(self, decision: int, proposed: Player | None = None) -> None:
        """Use up the calls of all decisions before ``decision``, as if the replay had made them.

        ``proposed`` was asked what the planner proposed in their place.
        """
        for recorded in self.tape.calls:
            if 0 < recorded.call.decision < decision and recorded.index not in self._library.taken:
                self._library.keys.pair(recorded.index, recorded.arguments, None)
                self._use_up(recorded)
        if proposed is not None:
            self._library.keys.go_on(proposed._library.keys)

    def unconsumed(self) -> tuple[Call, ...]:
        """Return the recorded calls that the replay never asked for; covered ones never count."""
        gone = self._library.taken | self._asked_for
        return tuple(
            recorded.call
            for recorded in self.tape.calls
            if recorded.call.covered_by is None and recorded.index not in gone
        )

    def shares(self) -> dict[Rung, int]:
        """Count the calls answered on each rung."""
        return {rung: count for rung, count in self._shares.items() if count}

    def prompt_shares(self) -> dict[Rung, int]:
        """Count the prompts answered on each rung."""
        return dict(self._prompt_shares)

    @property
    def tainted_from(self) -> int | None:
        """The number, from 1, of the first answer that was no evidence; None where all were."""
        return self._tainted_from

    def _fault(self, asked: AskedCall, question: Question) -> Fault | None:
        if cut_digest(asked.arguments) is not None:  # nobody here knows what they are
            return None
        if asked.declared is not None:
            return find_fault(asked.tool, asked.arguments, asked.declared, self.tape)
        # The recorded contract knows an argument by the name that it had.
        given = question.arguments if self.policies.maps else asked.arguments
        assert isinstance(given, Mapping)  # as those of what was asked
        return find_fault(asked.tool, given, question.contract, self.tape)

    def _serve(self, question: Question, found: Found) -> Answer:
        recorded = self.tape.calls[found.place]
        if self._is_exercised(question, found):
            self._use_up(recorded, done=False)
            where = f"recorded as {place_of(recorded)}, made in the sandbox"
            return self._unmatched(question, why=where, recorded=recorded)
        if found.rung == "stale" and self.policies.stale == "error":
            self._asked_for.add(found.place)
            return self._unmatched(question, why=found.why, recorded=recorded, refuse=True)
        if not found.again:
            self._use_up(recorded, done=recorded.servable)
        if not recorded.servable:
            return self._unmatched(question, why=not_kept(recorded), recorded=recorded)
        why = found.why
        if found.rung == "reused":
            self._account(question, found)
            why = self._how_often(question, recorded)
        elif self._learner is not None and question.nature != "write":
            learnt = self._learner.learn(recorded.arguments, question.arguments)
            why = ", ".join(part for part in (why, learnt) if part)
        unknown = not_compared(question.asked, recorded)
        why = ", ".join(part for part in (why, unknown) if part)
        where = place_of(recorded)
        return Answer(
            rung=found.rung,
            observation=recorded.call.observation,
            tainted=found.tainted or found.rung not in EVIDENCE or bool(unknown),
            ambiguous=found.ambiguous,
            recorded=recorded.call.event_id,
            explanation=f"{question.asked.tool}: {where}" + (f", {why}" if why else ""),
        )

    def _is_exercised(self, question: Question, found: Found) -> bool:
        """Whether a write that the record holds is to be made in its sandbox all the same."""
        if not self.policies.exercise or question.nature != "write" or found.again:
            return False
        wanted = self.policies.for_unmatched(question.asked.tool, question.effect)
        return wanted == "sandbox"

    def _unmatched(
        self,
        question: Question,
        *,
        why: str | None = None,
        recorded: RecordedCall | None = None,
        refuse: bool = False,
    ) -> Answer:
        answer = answer_unmatched(
            self.tape,
            self.policies,
            question,
            self._library,
            why=why if why is not None else self._used_up(question),
            recorded=recorded,
            forced="error" if refuse else None,
        )
        if recorded is not None and answer.observation is None:
            self._waiting[question.asked.span_id] = recorded
        if answer.rung == "nearest" and (like := self.tape.find(answer.recorded or "")):
            self._asked_for.add(like.index)
        return answer

    def _use_up(self, recorded: RecordedCall, *, done: bool = True) -> None:
        """Take a call and, in silence, all that it covers; count the writes among them."""
        event = recorded.call.event_id
        for place in (recorded.index, *self.tape.beneath.get(event, ())):
            if place in self._library.taken:
                continue
            self._library.take(place)
            one = self.tape.calls[place]
            if done and one.call.event_id in self.tape.counted_writes:
                self._writes.add(one.call.event_id, one.call.contract)
        self._prompts.consume(self.tape.prompts_beneath.get(event, ()))

    def _account(self, question: Question, found: Found) -> None:
        """Let a reading given again stand for one that is still unused, so that none seems missing.

        That one saw another state of the world; but the planner did ask, as often as was recorded.
        """
        queue = None if found.shelf is None else found.shelf.queue(None, covered=False)
        gone = self._library.taken | self._asked_for if self._asked_for else self._library.taken
        if queue is not None and (place := queue.next(question.asked.path, gone)) is not None:
            self._asked_for.add(place)

    def _how_often(self, question: Question, recorded: RecordedCall) -> str:
        covering = self.tape.find(recorded.call.covered_by or "")
        if covering is not None:
            return f"recorded only beneath {covering.call.tool}, which was served whole"
        places = self._recorded_places(question)
        asked = self._asks[question.tool, question.first.key]
        if asked <= len(places):
            return "given again, since no write came between"
        return f"recorded {times(len(places))}, asked {times(asked)}"

    def _used_up(self, question: Question) -> str | None:
        """Say why equal calls of the record do not answer; None where there are none."""
        places = self._recorded_places(question)
        if not places:
            return None
        covering = self.tape.find(self.tape.calls[places[0]].call.covered_by or "")
        if covering is not None:
            return f"recorded only beneath {covering.call.tool}, which was served whole"
        asked = self._asks[question.tool, question.first.key]
        often = f"recorded {times(len(places))}, asked {times(max(asked, len(places) + 1))}"
        return f"{often}; a write is answered as often as it was recorded"

    def _recorded_places(self, question: Question) -> tuple[int, ...]:
        """Where equal calls stand on the tape; the covered ones only if there are no others."""
        places = self.tape.by_key.get((question.tool, question.first.key), ())
        if types := question.types:
            kinds = ((p, self.tape.calls[p].call.argument_types) for p in places)
            places = tuple(p for p, kind in kinds if not class_differences(kind, types))
        planned = bisect_left(places, len(self.tape.calls) - len(self.tape.trajectory.covered))
        return places[:planned] or places

    def _count(self, answer: Answer) -> None:
        self._answers += 1
        if answer.tainted and self._tainted_from is None:
            self._tainted_from = self._answers

    def _count_prompt(self, answer: Answer | None) -> Answer | None:
        if answer is not None:
            self._prompt_shares[answer.rung] += 1
            self._count(answer)
        return answer


def _digest(arguments: JsonValue, types: Mapping[str, JsonValue]) -> str:
    return digest(as_compared(arguments, types))


def _failing(asked: AskedCall, fault: Fault) -> Answer:
    return Answer(
        rung="invalid",
        observation=fault.observation,
        tainted=not fault.certain,
        explanation=f"{asked.tool}: {fault.text}",
    )
