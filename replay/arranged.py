"""A tape's answers as the user arranged them.

Observations that were set, a late start, and calls that really run since the user said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replay.answering import PromptAnswer, Stopped
from replay.doing import Doing
from replay.experiment import Override
from replay.matching import Answer, AskedCall, AskedPrompt, Player
from replay.models import Model
from replay.prefix import given_models
from replay.tape_answers import Mode, ModelMode, TapeAnswers
from replay.workers import KINDS


class ArrangedAnswers(TapeAnswers):
    """Answers one replay of one tape, with what the user arranged for it."""

    def __init__(
        self,
        player: Player,
        *,
        mode: Mode,
        model_mode: ModelMode,
        model: Model | None,
        deciding: bool,
        start: int = 1,
        overrides: Mapping[str, Override] | None = None,
        doing: Doing | None = None,
    ) -> None:
        super().__init__(player, mode=mode, model_mode=model_mode, model=model)
        self.unserved = dict(overrides or {})
        """Observations that the user set and the planner has not been given, by event."""
        self._overrides = dict(self.unserved)
        self._prefix = given_models(self._record, start) if start > 1 and not deciding else ()
        self._given = 0
        self._doing = doing
        if start > 1 and deciding:
            self._turns = [turn for turn in self._turns if turn.before_decision > start]
            player.advance_to(start)

    def call(self, asked: AskedCall) -> Answer:
        """Answer a tool call from the record, or by making it where the user lets it run."""
        answer = self._made(asked, super().call(asked))
        override = self._overrides.get(answer.recorded or "")
        if override is None or answer.observation is None:
            return answer
        self.unserved.pop(answer.recorded or "", None)
        return replace(answer, explanation=f"{answer.explanation}, set by you: {override}")

    def outwaited(self, asked: AskedCall, answer: Answer) -> Answer:
        """Answer a call that waited for longer than the record knows of."""
        return self._made(asked, super().outwaited(asked, answer))

    def _made(self, asked: AskedCall, wanted: Answer) -> Answer:
        """Make the call, where that is what the user wants for it."""
        if wanted.rung not in KINDS or wanted.observation is not None or self._doing is None:
            return wanted
        made = self._doing.run(asked, wanted)
        if made.rung != wanted.rung:
            self.player.recount(wanted.rung, made.rung)
        elif made.observation is not None:
            self.player.note_result(asked, made.observation)
        return made

    def policy(self, answer: Answer) -> Mapping[str, Any]:
        """What was decided about a call: by the guard now, or when it was recorded."""
        if answer.rung == "sandbox" and self._doing is not None:
            return self._doing.columns(answer) or super().policy(answer)
        return super().policy(answer)

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Answer a request to a model; before the first free decision as was recorded."""
        if self._given >= len(self._prefix):
            return super().prompt(asked, provider=provider)
        recorded = self._prefix[self._given]
        self._given += 1
        if (asked.path, asked.name) != (recorded.path, recorded.name):
            raise Stopped(
                f"cannot start there: request {self._given} to a model comes from another place "
                "in the code than the recorded one"
            )
        return PromptAnswer("answer", self.player.give_reply(recorded.event_id))
