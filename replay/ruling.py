"""The rules of redaction that the planner's own code sets, carried to the process that judges it.

Names, paths and patterns are texts, and go over. A function stays where it is: the planner's
process is asked whether it finds something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracekit.canonical import JsonValue
from tracekit.configuration import configured_rules
from tracekit.redact import Redactor, Rules, UnkeyedTagger


def told_rules() -> dict[str, Any]:
    """Say as JSON which rules this process has; of functions, only how many."""
    rules = configured_rules()
    patterns = dict(zip(rules.patterns, (pattern for _, pattern in rules.compiled), strict=True))
    return {
        "fields": list(rules.fields),
        "patterns": [[name, one.pattern, one.flags] for name, one in patterns.items()],
        "functions": len(rules.functions),
    }


def with_told(rules: Rules, told: Mapping[str, Any]) -> Rules:
    """Return ``rules`` and those that the planner's process told of, under its names.

    A pattern's name stands in its placeholders, and that process makes placeholders, too.
    """
    theirs = {str(name): re.compile(text, flags) for name, text, flags in told["patterns"]}
    known = {(pattern.pattern, pattern.flags) for pattern in theirs.values()}
    more = [one for _, one in rules.compiled if (one.pattern, one.flags) not in known]
    added = {f"pattern_{len(theirs) + n}": one for n, one in enumerate(more, 1)}
    fields = tuple(dict.fromkeys((*map(str, told["fields"]), *rules.fields)))
    return replace(rules, fields=fields, patterns=theirs | added)


def found_by_functions(values: Sequence[JsonValue]) -> list[bool]:
    """Say of each value whether a function of this process's rules finds something in it."""
    own = Rules(functions=configured_rules().functions, builtin=False)
    redactor = Redactor(own, UnkeyedTagger())
    return [bool(redactor.scan(value)) for value in values]
