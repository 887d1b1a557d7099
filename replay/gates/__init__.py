"""Release thresholds: a small file says what must hold, and every line is judged with its evidence.

``read_gates`` reads the file and ``run_gates`` judges two selections of a store. ``grammar`` is the
language, ``comparable`` refuses sets that were made otherwise, ``estimating`` and ``judging`` come
to verdicts, ``outcome`` is the result; ``telling`` and ``junit`` write it.
"""

from __future__ import annotations

from replay.gates.evidence import Evidence, MeasuredPair
from replay.gates.file import Gate, GateFile, parse_gates, read_gates
from replay.gates.grammar import NoGate, parse_rule
from replay.gates.judging import judge
from replay.gates.outcome import GateOutcome, GateReport
from replay.gates.running import run_gates

__all__ = [
    "Evidence",
    "Gate",
    "GateFile",
    "GateOutcome",
    "GateReport",
    "MeasuredPair",
    "NoGate",
    "judge",
    "parse_gates",
    "parse_rule",
    "read_gates",
    "run_gates",
]
