"""A tape's answers with faults put in, and what a replay with faults proves.

A fault is the user's own premise, not a doubt about the record: that the planner ends in an error
under it is decisive, as long as everything else before was evidence. It never makes a pass: what
the planner was told is not what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replay.answering import Endless, PromptAnswer
from replay.arranged import ArrangedAnswers
from replay.faults import PlacedFault, emptied, fail_call
from replay.matching import Answer, AskedCall, AskedPrompt
from replay.result import Finding, Verdict
from replay.session import MAX_CALLS, SessionResult


class FaultyAnswers(ArrangedAnswers):
    """Answers one replay of one tape; some of its steps go wrong."""

    def __init__(self, *args: Any, faults: Sequence[PlacedFault] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._faults = tuple(faults)
        self._requests = 0
        self._named: Counter[str] = Counter()
        self._injected: dict[str, PlacedFault] = {}
        self._waits: dict[int, float] = {}
        self._kept_back: PromptAnswer | None = None

    def call(self, asked: AskedCall) -> Answer:
        """Answer a tool call, or let it fail; the recorded answer then waits for a retry."""
        placed = self._next(asked.tool, "tool")
        if placed is None:
            return super().call(asked)
        self._injected[asked.span_id] = placed
        if placed.fault.kind == "empty":
            found = super().call(asked)
            return _simulated(placed, found, observation=emptied(found.observation))
        failed = fail_call(placed.fault, asked.tool)
        answer = _simulated(placed, Answer("simulate", None), observation=failed)
        self._waits[id(answer)] = placed.fault.seconds or 0
        return answer

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Answer a request to a model, or let it go wrong."""
        self._requests += 1
        if self._requests > MAX_CALLS:
            raise Endless(f"the planner has not stopped after {MAX_CALLS:,} requests to a model")
        placed = self._next(asked.name, "model")
        if placed is None:
            kept, self._kept_back = self._kept_back, None
            return kept or super().prompt(asked, provider=provider)
        self._injected[asked.span_id] = placed
        fault = {"kind": placed.fault.kind, "detail": placed.fault.detail}
        if not placed.fault.damages:
            answer = _simulated(placed, Answer("simulate", None))
            return PromptAnswer("fault", answer, fault=fault)
        found = super().prompt(asked, provider=provider)
        if self._model_mode == "positional":
            self._kept_back = found  # the next request stands where this one stood
        return replace(found, answer=_simulated(placed, found.answer), fault=fault)

    def latency_ns(self, answer: Answer) -> int:
        """How long a call took: as recorded, or as long as the fault says."""
        waited = self._waits.get(id(answer)) if self._waits else None
        return super().latency_ns(answer) if waited is None else int(waited * 1e9)

    def _next(self, name: str, of: Any) -> PlacedFault | None:
        """Count a step, and give the fault that happens there."""
        if not self._faults:
            return None
        self._named[name] += 1
        for placed in self._faults:
            numbered = of == "model" and placed.request == self._requests
            named = placed.name == name and placed.number in (None, self._named[name])
            if placed.fault.fits(of) and (numbered or (placed.request is None and named)):
                return placed
        return None

    def weigh_faults(
        self, verdict: Verdict, findings: Sequence[Finding], done: SessionResult
    ) -> Verdict:
        """What ``verdict`` is worth with the faults that were put in, and those that were not."""
        if not self._faults or verdict.kind == "fail":
            return verdict
        doubt = next(
            (
                place
                for place, step in enumerate(done.answered)
                if step.answer.tainted and step.span_id not in self._injected
            ),
            None,
        )
        met = ", ".join(dict.fromkeys(map(str, self._injected.values())))
        failed = [
            f"with {met}: {f.text}"
            for f in findings
            if f.kind == "planner" and (doubt is None or f.after <= doubt)
        ]
        if failed and met and (done.stopped is None or done.endless) and not _unrecorded(done):
            return Verdict("fail", tuple(failed))
        unmet = [placed for placed in self._faults if placed not in self._injected.values()]
        if unmet:
            reasons = (
                f"the planner never came to fault {placed}"
                + ("; it asked no model" if placed.request and not self._requests else "")
                for placed in unmet
            )
            return Verdict("not evaluated", (*reasons, *verdict.reasons))
        return verdict


def _unrecorded(done: SessionResult) -> bool:
    error = (done.exit.result or {}).get("error") or {}
    return bool(error.get("type") == "NotRecorded")


def _simulated(placed: PlacedFault, found: Answer, **changes: Any) -> Answer:
    said = f"fault {placed}, which you put in"
    return replace(found, rung="simulate", tainted=True, explanation=said, **changes)
