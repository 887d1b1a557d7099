"""How a call of a replay finds its observation in the record.

``Player`` is the way in. The rest is one idea a module: ``binding`` spells a call as the record
would, ``renaming`` by what was mapped (``respelling``: a whole replay), ``aliases`` and ``lenses``
say when two calls are the same, ``shelves`` and ``library`` say which of several comes next,
``rungs`` looks for an answer, ``unmatched`` does without one.
"""

from __future__ import annotations

from replay.matching.options import (
    parse_binding,
    parse_ignore,
    parse_map,
    parse_unmatched,
    parse_window,
    split_similarity,
)
from replay.matching.player import EVIDENCE, Player
from replay.matching.unmatched import never_answered, not_in_recording
from replay.matching.validating import refusal
from replay.matching.values import (
    UNMATCHED,
    Answer,
    ArgumentMap,
    AskedCall,
    AskedPrompt,
    Nearest,
    Policies,
    Unmatched,
)

__all__ = [
    "EVIDENCE",
    "UNMATCHED",
    "Answer",
    "ArgumentMap",
    "AskedCall",
    "AskedPrompt",
    "Nearest",
    "Player",
    "Policies",
    "Unmatched",
    "never_answered",
    "not_in_recording",
    "parse_binding",
    "parse_ignore",
    "parse_map",
    "parse_unmatched",
    "parse_window",
    "refusal",
    "split_similarity",
]
