"""A comparison of many runs in words: what changed, how, where it parts first, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.comparing.outcome import CaseSummary, Group, ManyComparison
from replay.comparing.pairing import Unpaired
from replay.diff import Harm
from tracekit.numerals import counted

CASE_COLUMNS = ("task", "pairs", "differ", "worst", "how (pairs)")
_MOST_ROWS = 40
_MOST_GROUPS = 20
_MOST_UNPAIRED = 10
_MOST_NOTES = 10


def head_lines(found: ManyComparison) -> Iterator[str]:
    """Yield what all pairs came to together."""
    counts = found.counts
    total = len(found.outcomes)
    word = "SAME" if found.same else "DIFFERENT" if found.different else "NOT COMPARED"
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    yield f"{word}  {counted(total, 'pair')} in {found.elapsed_s:.1f} s: {told or 'none'}"
    yield f"  baseline   {found.baseline}"
    yield f"  candidate  {found.candidate}"
    near = sum(outcome.accepted for outcome in found.outcomes)
    if near:
        yield f"  {counted(near, 'candidate')} nearest to an accepted trajectory"
    yield from (f"  note: {note}" for note in found.notes[:_MOST_NOTES])
    if len(found.notes) > _MOST_NOTES:
        yield f"  and {len(found.notes) - _MOST_NOTES:,} more notes (--json lists them)"


def group_lines(found: ManyComparison) -> Iterator[str]:
    """Yield where the pairs part first, with one example each."""
    groups = found.groups
    if not groups:
        return
    yield "Where they part first, by the worst that differs in these pairs:"
    for group in groups[:_MOST_GROUPS]:
        yield from _group(group, found)
    if len(groups) > _MOST_GROUPS:
        yield f"  and {len(groups) - _MOST_GROUPS:,} more ways (--json lists them)"


def _group(group: Group, found: ManyComparison) -> Iterator[str]:
    yield f"  {group.worst.name.lower():<12}  {group_title(group)}"
    example = group.outcomes[0]
    assert example.parting is not None  # that is what it is grouped by
    yield f"      {example.parting.explanation}"
    where = f" --store {found.store}"
    yield f"      tracekit diff {example.nearest} {example.candidate}{where}"


def group_title(group: Group) -> str:
    """Say how the pairs of a group part, and how many they are."""
    pairs, cases = counted(len(group.outcomes), "pair"), counted(len(group.cases), "task")
    return f"{group.name}: {pairs}, {cases}"


def case_rows(found: ManyComparison) -> list[list[str]]:
    """Give the rows of the table of tasks that changed, the worst first."""
    changed = [one for one in found.cases if one.different]
    return [
        [
            one.case,
            str(len(one.outcomes)),
            str(one.different),
            _worst(one),
            ", ".join(f"{kind.replace('_', ' ')} ({pairs})" for kind, pairs in one.kinds),
        ]
        for one in changed[:_MOST_ROWS]
    ]


def _worst(case: CaseSummary) -> str:
    """Name the worst harm; where a write could not be compared, it may be worse."""
    harms = [harm for outcome in case.outcomes for _, harm, _ in outcome.kinds]
    worst = min(harms, default=None)
    if worst is None:
        return "not named"
    unsure = worst > Harm.WRITE and any(outcome.unknown_writes for outcome in case.outcomes)
    return f"{worst.name.lower()}, or a write" if unsure else worst.name.lower()


def rest_lines(found: ManyComparison) -> Iterator[str]:
    """Yield what was left out of the tables, and what could not be compared."""
    more = sum(bool(one.different) for one in found.cases) - _MOST_ROWS
    if more > 0:
        yield f"and {counted(more, 'more task')} (--json lists them)"
    odd = [outcome for outcome in found.outcomes if outcome.verdict == "not compared"]
    for outcome in odd[:_MOST_UNPAIRED]:
        yield f"not compared: {outcome.baseline} and {outcome.candidate}: {outcome.reason}"
    if len(odd) > _MOST_UNPAIRED:
        yield f"  and {len(odd) - _MOST_UNPAIRED:,} more pairs not compared (--json lists them)"
    unsure = [one for one in found.outcomes if one.verdict == "different" and one.unknown_writes]
    for outcome in unsure[:_MOST_UNPAIRED]:
        yield (
            f"cannot tell whether a write differs: {outcome.nearest} and {outcome.candidate}: "
            f"{outcome.reason}"
        )
    if len(unsure) > _MOST_UNPAIRED:
        yield f"  and {len(unsure) - _MOST_UNPAIRED:,} more such pairs (--json lists them)"
    yield from unpaired_lines("baseline", found.baseline_only)
    yield from unpaired_lines("candidate", found.candidate_only)


def unpaired_lines(side: str, found: Sequence[Unpaired]) -> Iterator[str]:
    """Yield the runs of one side that have no partner."""
    if not found:
        return
    yield f"{counted(len(found), 'run')} of the {side} without a partner:"
    for one in found[:_MOST_UNPAIRED]:
        yield f"  {one.run.run_id}: {one.reason}"
    if len(found) > _MOST_UNPAIRED:
        yield f"  and {len(found) - _MOST_UNPAIRED:,} more (--json lists them)"
