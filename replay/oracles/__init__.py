"""What can be asserted of a planner's run, and what speaks against it. Pure.

``judging`` goes through what a case expects, one oracle after the other; ``outcome`` says what they
look at and what a finding is.
"""

from __future__ import annotations

from replay.oracles.judging import evaluate
from replay.oracles.outcome import ORACLE_LAYERS, OracleFinding, Outcome, unevaluated

__all__ = ["ORACLE_LAYERS", "OracleFinding", "Outcome", "evaluate", "unevaluated"]
