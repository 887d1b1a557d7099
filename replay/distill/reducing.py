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
    progress: Progress | None = None,
    helpers: Sequence[Judge] = (),
    answers: AnswerFile | None = None,
    noise: Noise | None = None,
    heard: Heard,
) -> Reduction:
    """Shrink ``start``, which the judge accepts.

    Args:
        start: The whole run.
        judge: Says what still fails in the same way.
        offending: Number of the recorded decision that is at fault.
        budget: How much it may cost.
        progress: Told of each candidate.
        helpers: Judges ``beside`` this one, which try ahead what may be asked next.
        answers: Where answers are kept, and those of earlier sittings are.
        noise: How often an answer is wrong, for a planner that fails only sometimes.
        heard: Hears of interruptions.

    Raises:
        DistillError: answers of earlier sittings do not hold any more.
    """
    judges = (judge, *helpers)

    def note(one: Problem[Draft]) -> None:
        if progress is not None:
            progress(one)
        if heard.name is not None:
            raise KeyboardInterrupt

    with ExitStack() as stack:
        ahead = stack.enter_context(Ahead(judges)) if helpers and noise is None else None
        problem = _problem(start, judges, budget, note, answers, ahead)
        proofs: tuple[Proof, ...] = ()
        stopped: str | None = None
        try:
            with heard.searching():
                proofs = _shrunk(problem, judge, offending, noise)
                if answers is not None:
                    _check_old(problem, proofs, answers, noise)
        except (Spent, Undecided) as ended:
            stopped = str(ended)
        except KeyboardInterrupt:
            stopped = heard.name or INTERRUPTED
        except Exception:
            if heard.name is None:
                raise
            stopped = heard.name
    return Reduction(
        problem.best,
        proofs if stopped is None else (),
        stopped,
        problem.calls,
        problem.cached,
        problem.wasted,
        problem.checks,
    )


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
