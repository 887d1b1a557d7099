"""What a case expects beside a record that redaction has been over: as redaction leaves both.

A person writes ``bob@corp.org``, and the record holds a placeholder. So the values that the case
names are redacted as well, by the rules of today and with the user's key, and what the record still
says is. What a placeholder cannot tell (a part of the secret, a pattern; without the key that the
run names as its own, which secret of its kind it is) is judged by nobody, which is neither right
nor wrong. A placeholder that stands in the record tells itself: it is of the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from replay.case import AnswerRule, ArgumentRule, CallPattern, Expected
from replay.case.remembering import RememberingTagger, placeholders_in
from replay.case.retaken import placeholders_of, with_values
from replay.case.today import as_of_today, left_by_redaction, named_values
from replay.matching.respelling import in_recorded_words
from replay.metrics.gold import Gold, gold_of_case
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import PointerNotFound
from tracekit.jsontree import get
from tracekit.redact import KEY_ATTRIBUTE, Redactor, find_placeholders
from tracekit.settings import redaction_rules
from tracekit.trajectory import Trajectory

_OF_ANY_VALUE = frozenset(
    ("type", "const", "enum", "properties", "required", "items", "additionalProperties")
)
"""Words of schemas that say the same of a value and of its placeholder, once redacted."""
_ABOUT_VALUES = ("forbidden_tools", "required_tools", "arguments", "evidence", "answer")


@dataclass(frozen=True, slots=True)
class Shown:
    """A run and what it is measured against, as far as they can be compared."""

    run: Trajectory
    gold: Gold | None
    hidden: frozenset[str] = frozenset()
    """Fields of ``expected`` of which a part can be judged by nobody."""


def as_shown(run: Trajectory, gold: Gold | None) -> Shown:
    """Redact a run and the case that it is measured against alike, where either has been."""
    case = gold.case if gold is not None else None
    if gold is None or case is None:
        return Shown(run, gold)
    written = named_values(case.expected)
    recorded = placeholders_of(run)
    if not (recorded or _is_redacted(written)):
        return Shown(run, gold)
    tagger = RememberingTagger.of_user()
    redactor = Redactor(redaction_rules(), tagger)
    failures: list[str] = []

    def redact(value: JsonValue) -> JsonValue:
        found = redactor.redact(value)
        if found.failure is not None:
            failures.append(found.failure)
        return found.value

    shown = with_values(run, redact)
    today = as_of_today(case.expected, redact)
    left = left_by_redaction(case.expected, redact).answer
    keys = {tagger.key_id, run.attributes.get(KEY_ATTRIBUTE)}
    if case.source is not None and case.source.redaction_key is not None:
        keys.add(case.source.redaction_key)
    sure = _Sure(
        (shown, shown if gold.record is None else in_recorded_words(shown, gold.record)),
        known=len(keys) == 1 and None not in keys,
        stood=recorded if tagger.key_id is not None else set(),
    )
    expected = sure.none_of(case.expected) if failures else sure.of(today, left)
    kept = gold_of_case(case.model_copy(update={"expected": expected}))
    if gold.run != gold_of_case(case).run:  # somebody chose another
        kept = replace(kept, run=gold.run)
    return Shown(
        shown,
        replace(gold, run=kept.run, evidence=kept.evidence, case=kept.case),
        frozenset(sure.hidden),
    )


def why_hidden(names: Iterable[str]) -> str:
    """Say why nobody can judge what a case expects."""
    told = " and ".join(f"expected.{name}" for name in sorted(names))
    return f"redaction took values of its record that {told} looks at"


class _Sure:
    """Takes out of what is expected what nobody can judge, and keeps in mind where."""

    def __init__(self, wordings: Sequence[Trajectory], *, known: bool, stood: set[str]) -> None:
        self._wordings = wordings
        self._known = known
        self._stood = stood
        self.hidden: set[str] = set()

    def of(self, today: Expected, left: AnswerRule | None) -> Expected:
        """Keep what can be judged.

        Args:
            today: What is expected, redacted.
            left: Of the answer, what a placeholder cannot tell.
        """
        patterns = {
            name: tuple(one for one in getattr(today, name) if self._sure(name, _arguments(one)))
            for name in ("forbidden_tools", "required_tools")
        }
        rules = tuple(rule for rule in today.arguments if self._rule(rule))
        evidence = tuple(one for one in today.evidence if self._sure("evidence", one))
        answer = today.answer
        if answer is not None and left is not None:
            answer = self._answer(answer, left)
        more = {"arguments": rules, "evidence": evidence, "answer": answer}
        return today.model_copy(update={**patterns, **more})

    def none_of(self, expected: Expected) -> Expected:
        """Keep nothing that looks at a value: a rule failed, so that nobody knows what it is."""
        empty = Expected()
        blank = {name: getattr(empty, name) for name in _ABOUT_VALUES}
        self.hidden |= {name for name, none in blank.items() if getattr(expected, name) != none}
        return expected.model_copy(update=blank)

    def _sure(self, name: str, value: JsonValue) -> bool:
        """Whether a value can be told from others: the key tells, else only the kind is known."""
        return self._known or placeholders_in(value) <= self._stood or self._hide(name)

    def _hide(self, name: str) -> bool:
        self.hidden.add(name)
        return False

    def _rule(self, rule: ArgumentRule) -> bool:
        value = rule.equals if rule.compares else rule.json_schema
        if not self._sure("arguments", value):
            return False
        if rule.json_schema is None or not _asks_more(rule.json_schema):
            return True
        calls = chain.from_iterable(run.calls for run in self._wordings)
        seen = [_at(call.arguments, rule.pointer) for call in calls if call.tool == rule.tool]
        return not any(map(_is_redacted, seen)) or self._hide("arguments")

    def _answer(self, rule: AnswerRule, left: AnswerRule) -> AnswerRule:
        given = self._wordings[0].answer.value
        asked = {
            name: tuple(one for one in getattr(rule, name) if self._sure("answer", one))
            for name in ("contains", "excludes")
        }
        if not _is_redacted(given):
            return rule.model_copy(update=asked)
        text = _without_placeholders(given if isinstance(given, str) else json_text(given))
        for name, hides in (("contains", left.contains), ("excludes", left.excludes)):
            open_ones = {one for one in hides if one.casefold() not in text}
            if open_ones:
                self._hide("answer")
            asked[name] = tuple(one for one in asked[name] if one not in open_ones)
        if left.matches or left.json_schema is not None:
            self._hide("answer")
        return rule.model_copy(update={**asked, "matches": (), "json_schema": None})


def _arguments(pattern: str | CallPattern) -> JsonValue:
    return None if isinstance(pattern, str) else pattern.arguments


def _at(arguments: JsonValue, pointer: str) -> JsonValue:
    try:
        return get(arguments, pointer)
    except PointerNotFound:
        return None


def _asks_more(schema: JsonValue) -> bool:
    if not isinstance(schema, dict):
        return False
    parts = schema.get("properties")
    inner = [*(parts.values() if isinstance(parts, dict) else ()), schema.get("items")]
    return bool(schema.keys() - _OF_ANY_VALUE) or any(map(_asks_more, inner))


def _is_redacted(value: JsonValue) -> bool:
    return bool(placeholders_in(value))


def _without_placeholders(text: str) -> str:
    for wall in reversed(find_placeholders(text)):
        text = f"{text[: wall.start]}\0{text[wall.end :]}"
    return text.casefold()
