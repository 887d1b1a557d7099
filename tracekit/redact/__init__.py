"""Secrets out of values before they leave the process, their identity kept.

The one idea: the same secret always becomes the same placeholder, which is valid for its field, so
that a planner replayed on redacted observations asks for what was recorded. That is
pseudonymisation: whoever holds the key can check a guess. Rejected: removing secrets altogether,
after which no recording matches its own replay.
"""

from __future__ import annotations

from tracekit.redact.found import Finding, Redacted
from tracekit.redact.keys import (
    KEY_ATTRIBUTE,
    KEY_VARIABLE,
    KeyedTagger,
    Tagger,
    UnkeyedTagger,
    key_path,
    load_key,
)
from tracekit.redact.placeholders import find_placeholders, placeholder_kind
from tracekit.redact.redactor import Redactor, scan
from tracekit.redact.rules import Rules
from tracekit.redact.scope import Scope
from tracekit.redact.text import inside_a_rule

__all__ = [
    "KEY_ATTRIBUTE",
    "KEY_VARIABLE",
    "Finding",
    "KeyedTagger",
    "Redacted",
    "Redactor",
    "Rules",
    "Scope",
    "Tagger",
    "UnkeyedTagger",
    "find_placeholders",
    "inside_a_rule",
    "key_path",
    "load_key",
    "placeholder_kind",
    "scan",
]
