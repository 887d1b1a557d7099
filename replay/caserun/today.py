"""What a case expects of arguments, as the redaction of today would have recorded them.

A planner's arguments are redacted before anybody compares them. A case may be older than a rule, or
hold what a person wrote: the values that it names are compared as they would be recorded now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from replay.case.expected import ArgumentRule, CallPattern, Expected
from tracekit.canonical import JsonValue
from tracekit.jsontree import get, parts, pointer

Redact = Callable[[JsonValue], JsonValue]


def as_of_today(expected: Expected, redact: Redact) -> Expected:
    """Return what is expected, with the values of arguments redacted."""
    return expected.model_copy(
        update={
            "forbidden_tools": _patterns(expected.forbidden_tools, redact),
            "required_tools": _patterns(expected.required_tools, redact),
            "arguments": tuple(_rule(rule, redact) for rule in expected.arguments),
        }
    )


def _patterns(given: Sequence[str | CallPattern], redact: Redact) -> tuple[str | CallPattern, ...]:
    return tuple(
        one
        if isinstance(one, str) or one.arguments is None
        else one.model_copy(update={"arguments": redact(one.arguments)})
        for one in given
    )


def _rule(rule: ArgumentRule, redact: Redact) -> ArgumentRule:
    """A value is redacted where it stands: rules go by the names that lead to it."""
    if not rule.compares:
        return rule
    names = parts(rule.pointer)
    whole = reduce(lambda value, name: {name: value}, reversed(names), rule.equals)
    return rule.model_copy(update={"equals": get(redact(whole), pointer(names))})
