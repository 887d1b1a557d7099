"""Which incidents have a case already: what the planner fails today as it fails on their runs.

What a case says of itself is not enough: its planner may pass it by now, and the class
of an error says nothing of its place. So the planner is run on each case that speaks of the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replay.case import SUFFIX, Case, Reason, read_case
from replay.caserun import CaseResult, CaseRunner
from replay.oracles import OracleFinding
from tracekit.errors import CaseError


@dataclass(frozen=True)
class Cover:
    """A case that was there already."""

    path: Path
    case: Case

    @property
    def minimal(self) -> bool:
        """Whether it is as small as can be, and not what was left when a reduction ended early."""
        return self.case.minimal is not False

    @property
    def run_id(self) -> str | None:
        """The run that it was made of."""
        return self.case.source.run if self.case.source is not None else None


class Covering:
    """The cases of a folder, as far as they are about a planner's failures."""

    def __init__(self, folder: Path | None, planner: str | None) -> None:
        self.remarks: list[str] = []
        """What of the folder covers nothing, and why."""
        self._by_reason: dict[Reason, list[Cover]] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder is not None else ():
            try:
                case = read_case(path)
            except CaseError as error:
                self.remarks.append(f"left alone: {error.message.splitlines()[0]}")
                continue
            if case.reason is not None and case.source and case.source.planner == planner:
                self._by_reason.setdefault(case.reason, []).append(Cover(path, case))

    def of(self, finding: OracleFinding, planner: CaseRunner) -> Cover | None:
        """Return the case that ``planner`` fails as in ``finding``; a minimal one where it can."""
        about = self._by_reason.get(finding.signature, [])
        for cover in sorted(about, key=lambda cover: not cover.minimal):
            result = _run(cover.case, planner)
            alike = [found for found in result.findings if found.signature == finding.signature]
            if any(found.place == finding.place for found in alike):
                return cover
            remark = f"{cover.path} does not show its failure any more: {result.verdict}"
            if not alike and remark not in self.remarks:
                self.remarks.append(remark)
        return None


def _run(case: Case, planner: CaseRunner) -> CaseResult:
    """Run the planner on a case; one that fails only sometimes, as often as it takes to see it."""
    result = planner.run(case)
    for _ in range(case.repeat - 1):
        if any(found.signature == case.reason for found in result.findings):
            break
        result = planner.run(case)
    return result
