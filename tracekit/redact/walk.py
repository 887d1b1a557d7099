"""One passage through a value: each field by its name and path, each text by what stands in it.

The one idea: what is given back is the same object where nothing was found, so that whoever asked
sees at once whether anything was. A definition stands under the names of all that refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import is_not
from typing import TYPE_CHECKING

from tracekit.redact.base64text import read_base64, write_base64
from tracekit.redact.detectors import is_card
from tracekit.redact.found import Finding
from tracekit.redact.names import name_class, named_value, normal_name, path_matches
from tracekit.redact.placeholders import (
    NUMBER,
    SECRET,
    find_placeholders,
    is_number_placeholder,
    number_placeholder,
    placeholder_kind,
)
from tracekit.redact.references import WHOLE, Slot, definitions
from tracekit.redact.repeated import Repeated, read_all
from tracekit.redact.respelling import respell
from tracekit.redact.rules import Rules
from tracekit.redact.schemas import is_schema, is_typed
from tracekit.redact.scope import Scope
from tracekit.redact.text import TextRedactor

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue

_SCHEME = re.compile(r"(?ai:bearer|basic|token|digest|apikey) +")
_MASKS = re.compile(r"\**|__REDACTED__|\[REDACTED\]|<fully masked.*>")
_MOST_KEYS = 4096
_SHORTEST = 6
"""No text shorter than this is a secret by itself: a mail address, a learnt password."""
_SHORTEST_WORD = 12
"""Nor is a single word of letters shorter than this."""
_SHORTEST_CARD = 10**11


class Walk:
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
        self._under: list[tuple[JsonValue, bool]] = []
        self._referred: dict[Slot, bool] = {}

    def document(self, value: JsonValue, *, secret: bool = False) -> JsonValue:
        """Return a whole value redacted as ``value`` does; references are read in it."""
        outside = self._under, self._referred
        self._under = []
        found, findings = len(self.found), len(self.findings)
        try:
            result = self.value(value, secret=secret)
            referred = {} if secret else definitions(value, self._under)
            if referred:  # anew, since a definition may stand before whoever refers to it
                del self.found[found:], self.findings[findings:]
                self._referred = referred
                result = self.value(value, secret=self._is_referred(WHOLE, value))
        finally:
            self._under, self._referred = outside
        return result

    def value(self, value: JsonValue, *, secret: bool = False) -> JsonValue:
        """Return ``value`` redacted, or the same object if nothing was.

        Args:
            value: The value.
            secret: Whether a field rule holds for all of it.
        """
        if self._rules.paths and not secret:
            secret = any(path_matches(rule, self._path) for rule in self._rules.paths)
            if secret:
                self._under.append((value, True))
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
            named = named or self._is_referred((id(value), name), item)
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
            named = secret or self._is_referred((id(value), index), item)
            if not named and self._cannot_hold(item):
                result.append(item)
                continue
            self._path.append(index)
            new = self.value(item, secret=named)
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
            self._under.append((item, True))
            return True
        kind = name_class(name) if self._rules.builtin else None
        if kind is None:
            return False
        if kind == "token" and not is_typed(item):
            texts = isinstance(item, list) and all(isinstance(one, str) for one in item)
            return (isinstance(item, str) or texts) and "logprob" not in siblings
        self._under.append((item, False))
        return not is_schema(item)

    def _is_referred(self, slot: Slot, item: JsonValue) -> bool:
        """Whether something under the name of a secret refers to what stands there."""
        whole = self._referred.get(slot) if self._referred else None
        return whole is not None and (whole or not is_schema(item))

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
            new = self.document(value, secret=secret)
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
