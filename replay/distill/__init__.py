"""From a failing run to the smallest case that still fails for the same reason.

``problem`` owns the question and its cost, ``passes`` know how to leave parts out, ``layers`` say
what the parts of a case are, ``provenance`` where to look first, ``question`` which failure is
meant, ``judge`` whether a candidate still shows it, ``proof`` that the case means something,
``emission`` writes the file, and ``grouping`` finds out which runs fail alike.
"""

from __future__ import annotations

from replay.distill.distilling import distill_record, distill_run
from replay.distill.grouping import Group, Grouped, distill_many
from replay.distill.options import DistillOptions
from replay.distill.outcome import DistillResult, Extent
from replay.distill.problem import Budget, Problem
from replay.distill.question import Wish

__all__ = [
    "Budget",
    "DistillOptions",
    "DistillResult",
    "Extent",
    "Group",
    "Grouped",
    "Problem",
    "Wish",
    "distill_many",
    "distill_record",
    "distill_run",
]
