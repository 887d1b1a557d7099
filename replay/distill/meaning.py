"""What is wrong with a whole run: one run of each planner, and the failure that is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from replay.aimed import known_tools, nearest
from replay.case import Case, Expected
from replay.caserun import CaseResult, CaseRunner
from replay.distill import question
from replay.distill.beside import Grants, with_grants
from replay.distill.draft import Draft
from replay.distill.granting import compared, declared_answer, declared_answers
from replay.distill.question import Wish
from replay.distill.sightings import Choice, calls_of
from tracekit.errors import DistillError
from tracekit.trajectory import Trajectory

Run = Callable[[CaseRunner, Case], CaseResult]
_MOST = 20
"""So many writes of a planner are answered of which no run knows."""


@dataclass(frozen=True)
class Meaning:
    """The failure that is meant, and the whole run as a case about it."""

    start: Draft
    choice: Choice
    others: tuple[Choice, ...]
    """What was seen beside it."""
    expected: Expected
    right: CaseResult | None
    """What the fixed planner did."""
    shared: tuple[str, ...] = ()
    """The observations that answer writes of the run that went right, too."""
    granted: Grants = ()
    """Answers to writes that should be made, and that the run lacks."""

    @property
    def case(self) -> Case:
        """The whole run, and what is expected of a planner."""
        whole = with_grants(self.start, self.granted)
        return whole.case.model_copy(update={"expected": self.expected})


def meaning_of(
    record: Trajectory,
    start: Draft,
    wish: Wish,
    *,
    failing: CaseRunner,
    fixed: CaseRunner | None = None,
    reference: Trajectory | None = None,
    run: Run = CaseRunner.run,
    tries: int = 1,
) -> Meaning:
    """Find out which failure is meant.

    Args:
        record: The run.
        start: All of it, as a draft.
        wish: What the user says of the failure.
        failing: The planner that fails.
        fixed: One that does right.
        reference: A recorded run that went right.
        run: How a planner is run on a case.
        tries: How often the one that fails is run until it does.

    Raises:
        DistillError: nothing, or several things and none was chosen; or a tool is not known.
    """
    shared, lacked = compared(start, reference) if reference is not None else ((), ())
    right, granted = _rightly(start, wish, lacked, fixed, run)
    asked = question.asked(with_grants(start, granted).case, wish)
    for left in reversed(range(tries)):
        seen = _run(failing, asked, run)
        chosen = _chosen(wish, record, start, seen, right, reference)
        if not isinstance(chosen, DistillError) or not left:
            break
    choice, *others = _checked(chosen, wish, (record, reference), (failing, fixed), (seen, right))
    expected = question.strengthened(choice.expected, seen, right, offending=choice.key)
    granted = granted or declared_answer(choice, start, () if fixed else record.tools)
    start = start.but(budgets=choice.budgets)
    return Meaning(start, choice, tuple(others), expected, right, shared, granted)


def _rightly(
    start: Draft, wish: Wish, granted: Grants, fixed: CaseRunner | None, run: Run
) -> tuple[CaseResult | None, Grants]:
    """Run the planner that does right, answering its writes of which no run knows if it can be."""
    if fixed is None:
        return None, granted
    known = {fixture.tool for fixture in start.case.observations}
    for _ in range(_MOST):
        right = _run(fixed, question.asked(with_grants(start, granted).case, wish), run)
        more = declared_answers(right, known, granted)
        if not more:
            break
        granted += more
    return right, granted


def _chosen(
    wish: Wish,
    record: Trajectory,
    start: Draft,
    seen: CaseResult,
    right: CaseResult | None,
    reference: Trajectory | None,
) -> tuple[Choice, ...] | DistillError:
    """What is meant, or why nothing can be chosen."""
    writes = start.writes | _new_writes(record, (seen, right))
    try:
        return question.choose(wish, seen, right, writes=writes, reference=reference)
    except DistillError as error:
        return error


def _checked(
    chosen: tuple[Choice, ...] | DistillError,
    wish: Wish,
    recorded: Iterable[Trajectory | None],
    planners: Iterable[CaseRunner | None],
    seen: Iterable[CaseResult | None],
) -> tuple[Choice, ...]:
    """Give what is chosen; a name that is misspelt may be why nothing was."""
    _check_tools(wish, recorded, planners, seen)
    if isinstance(chosen, DistillError):
        raise chosen
    return chosen


def _check_tools(
    wish: Wish,
    recorded: Iterable[Trajectory | None],
    planners: Iterable[CaseRunner | None],
    seen: Iterable[CaseResult | None],
) -> None:
    """Refuse tools that no run has, and no planner declares or calls."""
    known: set[str] = set()
    for run in filter(None, (*recorded, *(one.trajectory for one in seen if one))):
        known = known_tools(run.tools, (call.tool for call in run.calls), {"tools": known})
    if known.issuperset(wish.tools):
        return
    known.update(*(planner.declared.tools for planner in planners if planner))
    for tool in wish.tools:
        if tool not in known:
            raise DistillError(
                f"there is no tool {tool!r}: neither the run has it nor the planner declares or "
                "calls it",
                hint=nearest(tool, known),
            )


def _run(runner: CaseRunner, case: Case, run: Run) -> CaseResult:
    seen = run(runner, case)
    if seen.trajectory is None and not seen.findings:
        raise DistillError(f"{seen.planner} cannot be run on the whole run: {seen.verdict}")
    return seen


def _new_writes(record: Trajectory, seen: Iterable[CaseResult | None]) -> set[str]:
    """Tools that may write and that the run knows nothing of."""
    known = {contract.name for contract in record.tools}
    known |= {call.tool for call in record.calls}
    calls = (call for one in seen if one is not None for call in calls_of(one))
    return {call.tool for call in calls if call.writes} - known
