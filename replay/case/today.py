"""What a case expects, as the redaction of today would have recorded it.

What a planner says is redacted before anybody compares it. A case may be older than a rule, or hold
what a person wrote: the values that it names are compared as they would be recorded now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from replay.case.expected import AnswerRule, ArgumentRule, CallPattern, Expected
from tracekit.canonical import JsonValue
from tracekit.jsontree import get, parts, pointer

Redact = Callable[[JsonValue], JsonValue]
_SAME_VALUE = ("allOf", "anyOf", "oneOf")
_SAME_NAMES = ("patternProperties", "$defs")
_MOST_ITEMS = 1000
"""A larger number in a pointer is taken for a name."""


def as_of_today(expected: Expected, redact: Redact) -> Expected:
    """Return what is expected, with the values that it names redacted."""
    return expected.model_copy(
        update={
            "forbidden_tools": _patterns(expected.forbidden_tools, redact),
            "required_tools": _patterns(expected.required_tools, redact),
            "arguments": tuple(_rule(rule, redact) for rule in expected.arguments),
            "evidence": tuple(map(redact, expected.evidence)),
            "answer": expected.answer and _answer(expected.answer, redact),
        }
    )


def named_values(expected: Expected) -> JsonValue:
    """Return what is expected as JSON, for whoever looks for placeholders in it."""
    written: JsonValue = expected.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return written


def left_by_redaction(expected: Expected, redact: Redact) -> Expected:
    """Return of what is expected that which cannot be said of a redacted value.

    A text that no rule takes may still be a part of what one takes.
    """
    answer = expected.answer
    if answer is not None:
        kept = {
            name: tuple(text for text in getattr(answer, name) if redact(text) == text)
            for name in ("contains", "excludes")
        }
        answer = answer.model_copy(update={**kept, "required": False})
    rules = tuple(rule for rule in expected.arguments if rule.json_schema is not None)
    return Expected(arguments=rules, answer=answer, invariants=expected.invariants)


def _patterns(given: Sequence[str | CallPattern], redact: Redact) -> tuple[str | CallPattern, ...]:
    return tuple(
        one
        if isinstance(one, str) or one.arguments is None
        else one.model_copy(update={"arguments": redact(one.arguments)})
        for one in given
    )


def _rule(rule: ArgumentRule, redact: Redact) -> ArgumentRule:
    names = parts(rule.pointer)
    if rule.compares:
        return rule.model_copy(update={"equals": _placed(rule.equals, names, redact)})
    return rule.model_copy(update={"json_schema": _schema(rule.json_schema, names, redact)})


def _answer(rule: AnswerRule, redact: Redact) -> AnswerRule:
    return rule.model_copy(
        update={
            "contains": tuple(map(redact, rule.contains)),
            "excludes": tuple(map(redact, rule.excludes)),
            "json_schema": _schema(rule.json_schema, (), redact),
        }
    )


def _schema(schema: Any, names: tuple[str, ...], redact: Redact) -> Any:
    """The values that a schema names, redacted where they would stand."""
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    for word, part in schema.items():
        if word == "const":
            made[word] = _placed(part, names, redact)
        elif word == "enum":
            made[word] = [_placed(one, names, redact) for one in part]
        elif word == "properties":
            made[word] = {n: _schema(one, (*names, n), redact) for n, one in part.items()}
        elif word in ("items", "contains"):
            made[word] = _schema(part, (*names, "0"), redact)
        elif word == "prefixItems":
            items = enumerate(part)
            made[word] = [_schema(one, (*names, str(n)), redact) for n, one in items]
        elif word in _SAME_VALUE:
            made[word] = [_schema(one, names, redact) for one in part]
        elif word in _SAME_NAMES:
            made[word] = {n: _schema(one, names, redact) for n, one in part.items()}
        elif word in ("not", "additionalProperties"):
            made[word] = _schema(part, names, redact)
    return made


def _placed(value: JsonValue, names: tuple[str, ...], redact: Redact) -> JsonValue:
    """Redact a value where it stands: rules go by the names that lead to it."""

    def around(inner: JsonValue, name: str) -> JsonValue:
        if name.isdecimal() and int(name) < _MOST_ITEMS:
            return [*[None] * int(name), inner]
        return {name: inner}

    whole = reduce(around, reversed(names), value)
    return get(redact(whole), pointer(names))
