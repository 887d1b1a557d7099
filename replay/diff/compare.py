"""Comparing two trajectories.

The one idea: what a difference is gets decided before anything is aligned (``steps``, ``order``),
what it costs is stated (``costs``), and what it means is read off afterwards (here, ``match``,
``consequence``). The two runs are put in an order of their own before the work begins, so that
comparing them the other way round gives the same result, mirrored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replay.diff.align import Alignment
from replay.diff.arguments import Declared
from replay.diff.classify import Judge
from replay.diff.comparison import Comparison
from replay.diff.consequence import NO_END
from replay.diff.costs import ANSWER, INPUT, REGROUPED, STATUS, UNIT
from replay.diff.fields import result_fields
from replay.diff.flow import Values
from replay.diff.harms import change_harm
from replay.diff.inplace import aligned_in_place
from replay.diff.lines import turned
from replay.diff.match import Match, label_moves, regrouped, settle_groups
from replay.diff.model import Doubt, Harm
from replay.diff.normal import align_runs, normal_row
from replay.diff.order import PartialOrder
from replay.diff.partly import NOT_KEPT, unknown_result
from replay.diff.steps import declared, steps_of
from replay.matching.respelling import in_recorded_words
from tracekit.canonical import JsonValue, name_part
from tracekit.jsontree import Difference, differences
from tracekit.trajectory import Trajectory

_MOST = 3
"""So many parts of a value are named, the rest is counted."""


def diff(
    left: Trajectory,
    right: Trajectory,
    *,
    left_name: str = "recorded",
    right_name: str = "replayed",
) -> Comparison:
    """Compare two trajectories; ``left`` is the expectation. Mapped names are the record's."""
    left, right = in_recorded_words(left, right), in_recorded_words(right, left)
    rules = declared(left, right)
    values = Values()
    steps = steps_of(left, rules)
    ours = PartialOrder(left, steps, values)
    theirs = PartialOrder(right, steps_of(right, rules, steps), values)
    matches, groups, alignment = _matched(ours, theirs, rules)
    ends = ending(left, right)
    names, runs = (left_name, right_name), (left, right)
    judge = Judge(left=ours, right=theirs, names=names, rules=rules, matches=matches, runs=runs)
    found = judge.judge(groups=groups, ends=ends, inputs=_inputs(left, right))
    # Which of several equal calls is paired with which may decide about the groups, so they count
    # only where nothing else could have tipped that choice.
    regrouping = 0 if alignment.cost else REGROUPED * len(groups)
    cost = alignment.cost + regrouping + _rim_cost(left, right, ends)
    return Comparison(
        left_name=left_name,
        right_name=right_name,
        left_run=left.run_id,
        right_run=right.run_id,
        distance=cost / UNIT,
        divergences=found.ranked,
        first=found.first,
        aligned=found.aligned,
        matched_prefix=found.matched_prefix,
        resynchronised_at=found.resynchronised_at,
        first_call=found.first_call,
        context=_context(left, right),
        doubts=(*_not_kept(left, ours, left_name), *_not_kept(right, theirs, right_name)),
        cells=alignment.cells,
    )


def _matched(
    left: PartialOrder, right: PartialOrder, rules: Mapping[str, Declared]
) -> tuple[list[Match], list[tuple[Match, Match]], Alignment]:
    """Match the steps of two runs, always beginning with the same one of the two."""
    if in_place := aligned_in_place(left.steps, right.steps, rules):
        matches = [Match(at, at) for at in range(len(left.steps))]
        return matches, regrouped(matches, left, right), in_place
    left_row, right_row = normal_row(left), normal_row(right)
    if _rank(left, left_row) <= _rank(right, right_row):
        rows = align_runs(left, left_row, right, right_row, rules)
        matches = label_moves(rows, left.steps, right.steps)
        return *settle_groups(matches, left, right), rows.alignment
    rows = align_runs(right, right_row, left, left_row, rules)
    matches = label_moves(rows, right.steps, left.steps)
    matches, groups = settle_groups(matches, right, left)
    back = [(turned(one), turned(two)) for one, two in groups]
    return [turned(match) for match in matches], back, rows.alignment


def _rank(order: PartialOrder, row: Sequence[int]) -> tuple[list[str], list[tuple[str, int]]]:
    """Rank a run among others; only runs that cannot be told apart have one rank."""
    recorded = [(step.letter, step.decision) for step in order.steps]
    return [order.steps[at].letter for at in row], recorded


def ending(left: Trajectory, right: Trajectory) -> tuple[Difference, ...]:
    """List how the ends of two runs differ: ``/answer…`` and ``/status``."""
    found = [
        Difference(f"/answer{field.pointer}", field.kind, field.left, field.right)
        for field in result_fields(left.answer, right.answer)
    ]
    if left.status != right.status:
        found.append(Difference("/status", "changed", left.status, right.status))
    return tuple(found)


def _inputs(left: Trajectory, right: Trajectory) -> tuple[Difference, ...]:
    return result_fields(left.input, right.input)


def _rim_cost(left: Trajectory, right: Trajectory, ends: tuple[Difference, ...]) -> int:
    status = any(field.pointer == "/status" for field in ends)
    answer = any(field.pointer != "/status" for field in ends)
    return ANSWER * answer + STATUS * status + INPUT * bool(_inputs(left, right))


def _context(left: Trajectory, right: Trajectory) -> tuple[Difference, ...]:
    shared = {call.tool for call in left.calls} & {call.tool for call in right.calls}

    def facts(run: Trajectory) -> JsonValue:
        system = [message.content for message in run.messages if message.role == "system"]
        return {
            "agent": run.agent,
            "versions": dict(run.versions),
            "system_prompt": list(system),
            "effects": {call.tool: call.effect for call in run.calls if call.tool in shared},
        }

    return differences(facts(left), facts(right))


def _not_kept(run: Trajectory, order: PartialOrder, name: str) -> Iterator[Doubt]:
    """Name the values that nobody can compare, since no more than a description is left."""
    if run.status == "open":
        yield Doubt(f"{name}: what it has not done yet; {NO_END}", tuple(Harm))
    for what, value in (("input", run.input), ("answer", run.answer)):
        if unknown := unknown_result(value):
            yield Doubt(f"{name}: the {what} was not kept{_which(unknown)}", (Harm.RESULT,))
    for step in order.steps:
        where = f"{step.name} in decision {step.decision}"
        if step.unknown:
            what = f"{name}: the arguments of {where} were not kept{_which(step.unknown)}"
            yield Doubt(what, (change_harm(step, step),))
        if step.unseen:
            what = f"{name}: the observation of {where} was not kept{_which(step.unseen)}"
            yield Doubt(what, (Harm.RESULT,))


def _which(unknown: Mapping[str, str]) -> str:
    """Say which parts are only described, where it is not all of a value that is gone."""
    if unknown.get("") == NOT_KEPT:
        return ""
    parts = sorted(name_part(place, facts) for place, facts in unknown.items())
    more = f" and {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return f" whole: {', '.join(parts[:_MOST])}{more} only described"
