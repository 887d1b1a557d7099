"""Which run of the baseline stands beside which of the candidate.

A replay belongs to the run that it replays. Otherwise runs belong together that worked on one case:
the same task, or, where either names none, the same input; two tasks are two cases, also where they
are asked in the same words. Of several trials of a case those of one number belong together, and
what is left in the order of the runs. Each run is in one pair at most, and what is in none is
listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

TRIAL_LABEL = "trial"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a run that a partner is looked for."""

    run_id: str
    task: str | None = None
    input_digest: str | None = None
    attack: tuple[str, ...] = ()
    """Values of the case labels."""
    trial: str | None = None
    replay_of: str | None = None
    events: int = 0

    @property
    def case(self) -> str | None:
        """Name the case it worked on; None where the run says neither task nor input."""
        name = self.task if self.task is not None else self.input_digest
        return None if name is None else " ".join((name, *self.attack))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that are compared."""

    case: str
    baseline: Candidate
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Unpaired:
    """A run that has no partner, and why."""

    run: Candidate
    reason: str


@dataclass(frozen=True)
class Pairing:
    """All runs of both sides."""

    pairs: tuple[Pair, ...]
    baseline_only: tuple[Unpaired, ...] = ()
    candidate_only: tuple[Unpaired, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every run has a partner."""
        return not self.baseline_only and not self.candidate_only


def pair_runs(baseline: Sequence[Candidate], candidate: Sequence[Candidate]) -> Pairing:
    """Pair the runs of two sides; both in the order of their trials."""
    table = _Table(list(baseline), list(candidate))
    table.pair_replays()
    table.pair(_by_task, _by_task)
    for ours, theirs in _WITHOUT_TASK:
        table.pair(_by_input(has_task=ours), _by_input(has_task=theirs))
    pairs = tuple(sorted(table.pairs, key=lambda pair: table.places[pair.baseline.run_id]))
    return Pairing(pairs, tuple(table.left_over(0)), tuple(table.left_over(1)))


_Key = tuple[str, ...]
_KeyOf = Callable[[Candidate], _Key | None]
_WITHOUT_TASK = ((False, False), (False, True), (True, False))
"""Which side names a task where the input decides: never both."""


def _by_task(run: Candidate) -> _Key | None:
    return None if run.task is None else (run.task, *run.attack)


def _by_input(*, has_task: bool) -> _KeyOf:
    def key(run: Candidate) -> _Key | None:
        if run.input_digest is None or (run.task is not None) != has_task:
            return None
        return (run.input_digest, *run.attack)

    return key


@dataclass
class _Table:
    """Runs that have no partner yet."""

    baseline: list[Candidate]
    candidate: list[Candidate]
    pairs: list[Pair] = field(default_factory=list)
    places: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {run.run_id: place for place, run in enumerate(self.baseline)}
        self._all = tuple(self.baseline), tuple(self.candidate)

    def pair_replays(self) -> None:
        """Pair replays with what they replay, the first replay of each.

        A run of another task than its replay was recorded anew under its id.
        """
        left = {run.run_id: run for run in self.baseline}
        found = []
        for run in self.candidate:
            of = left.get(run.replay_of or "")
            if of is not None and (None in (of.task, run.task) or of.task == run.task):
                found.append((left.pop(of.run_id), run))
        self._take(found)

    def pair(self, our_key: _KeyOf, their_key: _KeyOf) -> None:
        """Pair runs of equal key: equal trials first, the others in order."""
        ours, theirs = _groups(self.baseline, our_key), _groups(self.candidate, their_key)
        for name in ours.keys() & theirs.keys():
            self._take(_by_trial(ours[name], theirs[name]))

    def _take(self, found: Iterable[tuple[Candidate, Candidate]]) -> None:
        found = list(found)
        self.pairs += [Pair(one.case or one.run_id, one, two) for one, two in found]
        gone = {run.run_id for pair in found for run in pair}
        self.baseline = [run for run in self.baseline if run.run_id not in gone]
        self.candidate = [run for run in self.candidate if run.run_id not in gone]

    def left_over(self, side: int) -> Iterator[Unpaired]:
        """Say of each run without a partner why it has none."""
        runs = (self.baseline, self.candidate)[side]
        other = ("candidate", "baseline")[side]
        cases = {run.case for run in self._all[1 - side]}
        for run in runs:
            if run.case is None:
                yield Unpaired(run, "it says neither task nor input")
            elif run.case in cases:
                yield Unpaired(run, f"the {other} has fewer trials of {run.case}")
            else:
                yield Unpaired(run, f"the {other} has no run of {run.case}")


def _groups(runs: Iterable[Candidate], key: _KeyOf) -> dict[_Key, list[Candidate]]:
    groups: dict[_Key, list[Candidate]] = {}
    for run in runs:
        name = key(run)
        if name is not None:
            groups.setdefault(name, []).append(run)
    return groups


def _by_trial(
    ours: Sequence[Candidate], theirs: Sequence[Candidate]
) -> Iterator[tuple[Candidate, Candidate]]:
    numbered = {run.trial: run for run in reversed(theirs) if run.trial is not None}
    rest: list[Candidate] = []
    taken: set[str] = set()
    for run in ours:
        partner = numbered.pop(run.trial, None) if run.trial is not None else None
        if partner is None:
            rest.append(run)
        else:
            taken.add(partner.run_id)
            yield run, partner
    others = [run for run in theirs if run.run_id not in taken]
    yield from zip(rest, others, strict=False)
