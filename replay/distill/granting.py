"""What a planner that does right is answered, and what it must be shown, as far as that is known.

A run holds no answer to a write that was forgotten. A run that went right does; so does the failing
one of a payment that only should have had another key; else a tool may declare what it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from replay.case import Fixture
from replay.case.expected import CallPattern, patterns
from replay.case.schema import holds
from replay.caserun import CaseResult
from replay.distill.beside import Grant, Grants
from replay.distill.draft import Draft, draft_of
from replay.distill.judge import Target, errors_of, offending_call, seen_before, shown_to
from replay.distill.provenance import Shown
from replay.distill.sampling import sample_of
from replay.distill.sightings import Choice, calls_of
from replay.oracles import OracleFinding
from tracekit.canonical import JsonValue, json_text
from tracekit.contract import Contract
from tracekit.trajectory import Trajectory


def compared(start: Draft, reference: Trajectory) -> tuple[tuple[str, ...], Grants]:
    """Compare the writes of a run that went right with those that ``start`` answers.

    Returns:
        The observations of ``start`` that answer one of them, and the answers that it lacks.
    """
    theirs = draft_of(reference, kind="decide" if start.case.script else "agent")
    ours: dict[str, list[str]] = {}
    for fixture in start.case.observations:
        ours.setdefault(_asked(fixture), []).append(fixture.id)
    taken = set(start.seen)
    shared: list[str] = []
    lacked: list[Grant] = []
    for fixture in theirs.case.observations:
        if fixture.tool not in theirs.writes:
            continue
        if ours.get(_asked(fixture)):
            shared.append(ours[_asked(fixture)].pop(0))
            continue
        number = theirs.seen[fixture.id]
        renamed = {"id": _free(fixture.tool, taken), "delay_ms": 0}
        origin = f"decision {number} of run {reference.run_id}, which went right"
        lacked.append(Grant(fixture.model_copy(update=renamed), number, origin))
    return tuple(shared), tuple(lacked)


def declared_answers(seen: CaseResult, known: Collection[str], granted: Grants) -> Grants:
    """Answer writes that no run knows of, in the shapes that their tools declare.

    Args:
        seen: What a planner that does right did.
        known: Tools that the run knows.
        granted: What it is answered so far.
    """
    refused = {step.span_id for step in seen.unmatched}
    taken = {one.fixture.id for one in granted} | {f.id for f in seen.case.observations}
    found: list[Grant] = []
    for call in calls_of(seen):
        if call.span_id in refused and call.tool not in known and call.contract is not None:
            pattern = CallPattern(tool=call.tool, arguments=_given(call.arguments))
            found += _of_shape(pattern, [call.contract], taken)
    return tuple(found)


def declared_answer(choice: Choice, start: Draft, tools: Iterable[Contract]) -> Grants:
    """Answer a write that is required and that nothing answers, in the shape that is declared."""
    answered = {fixture.tool for fixture in start.case.observations}
    taken = set(start.seen)
    known = tuple(tools)
    return tuple(
        grant
        for pattern in patterns(choice.expected.required_tools)
        if pattern.tool not in answered
        for grant in _of_shape(pattern, known, taken)
    )


def done_rightly(
    start: Draft,
    target: Target,
    choice: Choice,
    full: CaseResult,
    found: OracleFinding,
    shared: Sequence[str],
) -> tuple[Draft, Target]:
    """Have who does right shown and answered what it asks for, where no planner does it.

    Args:
        start: The whole run.
        target: The failure that is meant; it grants what the run lacks.
        choice: How that was chosen.
        full: What the failing planner did on the whole run.
        found: What is wrong with that.
        shared: The observations that answer writes which are right.

    Returns:
        What is left of the draft without what stands beside it now, and the failure with that.
    """
    granted = target.granted
    tool = choice.lacking.tool if choice.lacking is not None else found.tool
    if start.case.script:  # who decides goes on without an answer: only what is missing is given
        shared, missing = (), choice.oracle == "required_tools"
        granted = tuple(one for one in granted if missing and one.fixture.tool == tool)
    barred = [p for p in patterns(choice.expected.forbidden_tools) if p.key is None]
    granted = tuple(one for one in granted if not _barred(one.fixture, barred))
    ours = [f for f in start.case.observations if f.id in shared]
    names = {fixture.id for fixture in ours if not _barred(fixture, barred)}
    names = {*names, *_again(start, choice, full, found)} - {*seen_before(full, found)}
    beside = [_of_run(f, start) for f in start.case.observations if f.id in names]
    about = [] if start.case.script else [*ours, *(one.fixture for one in granted)]
    needs = _Needs(start, shown_to(full))
    needed = [value for f in about if f.tool == tool for value in needs.of(f)]
    less = start.but(observations=tuple(f for f in start.case.observations if f.id not in names))
    grants = [replace(g, needs=needs.of(g.fixture)) for g in (*beside, *granted)]
    return less, _possible(target, tuple(grants), needed, full)


def _possible(target: Target, grants: Grants, needed: list[str], full: CaseResult) -> Target:
    flow = replace(target.flow, needles=tuple(dict.fromkeys((*target.flow.needles, *needed))))
    return replace(
        target,
        flow=flow,
        lacking=tuple(dict.fromkeys((*target.lacking, *needed))),
        errors=errors_of(full) if grants else None,
        granted=grants,
    )


def _of_run(fixture: Fixture, start: Draft) -> Grant:
    number = start.seen[fixture.id]
    origin = f"decision {number} of the run; for a planner that does right"
    return Grant(fixture.model_copy(update={"delay_ms": 0}), number, origin)


@dataclass
class _Needs:
    """Tells of which values of a call a planner must be shown."""

    start: Draft
    shown: str
    _by_tool: dict[str, Shown] = field(default_factory=dict)

    def of(self, fixture: Fixture) -> tuple[str, ...]:
        """The values of the call that an observation answers, of which the planner was shown."""
        if fixture.tool not in self._by_tool:
            self._by_tool[fixture.tool] = Shown(self.start, fixture.tool)
        flow = self._by_tool[fixture.tool].flow_into(fixture.arguments or {})
        return tuple(value for value in flow.values if value in self.shown)


def hint_of_fixed(seen: CaseResult) -> str:
    """Say what may be done where a planner that is to do right does not pass the whole run."""
    refused = {step.span_id for step in seen.unmatched}
    for call in calls_of(seen):
        if call.span_id in refused and call.writes:
            return (
                f"nothing says what {call.tool} comes back with: name a run in which it was called "
                "with --reference, or declare the tool's result_schema"
            )
    return "--fixed names a planner that does right; leave it out if there is none"


def _again(start: Draft, choice: Choice, full: CaseResult, found: OracleFinding) -> Iterator[str]:
    """The answers to the offending call where it should be made, but for its key."""
    call = offending_call(full, found)
    if call is None or not any(p.key for p in patterns(choice.expected.forbidden_tools)):
        return
    given = {step.span_id: step.answer.recorded for step in full.answered}
    made = [_asked(f) for f in start.case.observations if f.id == given.get(call.span_id)]
    yield from (f.id for f in start.case.observations if _asked(f) in made)


def _barred(fixture: Fixture, patterns: Sequence[CallPattern]) -> bool:
    return any(
        fixture.tool == one.tool and holds(fixture.arguments or {}, one.arguments or {})
        for one in patterns
    )


def _of_shape(pattern: CallPattern, tools: Iterable[Contract], taken: set[str]) -> Iterator[Grant]:
    schema = next((t.result_schema for t in tools if t.name == pattern.tool and t.writes), None)
    for value in sample_of(schema) if schema else ():
        fixture = Fixture(
            id=_free(pattern.tool, taken),
            tool=pattern.tool,
            arguments=_given(pattern.arguments),
            returns=value,
        )
        yield Grant(fixture, 0, "in no run: only of the shape that the tool declares")


def _given(arguments: JsonValue) -> dict[str, JsonValue] | None:
    return arguments if isinstance(arguments, dict) and arguments else None


def _asked(fixture: Fixture) -> str:
    return f"{fixture.tool} {json_text(fixture.arguments)}"


def _free(tool: str, taken: set[str]) -> str:
    number, name = 1, tool
    while name in taken:
        number += 1
        name = f"{tool}-{number}"
    taken.add(name)
    return name
