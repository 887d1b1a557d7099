"""Two sets of runs compared: chosen, paired by task and input, every pair diffed, all summed up.

``compare_many`` is the entrance. ``selection`` says which runs are meant, ``cases`` what each of
them worked on, ``pairing`` which belong together, ``references`` what else is accepted of a task,
``work`` compares some pairs in whatever process, ``outcome`` is the result and ``telling`` its
text.
"""

from __future__ import annotations

from replay.comparing.bulk import Progress, compare_many, pair_selected
from replay.comparing.outcome import ManyComparison, PairOutcome
from replay.comparing.pairing import Candidate, Pair, Pairing, Unpaired, pair_runs
from replay.comparing.references import Reference, References
from replay.comparing.selection import Selection, parse_selection

__all__ = [
    "Candidate",
    "ManyComparison",
    "Pair",
    "PairOutcome",
    "Pairing",
    "Progress",
    "Reference",
    "References",
    "Selection",
    "Unpaired",
    "compare_many",
    "pair_runs",
    "pair_selected",
    "parse_selection",
]
