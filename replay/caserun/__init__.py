"""Runs a planner on a case and says what that proves.

``runner`` drives the planner and judges; ``answers`` is the world that the case stands for;
``testing`` puts a case into a test that is written by hand.
"""

from __future__ import annotations

from replay.caserun.answers import CaseAnswers
from replay.caserun.runner import CaseResult, CaseRunner, run_case
from replay.caserun.testing import on_case

__all__ = ["CaseAnswers", "CaseResult", "CaseRunner", "on_case", "run_case"]
