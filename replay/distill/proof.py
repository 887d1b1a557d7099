"""What shows that a case means something: it can pass, and doing nothing does not pass it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.case import CallPattern, Case, Expected, ScriptedDecision
from replay.case.model import ProposedCall, patterns
from replay.case.schema import holds
from replay.caserun import CaseResult, CaseRunner
from replay.distill.stand_ins import DOES_NOTHING, FOLLOWS, STOPS_EARLY
from replay.oracles import OracleFinding
from replay.replayer import ReplayOptions
from tracekit.errors import DistillError
from tracekit.trajectory import Call

_DONE = "done"


def passing_script(
    seen: CaseResult, expected: Expected, found: OracleFinding
) -> tuple[ScriptedDecision, ...]:
    """What the failing planner did, without what it must not and with what it must do."""
    forbidden = list(patterns(expected.forbidden_tools))
    made = list(_decisions(seen, forbidden, found))
    calls = [call for decision in made for call in decision.calls]
    for pattern in patterns(expected.required_tools):
        if not any(_fits(call.tool, call.arguments, pattern) for call in calls):
            lacking = ProposedCall(tool=pattern.tool, arguments=pattern.arguments or {})
            made.append(ScriptedDecision(calls=(lacking,)))
    answer = seen.trajectory.answer.value if seen.trajectory else None
    if expected.answer is not None and expected.answer.contains:
        answer = " ".join(expected.answer.contains)
    last = ScriptedDecision(message=_DONE if answer in (None, "") else answer)
    return (*made, last)


def _decisions(
    seen: CaseResult, forbidden: list[CallPattern], found: OracleFinding
) -> Iterator[ScriptedDecision]:
    for decision in seen.trajectory.decisions if seen.trajectory else ():
        calls = tuple(
            ProposedCall(tool=call.tool, arguments=call.arguments)
            for call in decision.calls
            if isinstance(call.arguments, dict) and not _offends(call, forbidden, found)
        )
        if calls:
            yield ScriptedDecision(calls=calls)


def _offends(call: Call, forbidden: list[CallPattern], found: OracleFinding) -> bool:
    at_fault = found.oracle in ("no_repeat", "call_limits") and call.event_id == found.event_id
    return at_fault or any(_fits(call.tool, call.arguments, pattern) for pattern in forbidden)


def _fits(tool: str, arguments: object, pattern: CallPattern) -> bool:
    if tool != pattern.tool:
        return False
    return pattern.arguments is None or holds(arguments, pattern.arguments)  # type: ignore[arg-type]  # arguments are JSON


def check_it_can_pass(
    case: Case, script: Sequence[ScriptedDecision], options: ReplayOptions
) -> None:
    """Show that a planner exists which passes.

    Raises:
        DistillError: the one that leaves out what is at fault does not.
    """
    with CaseRunner(FOLLOWS, options=options) as runner:
        seen = runner.run(case.model_copy(update={"script": tuple(script)}))
    if not seen.passed:
        raise DistillError(
            "the case could never turn green: what the planner did, without what is at fault, "
            f"does not pass it: {seen.verdict}",
            hint="name a planner that does right with --fixed",
        )


def check_it_is_not_vacuous(
    case: Case, scripts: Sequence[Sequence[ScriptedDecision]], options: ReplayOptions
) -> None:
    """Show that neither doing nothing nor stopping early passes.

    Raises:
        DistillError: one of them does.
    """
    for planner, what in ((DOES_NOTHING, "does nothing"), (STOPS_EARLY, "stops after one call")):
        with CaseRunner(planner, options=options) as runner:
            for script in scripts:
                seen = runner.run(case.model_copy(update={"script": tuple(script)}))
                if seen.passed:
                    raise DistillError(
                        f"the case would be vacuous: a planner that {what} passes it",
                        hint="say what a planner must do: --require TOOL, --answer-contains TEXT",
                    )


def script_of(seen: CaseResult) -> tuple[ScriptedDecision, ...]:
    """What a planner did, as a script."""
    return tuple(
        ScriptedDecision(
            calls=tuple(
                ProposedCall(tool=call.tool, arguments=call.arguments)
                for call in decision.calls
                if isinstance(call.arguments, dict)
            ),
            message=decision.message,
        )
        for decision in (seen.trajectory.decisions if seen.trajectory else ())
    )
