"""What shows that a case means something: it can pass, and doing nothing does not pass it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from replay.case import Case, ScriptedDecision
from replay.case.model import ProposedCall
from replay.caserun import CaseResult, CaseRunner
from replay.distill.passing import Script
from replay.distill.stand_ins import follows
from replay.replayer import ReplayOptions
from tracekit.errors import DistillError

_IDLE: Script = (ScriptedDecision(message="hi"),)
"""A planner that calls nothing, and says something."""


def check_it_means_something(
    ran: CaseResult, options: ReplayOptions, *, green: Script | None, scripts: Sequence[Script]
) -> str | None:
    """Show that the case can be passed, and not by doing nothing or by stopping early.

    Args:
        ran: A run of the case, by a planner whose code may say more of its tools.
        options: How planners are run.
        green: What is to pass; None where a planner was seen to.
        scripts: What real planners did, whose first calls do not suffice.

    Returns:
        What a reader should know of how little passes it, if there is anything.

    Raises:
        DistillError: one of both does not hold.
    """
    with standing_in(ran, options) as seen:
        if green is not None and not (passing := seen(green)).passed:
            raise DistillError(
                "the case could never turn green: what the planner did, without what is at fault, "
                f"does not pass it: {passing.verdict}",
                hint="name a planner that does right with --fixed",
            )
        for script, what in _doing_little(scripts):
            if seen(script).passed:
                raise DistillError(
                    f"the case would be vacuous: a planner that {what} passes it",
                    hint="say what a planner must do: --require TOOL, --answer-contains TEXT",
                )
        return _idle_remark(ran.case) if seen(_IDLE).passed else None


@contextmanager
def standing_in(
    ran: CaseResult, options: ReplayOptions
) -> Iterator[Callable[[Script], CaseResult]]:
    """Give what runs a stand-in on a case: by its decisions what these come to."""

    def stand_in(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        return follows(history, tools, script)

    # In this process: it is our own code, which decides and does nothing.
    with CaseRunner(stand_in, options=replace(options, isolation=None)) as runner:
        yield lambda script: runner.run(_declaring(ran, script))


def _idle_remark(case: Case) -> str:
    nothing = case.budgets.calls == 0 or 0 in case.expected.call_limits.values()
    shows = "nothing is called" if nothing else "nothing is done wrong"
    return (
        f"the case shows only that {shows}: a planner that calls nothing and gives any answer "
        "passes it; say what one must do with --require TOOL or --answer-contains TEXT"
    )


def _doing_little(scripts: Sequence[Script]) -> list[tuple[Script, str]]:
    """What must not suffice, and how it is called."""
    early = [(_first_call(script), "stops after its first call") for script in scripts]
    return [((), "does nothing"), *early]


def _first_call(script: Script) -> Script:
    calls = [call for decision in script for call in decision.calls]
    return (ScriptedDecision(calls=tuple(calls[:1])),) if calls else ()


def _declaring(ran: CaseResult, script: Script) -> Case:
    """The case that was run, for a stand-in: with the tools as the planner's code declares them.

    Its own code declares none, and without them nobody knows which argument of a call is its key.
    """
    tools = {tool.name: tool for tool in ran.case.tools}
    for call in ran.trajectory.calls if ran.trajectory else ():
        if call.contract is not None:
            tools.setdefault(call.contract.name, call.contract)
    return ran.case.model_copy(update={"tools": tuple(tools.values()), "script": script})


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
