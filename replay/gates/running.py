"""Runs a gate file over two sets of runs of a store: choose, check, measure, judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.comparing import Selection, pair_selected
from replay.comparing.bulk import Selected
from replay.comparing.pairing import Pair, Pairing, Unpaired
from replay.comparing.selection import Selections, as_selections, choose_all
from replay.gates.comparable import check_comparable, mixed
from replay.gates.evidence import Evidence, MeasuredPair
from replay.gates.file import GateFile
from replay.gates.judging import judge
from replay.gates.outcome import GateOutcome, GateReport
from replay.metrics import DEFINITIONS, RunMeasures, measure, read_measured
from replay.metrics.measuring import AnyGold
from replay.stats import Sample, effective
from tracekit.configuration import store_path
from tracekit.errors import TracekitError, UsageError
from tracekit.events import RunRow
from tracekit.numerals import counted
from tracekit.store import Store, open_store

Progress = Callable[[int, int], None]
_PAIRED = {
    "baseline": "every run of the baseline has a candidate",
    "candidate": "every run of the candidate has a baseline",
}
_NO_PAIRING = Pairing(())


def run_gates(
    gates: GateFile,
    *,
    candidate: Selections,
    baseline: Selections = (),
    store: Store | str | Path | None = None,
    gold: AnyGold = None,
    progress: Progress | None = None,
) -> GateReport:
    """Judge the runs of ``candidate``, where gates compare against those of ``baseline``.

    Args:
        gates: What must hold.
        candidate: The runs of what is to be released, such as ``tag=v7``.
        baseline: The runs of what it is compared with.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        gold: What runs are measured against, see ``replay.metrics.measure``; default their labels.
        progress: Called with the number of runs measured, and of all, in this thread.

    Raises:
        UsageError: a side is empty, or a gate compares and there is no baseline.
        NotComparable: the runs differ in what must be equal.
    """
    opened = store if not isinstance(store, str | Path | None) else open_store(store_path(store))
    needs = gates.needs_pairs
    if needs and not baseline:
        name = next(gate.name for gate in gates.gates if gate.rule.needs_pairs)
        raise UsageError(f"{name!r} compares, and there is no baseline", hint="give --baseline")
    selected = _selected(as_selections(baseline), as_selections(candidate), opened)
    notes = [*selected.notes, *mixed(selected.rows[1], "candidate")]
    if needs:
        notes += mixed(selected.rows[0], "baseline")
        notes += check_comparable(selected, opened, gates.expect_differs)
    evidence, repeats = _measured(selected, opened, gold, progress, pairs=needs)
    outcomes = judge(gates, evidence)
    if needs:
        outcomes = (*outcomes, *_without_partner(gates, selected))
    return _report(gates, opened, selected, outcomes, [*notes, *_notes_of_repeats(repeats)])


def _report(
    gates: GateFile,
    store: Store,
    selected: Selected,
    outcomes: tuple[GateOutcome, ...],
    notes: Sequence[str],
) -> GateReport:
    pairing = selected.pairing if gates.needs_pairs else _NO_PAIRING
    return GateReport(
        path=gates.path,
        store=str(store.path),
        baseline=selected.baseline or None,
        candidate=selected.candidate,
        outcomes=outcomes,
        pairs=len(pairing.pairs),
        baseline_runs=len(selected.rows[0]),
        candidate_runs=len(selected.rows[1]),
        baseline_only=pairing.baseline_only,
        candidate_only=pairing.candidate_only,
        notes=tuple(notes),
    )


def _selected(
    baseline: Sequence[Selection], candidate: Sequence[Selection], store: Store
) -> Selected:
    if baseline:
        return pair_selected(baseline, candidate, store=store)
    text = " or ".join(selection.text for selection in candidate)
    rows = {row.run_id: row for row in choose_all(store, candidate)}
    if not rows:
        raise UsageError(
            f"no runs match the candidate: {text}",
            hint=f"list the runs there are with: tracekit runs --store {store.path}",
        )
    return Selected("", text, ({}, rows), _NO_PAIRING)


@dataclass(frozen=True, slots=True)
class _Repeats:
    """How many runs only repeat another, of each side."""

    side: str
    count: int
    example: tuple[str, str]


def _measured(
    selected: Selected, store: Store, gold: AnyGold, progress: Progress | None, *, pairs: bool
) -> tuple[Evidence, list[_Repeats]]:
    """Measure every run of the candidate, and those of the baseline that have a partner."""
    chosen = selected.pairing.pairs if pairs else ()
    ours, theirs = selected.rows
    before = [ours[pair.baseline.run_id] for pair in chosen]
    found = _measure(store, [*before, *theirs.values()], gold, progress)
    return _evidence(chosen, theirs, found)


def _evidence(
    pairs: Sequence[Pair], candidate: Iterable[str], found: Mapping[str, RunMeasures]
) -> tuple[Evidence, list[_Repeats]]:
    """Put the measures together, and find out which runs are samples."""
    theirs = list(candidate)
    samples: set[str] = set()
    repeats = []
    ours = [pair.baseline.run_id for pair in pairs]
    for side, chosen in (("baseline", ours), ("candidate", theirs)):
        kept = effective(found[run_id].sample for run_id in chosen)
        samples |= set(kept.kept)
        if kept.repeats:
            first = next(iter(kept.repeats.items()))
            repeats.append(_Repeats(side, len(kept.repeats), first))
    evidence = Evidence(
        candidate=tuple(found[run_id] for run_id in theirs),
        samples=frozenset(samples),
        pairs=tuple(
            MeasuredPair(pair.case, found[pair.baseline.run_id], found[pair.candidate.run_id])
            for pair in pairs
            if pair.baseline.run_id in samples and pair.candidate.run_id in samples
        ),
    )
    return evidence, repeats


def _measure(
    store: Store, rows: Sequence[RunRow], gold: AnyGold, progress: Progress | None
) -> dict[str, RunMeasures]:
    found: dict[str, RunMeasures] = {}
    for run_id, run in read_measured(store, rows):
        if isinstance(run, TracekitError):
            found[run_id] = _unreadable(run_id, run)
        else:
            found[run_id] = measure(run, gold=gold)
        if progress is not None:
            progress(len(found), len(rows))
    return found


def _unreadable(run_id: str, error: TracekitError) -> RunMeasures:
    """Stand in for a run that is damaged: nothing is known of it."""
    why = f"it cannot be read: {error.message}"
    return RunMeasures(
        run_id=run_id,
        task_id=None,
        counts={},
        missing=dict.fromkeys(DEFINITIONS, why),
        sample=Sample(run_id, trajectory=""),
        broken_off=why,
    )


def _notes_of_repeats(repeats: Sequence[_Repeats]) -> Iterable[str]:
    for one in repeats:
        yield (
            f"{counted(one.count, 'run')} of the {one.side} only repeat another and are no samples "
            f"({one.example[0]} repeats {one.example[1]})"
        )


def _without_partner(gates: GateFile, selected: Selected) -> Iterable[GateOutcome]:
    """Stop a release of which a part is compared with nothing.

    What the candidate left out it might fail at; what it has too many may be all that failed.
    """
    pairing = selected.pairing
    both = (pairing.baseline_only, pairing.candidate_only)
    for side, left, rows in zip(_PAIRED, both, selected.rows, strict=True):
        if left:
            yield _unpaired(gates, side, left, len(rows))


def _unpaired(gates: GateFile, side: str, left: Sequence[Unpaired], total: int) -> GateOutcome:
    return GateOutcome(
        name=_PAIRED[side],
        text=_PAIRED[side],
        verdict="inconclusive",
        reason=f"{counted(len(left), 'run')} without a partner, first {left[0].run.run_id}: "
        f'{left[0].reason}; select fewer, or say: unpaired = "warn"',
        value=(total - len(left)) / total,
        bound="== 100%",
        n=total - len(left),
        of=total,
        runs=tuple(one.run.run_id for one in left),
        inconclusive=gates.unpaired,
    )
