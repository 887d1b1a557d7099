"""Many failing runs, one case an incident.

The one idea: two runs fail for the same reason if the planner, run on each, has the same finding:
oracle, tool, argument and class of error, at the same place. One run stands for all of its group,
the smallest, and where a case is there already that the planner fails so, none is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.case import Reason
from replay.caserun import CaseRunner
from replay.distill.beginning import spec, whole_run
from replay.distill.covering import Cover, Covering
from replay.distill.distilling import distill_record
from replay.distill.meaning import meaning_of
from replay.distill.options import DistillOptions
from replay.distill.outcome import TERMINATED, DistillResult
from replay.oracles import OracleFinding
from replay.replayer import check_replayable
from tracekit.errors import DistillError, TracekitError
from tracekit.numerals import counted
from tracekit.store import Store
from tracekit.trajectory import Trajectory
from tracekit.visible import text_of

FORMAT = "tracekit/distill-many/v1"
Step = Callable[[str, int, int], None]
"""Told what is done, how many runs or groups of it are done, and of how many."""


@dataclass(frozen=True)
class Group:
    """Runs that fail for the same reason."""

    reason: Reason
    failure: str
    """What goes wrong in the run that stands for all, in one sentence."""
    runs: tuple[str, ...]
    """The one that stands for all first."""
    covered_by: Path | None = None
    """A case for that reason that was there already."""
    unfinished: str | None = None
    """The run that this case was made of, where it is not minimal."""
    result: DistillResult | None = None
    error: str | None = None
    """Why there is no case."""

    @property
    def has_case(self) -> bool:
        """Whether there is a case for it now."""
        return self.covered_by is not None or self.result is not None

    @property
    def terminated(self) -> bool:
        """Whether somebody asked the process to end."""
        return self.error == TERMINATED or (self.result is not None and self.result.terminated)

    def as_dict(self) -> dict[str, Any]:
        """Return the group as JSON."""
        return {
            "reason": self.reason.model_dump(exclude_none=True),
            "failure": self.failure,
            "runs": list(self.runs),
            "covered_by": None if self.covered_by is None else str(self.covered_by),
            "unfinished": self.unfinished,
            "result": None if self.result is None else self.result.as_dict(),
            "error": self.error,
        }


@dataclass(frozen=True)
class Grouped:
    """What distilling many runs came to."""

    planner: str
    groups: tuple[Group, ...]
    """Most runs first."""
    undecided: dict[str, str]
    """Run → why it belongs to no group: the planner does not fail on it, or in several ways."""
    remarks: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether each group has a case."""
        return bool(self.groups) and all(group.has_case for group in self.groups)

    @property
    def terminated(self) -> bool:
        """Whether somebody asked the process to end."""
        return any(group.terminated for group in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "planner": self.planner,
            "groups": [group.as_dict() for group in self.groups],
            "undecided": dict(self.undecided),
            "remarks": list(self.remarks),
        }

    def as_text(self) -> str:
        """Return it for a person."""
        failing = sum(len(group.runs) for group in self.groups)
        all_runs = failing + len(self.undecided)
        lines = [
            f"{counted(failing, 'run')} of {all_runs} fail with {self.planner}, for "
            f"{counted(len(self.groups), 'reason')}"
        ]
        for group in self.groups:
            lines += ["", f"{group.reason}  ({counted(len(group.runs), 'run')})"]
            lines += [f"  failure  {group.failure}", f"  runs     {_some(group.runs)}"]
            lines += [f"  {line}" for line in _case_lines(group)]
        if self.undecided:
            lines += ["", f"no case for {counted(len(self.undecided), 'run')}:"]
            lines += [f"  {run_id}  {why}" for run_id, why in self.undecided.items()]
        lines += [f"note     {remark}" for remark in self.remarks]
        return text_of(lines)


def _case_lines(group: Group) -> list[str]:
    if group.covered_by is not None:
        lines = [f"covered  {group.covered_by}"]
        if group.unfinished is not None:
            lines += [f"         not minimal: distil it again with --run-id {group.unfinished}"]
        return lines
    if group.result is None:
        return [f"no case  {group.error}"]
    result = group.result
    lines = [f"case     {result.path}"] if result.path else []
    size = f"{result.before} -> {result.after}"
    lines.append(f"size     {size}, {counted(result.calls, 'candidate')}")
    return lines if result.minimal else [*lines, f"minimal  no: stopped early, {result.stopped}"]


def _some(runs: Sequence[str]) -> str:
    shown = ", ".join(runs[:3])
    return shown if len(runs) <= 3 else f"{shown} and {len(runs) - 3} more"


@dataclass
class _Pile:
    """A group on its way: the run that stands for it so far."""

    finding: OracleFinding
    size: int
    runs: list[str] = field(default_factory=list)

    def add(self, run_id: str, finding: OracleFinding, size: int) -> None:
        """Take a run that fails so; the smallest stands for all."""
        if size < self.size:
            self.finding, self.size = finding, size
            self.runs.insert(0, run_id)
        else:
            self.runs.append(run_id)


_Piles = dict[tuple[str, str | None], _Pile]
"""By signature and place."""


def distill_many(
    run_ids: Sequence[str],
    *,
    planner: str | object,
    fixed: str | object | None = None,
    store: Store,
    options: DistillOptions,
    progress: Step | None = None,
) -> Grouped:
    """Group failing runs by what is wrong with them, and distill one run of each group.

    Each case may cost what ``options`` say; ``progress`` is told of each run and each group.

    Raises:
        DistillError: the folder cannot be written to.
        PlannerError: a planner cannot be loaded or called.
    """
    tell = progress or (lambda *_: None)
    undecided: dict[str, str] = {}
    piles: _Piles = {}
    with ExitStack() as stack:
        failing = stack.enter_context(CaseRunner(planner, options=options.running))
        right = stack.enter_context(CaseRunner(fixed, options=options.running)) if fixed else None
        for done, run_id in enumerate(run_ids):
            tell("runs", done, len(run_ids))
            try:
                found, size = _failure(store.trajectory(run_id), failing, right, options)
                _put(piles, run_id, found, size)
            except TracekitError as error:
                undecided[run_id] = error.message.splitlines()[0]
        covering = Covering(options.out, spec(planner))
        covered = [(pile, covering.of(pile.finding, failing)) for pile in _most_first(piles)]
    groups: list[Group] = []
    for done, (pile, cover) in enumerate(covered):
        tell("groups", done, len(piles))
        if cover is None and not any(group.terminated for group in groups):
            groups.append(_distilled(pile, store, planner, fixed, options))
        else:
            groups.append(_left(pile) if cover is None else _covered(pile, cover))
    return Grouped(failing.planner_name, tuple(groups), undecided, tuple(covering.remarks))


def _most_first(piles: _Piles) -> list[_Pile]:
    return sorted(piles.values(), key=lambda pile: -len(pile.runs))


def _put(piles: _Piles, run_id: str, found: OracleFinding, size: int) -> None:
    pile = piles.setdefault((str(found.signature), found.place), _Pile(found, size))
    pile.add(run_id, found, size)


def _covered(pile: _Pile, cover: Cover) -> Group:
    finding = pile.finding
    return Group(
        finding.signature,
        finding.text,
        tuple(pile.runs),
        covered_by=cover.path,
        unfinished=None if cover.minimal else cover.run_id,
    )


def _left(pile: _Pile) -> Group:
    """A group that nothing was tried for any more."""
    finding = pile.finding
    return Group(finding.signature, finding.text, tuple(pile.runs), error=TERMINATED)


def _failure(
    record: Trajectory, failing: CaseRunner, fixed: CaseRunner | None, options: DistillOptions
) -> tuple[OracleFinding, int]:
    """Return what is wrong with a run, and how big the run is."""
    check_replayable(record, deciding=failing.deciding)
    start, _ = whole_run(
        record,
        deciding=failing.deciding,
        model=options.model,
        script=options.script,
        redactor=failing.redactor,
    )
    meant = meaning_of(record, start, options.wish, failing=failing, fixed=fixed)
    result = failing.run(meant.case)
    found = next(filter(meant.choice.fits, result.findings), None)
    if found is None:
        raise DistillError(f"it does not fail so: {result.verdict}")
    return found, start.size


def _distilled(
    pile: _Pile,
    store: Store,
    planner: str | object,
    fixed: str | object | None,
    options: DistillOptions,
) -> Group:
    reason = pile.finding.signature
    runs = tuple(pile.runs)
    try:
        record = store.trajectory(runs[0])
        result = distill_record(record, planner=planner, fixed=fixed, options=options)
    except TracekitError as error:
        return Group(reason, pile.finding.text, runs, error=error.message.splitlines()[0])
    return Group(reason, result.failure, runs, result=result)
