"""Tasks that were tried several times: whether one of k attempts succeeds, and whether all do.

Attempts belong together where the same version of the same agent worked on the same task, attacked
in the same way. A run that only repeats another is no attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from replay.metrics.model import RunMeasures
from replay.stats import Estimate, average_over_tasks, pass_at_k, pass_hat_k
from tracekit.canonical import JsonValue

MOST = 10
"""So many attempts are told of, however many there were."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """How tasks went that were tried several times."""

    tasks: tuple[tuple[int, int], ...]
    """Attempts and successes of each task."""

    def pass_at(self, k: int, *, seed: int = 0) -> Estimate:
        """Tell how likely one of ``k`` attempts succeeds, averaged over tasks."""
        return average_over_tasks(pass_at_k, self.tasks, k, seed=seed)

    def pass_hat(self, k: int, *, seed: int = 0) -> Estimate:
        """Tell how likely all of ``k`` attempts succeed, averaged over tasks."""
        return average_over_tasks(pass_hat_k, self.tasks, k, seed=seed)

    @property
    def most(self) -> int:
        """The greatest k that is told of."""
        return min(MOST, max((n for n, _ in self.tasks), default=0))

    def as_dict(self, *, seed: int = 0) -> dict[str, JsonValue]:
        """Give them as JSON."""
        ks = range(1, self.most + 1)
        return {
            "tasks": len(self.tasks),
            "pass_at_k": [self.pass_at(k, seed=seed).as_dict() for k in ks],
            "pass_hat_k": [self.pass_hat(k, seed=seed).as_dict() for k in ks],
        }

    def lines(self, *, seed: int = 0) -> Iterator[str]:
        """Write them as lines of text."""
        each = sorted({n for n, _ in self.tasks})
        times = f"{each[0]} to {each[-1]}" if len(each) > 1 else str(each[0])
        yield f"tasks tried several times: {len(self.tasks)}, attempts at each: {times}"
        for k in range(1, self.most + 1):
            one, every = self.pass_at(k, seed=seed), self.pass_hat(k, seed=seed)
            yield f"  pass@{k:<2} {_told(one):24} pass^{k:<2} {_told(every):24} of {one.n}"


def _told(found: Estimate) -> str:
    if found.value is None:
        return "n/a"
    text = f"{100 * found.value:5.1f} %"
    if found.interval is None:
        return text
    return f"{text} ({100 * found.interval.low:.1f} – {100 * found.interval.high:.1f})"


def attempts_of(runs: Sequence[RunMeasures]) -> Attempts | None:
    """Count attempts by task; None where no task was tried twice."""
    found: defaultdict[tuple[str, ...], list[bool]] = defaultdict(list)
    for run in runs:
        done = run.counts.get("task_success")
        if done is not None and run.attempt_of:
            found[run.attempt_of].append(done.numerator > 0)
    tasks = tuple((len(one), sum(one)) for one in found.values())
    return Attempts(tasks) if _tried_again(tasks) else None


def _tried_again(tasks: Iterable[tuple[int, int]]) -> bool:
    return any(n > 1 for n, _ in tasks)
