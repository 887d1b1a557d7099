"""What shows that a case means something: it can pass, and doing nothing does not pass it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from replay.case import CallPattern, Case, Expected, ScriptedDecision
from replay.case.expected import patterns
from replay.case.model import ProposedCall
from replay.case.schema import holds
from replay.caserun import CaseResult, CaseRunner
from replay.distill.stand_ins import follows
from replay.oracles import OracleFinding
from replay.replayer import ReplayOptions
from tracekit.canonical import json_text
from tracekit.errors import DistillError
from tracekit.trajectory import Call

Script = tuple[ScriptedDecision, ...]
_DONE = "done"
_REPEATING = ("no_repeat", "no_news", "after_error")
"""Oracles that a planner passes which makes no call twice."""


def passing_script(seen: CaseResult, expected: Expected, found: OracleFinding) -> Script:
    """What the failing planner did, without what it must not and with what it must do."""
    forbidden = list(patterns(expected.forbidden_tools))
    made = list(_decisions(seen, forbidden, found))
    calls = [call for decision in made for call in decision.calls]
    for pattern in patterns(expected.required_tools):
        if not any(_fits(call.tool, call.arguments, pattern) for call in calls):
            lacking = ProposedCall(tool=pattern.tool, arguments=pattern.arguments or {})
            made.append(ScriptedDecision(calls=(lacking,)))
    ended = seen.trajectory.answer if seen.trajectory else None
    answer = None if ended is None or ended.is_error else ended.value
    if expected.answer is not None and expected.answer.contains:
        answer = " ".join(expected.answer.contains)
    said = sum(not decision.calls for decision in made)
    made += [ScriptedDecision(message=_DONE)] * (len(seen.case.turns) - said)
    return (*made, ScriptedDecision(message=_DONE if answer in (None, "") else answer))


def _decisions(
    seen: CaseResult, forbidden: list[CallPattern], found: OracleFinding
) -> Iterator[ScriptedDecision]:
    turns = len(seen.case.turns)
    made: set[str] | None = set() if found.oracle in _REPEATING else None
    for decision in seen.trajectory.decisions if seen.trajectory else ():
        calls = tuple(
            ProposedCall(tool=call.tool, arguments=call.arguments)
            for call in decision.calls
            if isinstance(call.arguments, dict) and not _offends(call, forbidden, made)
        )
        if calls:
            yield ScriptedDecision(calls=calls)
        elif not decision.calls and turns:
            turns -= 1
            yield ScriptedDecision(message=decision.message)


def _offends(call: Call, forbidden: list[CallPattern], made: set[str] | None) -> bool:
    """Whether the call must not be made: at all, or again where ``made`` holds what was."""
    if any(_fits(call.tool, call.arguments, pattern) for pattern in forbidden):
        return True
    if made is None:
        return False
    key = f"{call.tool} {json_text(call.arguments)}"
    again = key in made
    made.add(key)
    return again


def _fits(tool: str, arguments: object, pattern: CallPattern) -> bool:
    if tool != pattern.tool:
        return False
    return pattern.arguments is None or holds(arguments, pattern.arguments)  # type: ignore[arg-type]  # arguments are JSON


def check_it_means_something(
    case: Case, options: ReplayOptions, *, green: Script | None, scripts: Sequence[Script]
) -> None:
    """Show that the case can be passed, and not by doing nothing or by stopping early.

    Args:
        case: The case.
        options: How planners are run.
        green: What is to pass; None where a planner was seen to.
        scripts: What real planners did, whose first calls do not suffice.

    Raises:
        DistillError: one of both does not hold.
    """

    def stand_in(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return follows(history, tools, script)

    # In this process: it is our own code, which decides and does nothing.
    with CaseRunner(stand_in, options=replace(options, isolation=None)) as runner:

        def seen(script: Script) -> CaseResult:
            return runner.run(case.model_copy(update={"script": script}))

        if green is not None and not (passing := seen(green)).passed:
            raise DistillError(
                "the case could never turn green: what the planner did, without what is at fault, "
                f"does not pass it: {passing.verdict}",
                hint="name a planner that does right with --fixed",
            )
        early = [(_first_call(script), "stops after its first call") for script in scripts]
        for script, what in [((), "does nothing"), *early]:
            if seen(script).passed:
                raise DistillError(
                    f"the case would be vacuous: a planner that {what} passes it",
                    hint="say what a planner must do: --require TOOL, --answer-contains TEXT",
                )


def _first_call(script: Script) -> Script:
    calls = [call for decision in script for call in decision.calls]
    return (ScriptedDecision(calls=tuple(calls[:1])),) if calls else ()


def script_of(seen: CaseResult) -> Script:
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
