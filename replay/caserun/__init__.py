"""Runs a planner on a case and says what that proves.

``runner`` drives the planner and judges; ``answers`` is the world that the case stands for.
"""

from __future__ import annotations

from replay.caserun.answers import CaseAnswers
from replay.caserun.runner import CaseResult, CaseRunner, run_case

__all__ = ["CaseAnswers", "CaseResult", "CaseRunner", "run_case"]
