"""The reduction itself: shrinks a draft until it is proved minimal, the budget ends, or the user.

What goes wrong after an interruption has come is taken as its work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from replay.distill.describing import left_out
from replay.distill.draft import Draft
from replay.distill.interrupting import INTERRUPTED, Heard
from replay.distill.judge import Judge, key_of
from replay.distill.noisy import reduce_in_doubt
from replay.distill.order import all_layers, final_layers
from replay.distill.parallel import Ahead
from replay.distill.passes import Proof, reduce
from replay.distill.problem import Budget, Problem, Spent
from replay.distill.provenance import slices
from replay.distill.remembering import AnswerFile, JudgeAnswers, needless_now
from replay.distill.sitting import Sitting
from replay.distill.sprt import Evidence, Noise, Undecided
from replay.distill.steadiness import ERROR
from tracekit import conditions
from tracekit.numerals import counted

Progress = Callable[[Problem[Draft]], None]


@dataclass(frozen=True)
class Reduction:
    """What a reduction came to."""

    best: Draft
    proofs: tuple[Proof, ...]
    """The parts that are left and cannot be left out; none where it was stopped."""
    stopped: str | None
    """Why it ended early."""
    calls: int
    cached: int
    wasted: int = 0
    """Candidates that were tried ahead by other workers, and that nobody asked for."""
    checks: int = 0
    """Answers of earlier sittings that were put to the test."""

    @property
    def remarks(self) -> list[str]:
        """What a reader should know of it."""
        said = (
            "earlier sittings answered a part of it; what shows that it is minimal was asked "
            f"afresh: {counted(self.checks, 'run')}"
        )
        return [said] if self.checks and self.stopped is None else []


def reduce_draft(
    start: Draft,
    judge: Judge,
    *,
    offending: int | None,
    budget: Budget,
    progress: Progress | None,
    beside: Sitting,
    noise: Noise | None,
    heard: Heard,
) -> Reduction:
    """Shrink ``start``, which the judge accepts.

    Args:
        start: The whole run.
        judge: Says what still fails in the same way.
        offending: Number of the recorded decision that is at fault.
        budget: How much it may cost.
        progress: Told of each candidate.
        beside: Judges that try ahead what may be asked next, and answers of earlier sittings.
        noise: How often an answer is wrong, for a planner that fails only sometimes.
        heard: Hears of interruptions.

    Raises:
        DistillError: answers of earlier sittings do not hold any more.
    """
    judges, answers = (judge, *beside.helpers), beside.answers
    with ExitStack() as stack:
        ahead = stack.enter_context(Ahead(judges)) if beside.helpers and noise is None else None
        problem = _problem(start, judges, budget, _noting(progress, heard), answers, ahead)

        def search() -> tuple[Proof, ...]:
            proofs = _shrunk(problem, judge, offending, noise)
            if answers is not None:
                _check_old(problem, proofs, answers, noise)
            return proofs

        proofs, stopped = _ended(search, heard)
    counts = (problem.calls, problem.cached, problem.wasted, problem.checks)
    return Reduction(problem.best, proofs, stopped, *counts)


def _noting(progress: Progress | None, heard: Heard) -> Progress:
    """What is done after each candidate: it is told, and an interruption is not forgotten."""

    def note(problem: Problem[Draft]) -> None:
        if progress is not None:
            progress(problem)
        if heard.name is not None:
            raise KeyboardInterrupt

    return note


def _ended(
    search: Callable[[], tuple[Proof, ...]], heard: Heard
) -> tuple[tuple[Proof, ...], str | None]:
    """What a search has proved, or why it ended early."""
    try:
        with heard.searching():
            return search(), None
    except (Spent, Undecided) as ended:
        return (), str(ended)
    except KeyboardInterrupt:
        return (), heard.name or INTERRUPTED
    except Exception:
        if heard.name is None:
            raise
        return (), heard.name


def _problem(
    start: Draft,
    judges: Sequence[Judge],
    budget: Budget,
    progress: Progress,
    answers: AnswerFile | None,
    ahead: Ahead[Draft] | None,
) -> Problem[Draft]:
    return Problem(
        start,
        fails=judges[0],
        size=lambda draft: draft.size,
        key=key_of,
        budget=budget,
        clock=lambda: conditions.monotonic_ns() / 1e9,
        spent=lambda: sum(one.cost_usd for one in judges),
        progress=progress,
        answers=None if answers is None else JudgeAnswers(answers, judges[0]),
        ahead=ahead,
    )


def _shrunk(
    problem: Problem[Draft], judge: Judge, offending: int | None, noise: Noise | None
) -> tuple[Proof, ...]:
    flow = judge.target.flow
    layers, singly = all_layers(problem.best, flow.needles), final_layers(flow.needles)
    if noise is not None:
        return reduce_in_doubt(problem, layers, singly, noise=noise)
    for candidate in slices(problem.best, flow, offending):
        if problem.consider(candidate):
            break
    return reduce(problem, all_layers(problem.best, flow.needles), singly)


def _check_old(
    problem: Problem[Draft], proofs: Sequence[Proof], answers: AnswerFile, noise: Noise | None
) -> None:
    """Ask again what the proof takes from earlier sittings: nothing but now shows what holds now.

    What answers rest on may have changed where nobody sees it, as in a file that a planner reads.
    """
    for key, (candidate, label) in left_out(problem.best, proofs).items():
        if not answers.is_old(key):
            continue
        if noise is None:
            fails = problem.afresh(candidate)
        else:
            again = partial(problem.afresh, candidate)
            fails = Evidence(noise).decide(key, again, error=ERROR / len(proofs))
        if fails:
            raise needless_now(answers, label)
