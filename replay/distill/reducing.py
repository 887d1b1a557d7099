"""The reduction itself: shrinks a draft until it is proved minimal, the budget ends, or the user.

The key that interrupts goes to the planner's processes as well, which may be gone before this one
hears of it; so it is noted when it comes, and what goes wrong from then on is taken as its work. A
request to terminate, as of ``timeout`` or of a build that is stopped, is an interruption too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

from replay.distill.draft import Draft
from replay.distill.judge import Judge, key_of
from replay.distill.noisy import reduce_in_doubt
from replay.distill.order import all_layers, final_layers
from replay.distill.outcome import TERMINATED
from replay.distill.parallel import Ahead
from replay.distill.passes import Proof, reduce
from replay.distill.problem import Budget, Problem, Spent
from replay.distill.provenance import slices
from replay.distill.remembering import AnswerFile, JudgeAnswers
from replay.distill.sprt import Noise, Undecided
from tracekit import conditions

Progress = Callable[[Problem[Draft]], None]
_INTERRUPTED = "it was interrupted"
_FROM_OUTSIDE = (signal.SIGINT, signal.SIGTERM)


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
    """
    judges = (judge, *helpers)
    with _interruptions(progress) as (interruption, note), ExitStack() as stack:
        ahead = stack.enter_context(Ahead(judges)) if helpers and noise is None else None
        problem = _problem(start, judges, budget, note, answers, ahead)
        proofs: tuple[Proof, ...] = ()
        stopped: str | None = None
        try:
            proofs = _shrunk(problem, judge, offending, noise)
        except (Spent, Undecided) as ended:
            stopped = str(ended)
        except KeyboardInterrupt:
            stopped = interruption.name or _INTERRUPTED
        except Exception:
            if interruption.name is None:
                raise
            stopped = interruption.name
    return Reduction(problem.best, proofs, stopped, problem.calls, problem.cached, problem.wasted)


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


@dataclass
class _Interruption:
    """What came from outside, if anything did."""

    name: str | None = None


@contextmanager
def _interruptions(progress: Progress | None) -> Iterator[tuple[_Interruption, Progress]]:
    """Note when the user interrupts; elsewhere than in the main thread nobody can."""
    noted = _Interruption()

    def tell(problem: Problem[Draft]) -> None:
        if progress is not None:
            progress(problem)
        if noted.name is not None:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield noted, tell
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM and noted.name == TERMINATED:
            return  # `timeout` asks twice: the process, and its group
        noted.name = TERMINATED if number == signal.SIGTERM else _INTERRUPTED
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _FROM_OUTSIDE}
    try:
        yield noted, tell
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
