"""Redact a JSON value: the fields by name and path, the texts by what stands in them.

The one idea: the shape stays. Keys stay keys, numbers stay numbers, a JSON text inside a string
stays that text but for the strings that held secrets. When anything fails, nothing of the value
gets through.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING

from tracekit.interruption import pass_on
from tracekit.redact.base64text import read_base64, write_base64
from tracekit.redact.detectors import is_card
from tracekit.redact.found import Finding, Redacted
from tracekit.redact.glance import glance_for
from tracekit.redact.keys import TAG_LENGTH, Tagger, UnkeyedTagger
from tracekit.redact.names import name_class, named_value, normal_name, path_matches
from tracekit.redact.placeholders import (
    FAILED,
    NUMBER,
    SECRET,
    find_placeholders,
    is_number_placeholder,
    make_placeholder,
    number_placeholder,
    placeholder_kind,
)
from tracekit.redact.prefilter import Prefilter
from tracekit.redact.repeated import Repeated, read_all
from tracekit.redact.respelling import respell
from tracekit.redact.rules import Rules
from tracekit.redact.schemas import is_schema
from tracekit.redact.scope import Scope
from tracekit.redact.streams import Redact, redact_pieces
from tracekit.redact.text import RuleFailed, TextRedactor

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue
    from tracekit.canonical.plain import Plain

_SCHEME = re.compile(r"(?ai:bearer|basic|token|digest|apikey) +")
_MASKS = re.compile(r"\**|__REDACTED__|\[REDACTED\]|<fully masked.*>")
_MOST_PASSES = 8
_MOST_KEYS = 4096
_SHORTEST = 6
"""No text shorter than this is a secret by itself: a mail address, a learnt password."""
_SHORTEST_WORD = 12
"""Nor is a single word of letters shorter than this."""
_SHORTEST_CARD = 10**11
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
        walk = _Walk(self.rules, self._text, scope, self._clean_keys)
        try:
            result = walk.value(value)
            if walk.learnt:
                again = _Walk(self.rules, self._text, scope, self._clean_keys)
                result = again.value(result)
                walk.found += again.found
        except RuleFailed as error:
            return self._failed(value, str(error))
        except RecursionError:
            return self._failed(value, "the value is nested too deeply")
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
        walk = _Walk(self.rules, self._text, Scope(), self._clean_keys)
        try:
            walk.value(value)
        except (RuleFailed, RecursionError):
            return [*walk.findings, Finding("", FAILED)]
        return walk.findings

    def scan_stream(self, items: list[JsonValue]) -> list[Finding]:
        """Return the secrets that items of a stream share and none shows alone."""
        found: list[str] = []
        try:
            _, places = redact_pieces(items, self._of_pieces({}, found))
        except (RuleFailed, RecursionError):
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


def scan(value: JsonValue, *, rules: Rules | None = None) -> list[Finding]:
    """Return the unredacted secrets in ``value``; needs no key."""
    return Redactor(rules or Rules(), UnkeyedTagger()).scan(value)


class _Walk:
    """One passage through one value."""

    def __init__(
        self, rules: Rules, text: TextRedactor, scope: Scope, clean_keys: set[str]
    ) -> None:
        self._clean_keys = clean_keys
        self._rules = rules
        self._text = text
        self._scope = scope
        self._path: list[str | int] = []
        self._paths = bool(rules.paths)
        self._own_texts = bool(rules.patterns or rules.functions)
        self.found: list[str] = []
        self.findings: list[Finding] = []
        self.learnt = False

    def value(self, value: JsonValue, *, secret: bool = False) -> JsonValue:
        """Return ``value`` redacted, or the same object if nothing was.

        Args:
            value: The value.
            secret: Whether a field rule holds for all of it.
        """
        if self._rules.paths and not secret:
            secret = any(path_matches(rule, self._path) for rule in self._rules.paths)
        if isinstance(value, str):
            return self._string(value, secret=secret)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return self._object(value, secret=secret)
        if isinstance(value, Repeated):
            return self._repeated(value, secret=secret)
        if isinstance(value, list):
            return self._array(value, secret=secret)
        return self._number(value, secret=secret)

    def _repeated(self, value: Repeated, *, secret: bool) -> JsonValue:
        """Redact an object that has a key more than once: its parts stand at one place."""
        told = value.told() if self._rules.builtin else (None,) * len(value)
        parts: list[JsonValue] = [
            self._object(part, secret=secret, told=one)
            for part, one in zip(value, told, strict=True)
        ]
        return parts if any(map(is_not, parts, value)) else value

    def _object(
        self, value: dict[str, JsonValue], *, secret: bool, told: tuple[str, str] | None = None
    ) -> dict[str, JsonValue]:
        if secret and value.keys() == {"$bytes"}:
            return self._bytes(value)
        result: dict[str, JsonValue] = {}
        changed = False
        if told is None and self._rules.builtin:
            told = named_value(value)
        for name, item in value.items():
            key = self._key(name, result)
            said = told[1] if told is not None and told[0] == name else name
            named = secret or self._names_secret(said, item, value)
            if not named and self._cannot_hold(item):
                new = item
            else:
                self._path.append(name)
                new = self.value(item, secret=named)
                self._path.pop()
            result[key] = new
            changed = changed or key != name or new is not item
        return result if changed else value

    def _bytes(self, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return bytes that a field rule holds for: what stands there can be read as bytes."""
        text = str(value["$bytes"])
        data = read_base64(text)
        said = text if data is None else data.decode("utf-8", "surrogateescape")
        if (new := self._string(said, secret=True)) == said:
            return value
        return {"$bytes": write_base64(new.encode("utf-8", "surrogateescape"), "====")}

    def _array(self, value: list[JsonValue], *, secret: bool) -> list[JsonValue]:
        result: list[JsonValue] = []
        changed = False
        for index, item in enumerate(value):
            if not secret and self._cannot_hold(item):
                result.append(item)
                continue
            self._path.append(index)
            new = self.value(item, secret=secret)
            self._path.pop()
            result.append(new)
            changed = changed or new is not item
        return result if changed else value

    def _cannot_hold(self, item: JsonValue) -> bool:
        """Whether an item without a rule of its own is too small for a secret of any kind."""
        kind = type(item)
        if kind is str:
            if self._own_texts or self._paths:
                return False
            size = len(item)  # type: ignore[arg-type]  # a str
            return size < _SHORTEST or (size < _SHORTEST_WORD and item.isalpha())  # type: ignore[union-attr]  # a str
        if kind is int:
            return not self._paths and -_SHORTEST_CARD < item < _SHORTEST_CARD  # type: ignore[operator]  # an int
        return not self._paths and (kind is float or kind is bool or item is None)

    def _key(self, name: str, taken: Mapping[str, JsonValue]) -> str:
        if name in self._clean_keys and not self._scope.known:
            return name
        key = self._plain(name)
        if key == name:
            if len(self._clean_keys) < _MOST_KEYS:
                self._clean_keys.add(name)
            return name
        unique, number = key, 2
        while unique in taken:
            unique, number = f"{key}-{number}", number + 1
        return unique

    def _names_secret(self, name: str, item: JsonValue, siblings: Mapping[str, JsonValue]) -> bool:
        if self._rules.names and normal_name(name) in self._rules.names:
            return True
        kind = name_class(name) if self._rules.builtin else None
        if kind is None:
            return False
        if kind == "token":
            texts = isinstance(item, list) and all(isinstance(one, str) for one in item)
            return (isinstance(item, str) or texts) and "logprob" not in siblings
        return not is_schema(item)

    def _string(self, value: str, *, secret: bool) -> str:
        if not value or (secret and _MASKS.fullmatch(value)):
            return value
        inside = self._json_inside(value, secret=secret)
        if inside is not None:
            return inside
        if not secret:
            return self._plain(value)
        if placeholder_kind(value) is not None:
            return value
        scheme = _SCHEME.match(value)
        if scheme is not None and scheme.end() < len(value):
            return scheme[0] + self._string(value[scheme.end() :], secret=True)
        placeholder, kind = self._text.placeholder(SECRET, value)
        self._note(kind)
        self._learn(value, placeholder)
        return placeholder

    def _plain(self, value: str) -> str:
        before = len(self.found)
        result = self._text.redact(value, self._scope.known, self.found)
        pointer = self._pointer() if len(self.found) > before else ""
        self.findings += [Finding(pointer, kind) for kind in self.found[before:]]
        return result

    def _number(self, value: int | float, *, secret: bool) -> int | float:
        if isinstance(value, int) and self._rules.builtin and is_card(text := str(value)):
            if placeholder_kind(text) is not None:
                return value
            self._note("card")
            return int(self._text.placeholder("card", text)[0])
        if not secret or is_number_placeholder(value):
            return value
        self._note(NUMBER)
        number = number_placeholder(self._text.tag(NUMBER, str(value)))
        return number if isinstance(value, int) else float(number)

    def _json_inside(self, text: str, *, secret: bool) -> str | None:
        """Return a JSON text redacted, all else in it kept; None if ``text`` is none."""
        stripped = text.strip()
        if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
            return None
        try:
            value = read_all(text)
            new = self.value(value, secret=secret)
        except (ValueError, RecursionError):
            return None
        return text if new is value else respell(text, value, new)

    def _learn(self, secret: str, placeholder: str) -> None:
        if find_placeholders(secret):
            return
        self._scope.learn(secret, placeholder)
        self.learnt = self.learnt or secret in self._scope.known

    def _note(self, kind: str) -> None:
        self.found.append(kind)
        self.findings.append(Finding(self._pointer(), kind))

    def _pointer(self) -> str:
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in self._path)
        return "".join(f"/{step}" for step in steps)
