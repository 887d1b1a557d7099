"""Whether a candidate still shows the failure that is meant, and is worth being a case.

It does if the failing planner fails for the same reason with the same values, on nothing but what
the candidate holds, and the fixed planner passes having seen what the failure rests on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.case import Case, Expected, Reason
from replay.caserun import CaseResult, CaseRunner
from replay.distill.beside import Grants, with_grants
from replay.distill.draft import Draft
from replay.distill.provenance import Flow
from replay.distill.telling import mistaken
from replay.oracles import OracleFinding
from replay.oracles.judging import cost_of
from tracekit.canonical import digest, json_text
from tracekit.trajectory import Call


@dataclass(frozen=True)
class Target:
    """The failure that is meant."""

    reason: Reason
    expected: Expected
    flow: Flow
    place: str | None = None
    """Where in the code of the planner an error came up."""
    unanswered: frozenset[str] = frozenset()
    """Tools that were asked in vain on the whole run already."""
    consumes: bool = True
    """Whether the failure comes after an observation."""
    lacking: tuple[str, ...] = ()
    """Values of the calls that should be made: who is to make them must be shown them."""
    errors: frozenset[Reason] | None = None
    """What it may end with, where it can go on after the fault; None where that is no matter."""
    granted: Grants = ()
    """What a planner that does right is answered, beside what is left of the run."""

    def found_in(self, seen: CaseResult) -> OracleFinding | None:
        """The failure that is meant, where it is seen."""
        found = (f for f in seen.findings if f.signature == self.reason)
        return next((f for f in found if f.place == self.place), None)


@dataclass
class Judge:
    """Answers the question of a reduction."""

    failing: CaseRunner
    fixed: CaseRunner | None
    target: Target
    notes: dict[str, str] = field(default_factory=dict)
    """Digest of a candidate → why it is none."""
    consumed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Digest of what still fails → observations without which it would say nothing."""
    runs: int = 0
    """How often a planner was run."""
    cost_usd: float = 0.0
    """What those runs cost, as far as the replies say."""
    _known: dict[tuple[int, str], CaseResult] = field(default_factory=dict)

    def __call__(self, draft: Draft) -> bool:
        """Whether the candidate is as good as the whole run."""
        why = self._objection(draft)
        if why is not None:
            self.notes[key_of(draft)] = why
        return why is None

    def know(self, runner: CaseRunner, seen: CaseResult) -> None:
        """Take a run that was made already for the one that would be made."""
        self._known[id(runner), digest(seen.case.as_data())] = seen

    def beside(self, failing: CaseRunner, fixed: CaseRunner | None) -> Judge:
        """One that judges alike with planners of its own, and notes in the same place."""
        return Judge(failing, fixed, self.target, notes=self.notes, consumed=self.consumed)

    def _objection(self, draft: Draft) -> str | None:
        if (tool := mistaken(draft)) is not None:
            return f"an observation of {tool} would answer a call that came to another one"
        whole = with_grants(draft, self.target.granted)
        case = whole.case.model_copy(update={"expected": self.target.expected})
        seen = self._run(self.failing, case)
        found = self.target.found_in(seen)
        if found is None:
            return self._otherwise(seen)
        objection = self._other_call(found, seen) or self._unanswered(seen, found)
        objection = objection or self._ends_otherwise(seen)
        if objection is not None:
            return objection
        names = seen_before(seen, found)
        shown = shown_to(seen) if self.target.lacking else ""
        if lost := [value for value in self.target.lacking if value not in shown]:
            return f"what should be done could not be: {lost[0]} is not shown"
        if self.target.consumes and not names:
            return "rests on no observation"
        objection, shared = self._fix_objection(case, names)
        self.consumed[key_of(draft)] = tuple(dict.fromkeys(shared))
        return objection

    def _otherwise(self, seen: CaseResult) -> str:
        """What is seen where it is not the failure that is meant."""
        if others := ", ".join(str(finding.signature) for finding in seen.findings):
            elsewhere = any(f.signature == self.target.reason for f in seen.findings)
            return f"fails elsewhere: {others}" if elsewhere else f"fails otherwise: {others}"
        for step in seen.unmatched:
            if step.name not in self.target.unanswered:
                return f"{step.name} has no answer"
        return _passing(seen)

    def _other_call(self, found: OracleFinding, seen: CaseResult) -> str | None:
        """The same tool with other values is another failure."""
        flow = self.target.flow
        calls = seen.trajectory.calls if seen.trajectory else ()
        near = [call for call in calls if call.tool == found.tool]
        wanted = flow.pinned or flow.parts
        if not wanted or not near or any(flow.is_in(call.arguments) for call in near):
            return None
        return f"{found.tool} is called with other values"

    def _unanswered(self, seen: CaseResult, found: OracleFinding) -> str | None:
        """What comes after a call without an answer is no evidence."""
        until = _place_of(seen, found)
        for step in seen.answered[:until]:
            if step.answer.rung == "error" and step.name not in self.target.unanswered:
                return f"{step.name} has no answer"
        return None

    def _ends_otherwise(self, seen: CaseResult) -> str | None:
        """Who does right goes on from where the fault was: what that takes must not be left out."""
        if self.target.errors is None:
            return None
        ended = errors_of(seen) - self.target.errors
        return f"ends otherwise: {', '.join(map(str, ended))}" if ended else None

    def _fix_objection(self, case: Case, names: list[str]) -> tuple[str | None, list[str]]:
        """What keeps the fixed planner from proving the fix, and what both planners were shown."""
        if self.fixed is None:
            return None, names
        right = self._run(self.fixed, case)
        shared = [name for name in names if name in right.consumed]
        if not right.passed:
            return f"the fixed planner does not pass: {right.verdict}", shared
        for step in right.unmatched:
            if step.name not in self.target.unanswered:
                return f"the fixed planner's {step.name} has no answer", shared
        if self.target.consumes and not shared:
            return "the fixed planner is shown nothing of it", shared
        unseen = [n for n in names if n in self.target.flow.carriers and n not in shared]
        return (f"the fixed planner is not shown {unseen[0]}" if unseen else None), shared

    def _run(self, runner: CaseRunner, case: Case) -> CaseResult:
        known = self._known.pop((id(runner), digest(case.as_data())), None)
        if known is not None:
            return known
        self.runs += 1
        seen = runner.run(case)
        self.cost_usd += cost_of(seen.trajectory) or 0.0
        return seen


def key_of(draft: Draft) -> str:
    """What makes two candidates the same one."""
    return digest(draft.case.as_data())


def offending_call(seen: CaseResult, found: OracleFinding) -> Call | None:
    """The call at fault, where the finding is about one."""
    calls = seen.trajectory.calls if seen.trajectory else ()
    exact = next((call for call in calls if call.event_id == found.event_id), None)
    return exact or next((call for call in calls if call.tool == found.tool), None)


def _place_of(seen: CaseResult, found: OracleFinding) -> int:
    """How many answers came before the call at fault; all where there is none."""
    call = offending_call(seen, found)
    if call is None:
        return len(seen.answered)
    spans = [step.span_id for step in seen.answered]
    return spans.index(call.span_id) if call.span_id in spans else len(spans)


def seen_before(seen: CaseResult, found: OracleFinding | None) -> list[str]:
    """Observations that were given before the fault."""
    until = len(seen.answered) if found is None else _place_of(seen, found)
    return [step.answer.recorded for step in seen.answered[:until] if step.answer.recorded]


def errors_of(seen: CaseResult) -> frozenset[Reason]:
    """The errors that a planner ended with."""
    return frozenset(found.signature for found in seen.findings if found.oracle == "error")


def shown_to(seen: CaseResult) -> str:
    """All that the user said and that tools came back with, as far as it came to that."""
    case = seen.case
    said = [case.input, *(m.content for m in case.history if m.role == "user"), *case.turns]
    given = [
        fixture.returns if fixture.error is None else fixture.error.message
        for fixture in case.observations
        if fixture.id in seen.consumed
    ]
    return "\n".join(json_text(value) for value in (*said, *given))


def _passing(seen: CaseResult) -> str:
    return "passes" if seen.verdict.kind == "pass" else str(seen.verdict)
