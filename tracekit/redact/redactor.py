"""Redact a JSON value: the fields by name and path, the texts by what stands in them.

The one idea: the shape stays. Keys stay keys, numbers stay numbers, a JSON text inside a string
stays that text but for the strings that held secrets. When anything fails, nothing of the value
gets through.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tracekit.interruption import pass_on
from tracekit.redact.found import Finding, Redacted
from tracekit.redact.glance import glance_for
from tracekit.redact.keys import KEY_ATTRIBUTE, TAG_LENGTH, Tagger, UnkeyedTagger
from tracekit.redact.names import name_class, normal_name
from tracekit.redact.placeholders import FAILED, make_placeholder, placeholder_kind
from tracekit.redact.prefilter import Prefilter
from tracekit.redact.rules import Rules
from tracekit.redact.scope import Scope
from tracekit.redact.streams import Redact, redact_pieces
from tracekit.redact.text import RuleFailed, TextRedactor
from tracekit.redact.walk import Walk

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue
    from tracekit.canonical.plain import Plain

_MOST_PASSES = 8
_LARGE = 1 << 14


class Redactor:
    """Take secrets out of values, the same placeholder for the same secret.

    Args:
        rules: What is a secret.
        tagger: Where tags come from; the key stays behind it.
    """

    def __init__(self, rules: Rules, tagger: Tagger) -> None:
        self.rules = rules
        self.tagger = tagger
        self._clean_keys: set[str] = set()
        self._text = TextRedactor(rules, tagger)
        self.idle = not (rules.builtin or rules.fields or rules.patterns or rules.functions)
        """Whether there is no rule at all."""
        # What a user's path, pattern or function looks for is not known.
        self._prefilter = self._glance = None
        if not (self.idle or rules.paths or rules.patterns or rules.functions):
            self._prefilter = Prefilter(self._is_clean_key, texts=rules.builtin)
            self._glance = glance_for(rules.names, builtin=rules.builtin)
        self._doubted: int | None = None

    @property
    def key_id(self) -> str | None:
        """Name the key that placeholders are made with; None where there is none at hand."""
        found = getattr(self.tagger, "key_id", None)
        return found if isinstance(found, str) else None

    @property
    def key_attribute(self) -> dict[str, JsonValue]:
        """Name the key for the attributes of a run: whoever has another cannot find its secrets."""
        return {} if self.key_id is None else {KEY_ATTRIBUTE: self.key_id}

    def key_attribute_beside(self, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Name the key of a run that also holds values of a recorded one, with these attributes.

        None where that has another key, or does not say: the run then has no one key.
        """
        return {k: v for k, v in self.key_attribute.items() if record.get(k) == v}

    def finds_nothing(self, plain: Plain, scope: Scope) -> bool:
        """Whether ``redact`` would certainly change nothing; quick, and never wrong to say so."""
        if self._glance is None or self._prefilter is None:
            return self.idle
        # A call asks twice about a value in which something may stand; a large one costs.
        told = hash(plain.data) if len(plain.data) > _LARGE else None
        if told is not None and told == self._doubted:
            return False
        known = scope.known
        nothing = self._glance.sees_nothing(plain.data, known)
        nothing = nothing or self._prefilter.passes(plain, known)
        self._doubted = None if nothing else told
        return nothing

    def warm_up(self) -> None:
        """Prepare for many values, instead of at the first few hundred of them."""
        if self._glance is not None:
            self._glance.make()

    def _is_clean_key(self, name: str) -> bool:
        if normal_name(name) in self.rules.names or (self.rules.builtin and name_class(name)):
            return False
        try:
            return self._text.redact(name, {}, []) == name
        except RuleFailed:
            return False

    def redact(self, value: JsonValue, *, scope: Scope | None = None) -> Redacted:
        """Return ``value`` without its secrets; if a rule fails, without anything."""
        if self.idle:
            return Redacted(value, {})
        scope = scope if scope is not None else Scope()
        walk = Walk(self.rules, self._text, scope, self._clean_keys)
        try:
            result = walk.document(value)
            if walk.learnt:
                again = Walk(self.rules, self._text, scope, self._clean_keys)
                result = again.document(result)
                walk.found += again.found
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing may get through
            pass_on(error)
            return self._failed(value, _reason(error))
        return Redacted(result, Counter(walk.found))

    def redact_stream(
        self, items: list[JsonValue], *, scope: Scope | None = None, ended: bool = False
    ) -> Redacted:
        """Return what a stream yielded without secrets, also those that its items share.

        As many items come back, unless a rule fails: then one, without anything.

        Args:
            items: What it yielded.
            scope: The secrets learnt elsewhere.
            ended: Whether the last item is what the stream returned or raised.
        """
        if self.idle:
            return Redacted(items, {})
        scope = scope if scope is not None else Scope()
        found: list[str] = []
        try:
            return self._settled(items, scope, found, ended=ended)
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing may get through
            pass_on(error)
            failure = self._failed(items, type(error).__name__)
            return replace(failure, value=[failure.value])

    def _settled(
        self, items: list[JsonValue], scope: Scope, found: list[str], *, ended: bool
    ) -> Redacted:
        """Redact what items share and each by itself until neither changes anything."""
        for _ in range(_MOST_PASSES):
            yielded, last = (items[:-1], items[-1:]) if ended else (items, [])
            shared, places = redact_pieces(yielded, self._of_pieces(scope.known, found))
            joined = [*shared, *last] if places else items
            alone = self.redact(joined, scope=scope)
            if alone.failure is not None or not isinstance(alone.value, list):
                raise RuleFailed("a rule failed on an item")
            found.extend(Counter(alone.kinds).elements())
            if not places and not alone.count:
                return Redacted(items, Counter(found))
            items = alone.value
        raise RuleFailed("the redaction rules change their own output again and again")

    def _of_pieces(self, known: Mapping[str, str], found: list[str]) -> Redact:
        return lambda pieces, running: self._text.redact_pieces(
            pieces, known, found, running=running
        )

    def redact_text(self, text: str, *, scope: Scope | None = None) -> str:
        """Return ``text`` without its secrets."""
        result = self.redact(text, scope=scope).value
        return result if isinstance(result, str) else str(result)

    def scan(self, value: JsonValue) -> list[Finding]:
        """Return the secrets in ``value`` that are not redacted, without changing it."""
        walk = Walk(self.rules, self._text, Scope(), self._clean_keys)
        try:
            walk.document(value)
        except Exception as error:  # noqa: BLE001  # what could not be read may be a secret
            pass_on(error)
            return [*walk.findings, Finding("", FAILED)]
        return walk.findings

    def scan_stream(self, items: list[JsonValue]) -> list[Finding]:
        """Return the secrets that items of a stream share and none shows alone."""
        found: list[str] = []
        try:
            _, places = redact_pieces(items, self._of_pieces({}, found))
        except Exception as error:  # noqa: BLE001  # what could not be read may be a secret
            pass_on(error)
            return [Finding("", FAILED)]
        return [Finding(place, kind) for place, kind in zip(places, found, strict=False)]

    def _failed(self, value: JsonValue, reason: str) -> Redacted:
        if isinstance(value, str) and placeholder_kind(value) is not None:
            return Redacted(value, {})
        try:
            tag = self._text.tag(FAILED, json.dumps(value, sort_keys=True))
        except (RuleFailed, RecursionError, ValueError, TypeError):
            tag = "0" * TAG_LENGTH
        return Redacted(make_placeholder(FAILED, tag, ""), {FAILED: 1}, reason)


def _reason(error: Exception) -> str:
    """Say why a value was not redacted, in words that hold nothing of it."""
    if isinstance(error, RecursionError):
        return "the value is nested too deeply"
    return str(error) if isinstance(error, RuleFailed) else type(error).__name__


def scan(value: JsonValue, *, rules: Rules | None = None) -> list[Finding]:
    """Return the unredacted secrets in ``value``; needs no key."""
    return Redactor(rules or Rules(), UnkeyedTagger()).scan(value)
