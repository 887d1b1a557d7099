"""A case: a failure kept as a file that a person reads and pytest runs.

``model`` and ``expected`` say what a case holds, ``reading`` and ``writing`` turn it from and into
YAML, ``schema`` checks values against the JSON Schemas that cases carry.
"""

from __future__ import annotations

from replay.case.comments import rewrite_case, with_comments
from replay.case.expected import (
    AfterError,
    AnswerRule,
    ArgumentRule,
    Budgets,
    CallPattern,
    Expected,
    Oracles,
)
from replay.case.model import (
    FORMAT,
    Case,
    Fault,
    Fixture,
    Minted,
    ModelScript,
    ProposedCall,
    Rate,
    Reason,
    Reply,
    Said,
    ScriptedDecision,
    Source,
    json_schema,
)
from replay.case.reading import SUFFIX, parse_case, read_case, read_oracles
from replay.case.writing import dump_case, first_line
from tracekit.textfiles import MAX_BYTES

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "SUFFIX",
    "AfterError",
    "AnswerRule",
    "ArgumentRule",
    "Budgets",
    "CallPattern",
    "Case",
    "Expected",
    "Fault",
    "Fixture",
    "Minted",
    "ModelScript",
    "Oracles",
    "ProposedCall",
    "Rate",
    "Reason",
    "Reply",
    "Said",
    "ScriptedDecision",
    "Source",
    "dump_case",
    "first_line",
    "json_schema",
    "parse_case",
    "read_case",
    "read_oracles",
    "rewrite_case",
    "with_comments",
]
