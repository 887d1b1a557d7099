"""What every run would build for itself at its first call, built once before many are forked."""

from __future__ import annotations

import importlib
from typing import get_args

from tracekit.contract import Contract
from tracekit.events import Fact, Payload
from tracekit.redact import Redactor
from tracekit.redact.keys import UnkeyedTagger
from tracekit.settings import redaction_rules

_AT_THE_FIRST_CALL = ("concurrent.futures.thread",)
"""Modules that recording imports when an agent begins; see ``tracekit.carrying``."""


def warm_up() -> None:
    """Build the models of facts and what looks for secrets; import what a first call imports."""
    for model in (Payload, Contract, *get_args(Fact)):
        model.model_rebuild()
    for name in _AT_THE_FIRST_CALL:
        importlib.import_module(name)
    Redactor(redaction_rules(), UnkeyedTagger()).warm_up()
