"""The reduction itself: shrinks a draft until it is proved minimal, the budget ends, or the user.

The key that interrupts goes to the planner's processes as well, which may be gone before this one
hears of it; so it is noted when it comes, and what goes wrong from then on is taken as its work.
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
from replay.distill.parallel import Ahead
from replay.distill.passes import Proof, reduce
from replay.distill.problem import Budget, Problem, Spent
from replay.distill.provenance import slices
from replay.distill.remembering import AnswerFile, JudgeAnswers
from replay.distill.sprt import Noise, Undecided
from tracekit import conditions

Progress = Callable[[Problem[Draft]], None]
_INTERRUPTED = "it was interrupted"


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
    with _interruptions(progress) as (interrupted, note), ExitStack() as stack:
        ahead = stack.enter_context(Ahead(judges)) if helpers and noise is None else None
        problem = _problem(start, judges, budget, note, answers, ahead)
        proofs: tuple[Proof, ...] = ()
        stopped: str | None = None
        try:
            proofs = _shrunk(problem, judge, offending, noise)
        except (Spent, Undecided) as ended:
            stopped = str(ended)
        except KeyboardInterrupt:
            stopped = _INTERRUPTED
        except Exception:
            if not interrupted.is_set():
                raise
            stopped = _INTERRUPTED
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


@contextmanager
def _interruptions(progress: Progress | None) -> Iterator[tuple[threading.Event, Progress]]:
    """Note when the user interrupts; elsewhere than in the main thread nobody can."""
    noted = threading.Event()

    def tell(problem: Problem[Draft]) -> None:
        if progress is not None:
            progress(problem)
        if noted.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield noted, tell
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        noted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield noted, tell
    finally:
        signal.signal(signal.SIGINT, before)
