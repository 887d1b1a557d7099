"""A contract as it is kept: without the secrets in its defaults, its schemas and what it says.

Code may hold a secret where it declares a tool. The one idea: what stands there is redacted as if a
call had given it, by the same rules under the same names, so that a default is kept as the argument
is that was left out, and a replay finds the two equal. The shape of a schema stays.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping

from tracekit.canonical import JsonValue, digest_bytes, parse_json
from tracekit.contract import Contract, Parameter
from tracekit.events import Blob
from tracekit.jsontree import differences
from tracekit.redact import Finding, Redactor, Scope, find_placeholders
from tracekit.redact.placeholders import SECRET

Place = tuple[str | int, ...]
"""Where a value would stand in the arguments: names, and 0 for an item of a list."""

_NAMING = frozenset(("properties", "patternProperties"))
_DEFINING = frozenset(("$defs", "definitions", "dependentSchemas"))
_OF_ITEMS = frozenset(("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"))
_OF_THE_SAME = frozenset(("anyOf", "oneOf", "allOf", "not", "if", "then", "else"))
_VALUES = frozenset(("default", "const", "example"))
_LISTS_OF_VALUES = frozenset(("enum", "examples"))
_SHAPE = frozenset(("type", "required", "format", "pattern", "$ref", "$id", "$anchor", "$schema"))
"""What says nothing of a value, and would be no schema if it were changed."""

_kept: weakref.WeakKeyDictionary[Redactor, dict[str, Blob]] = weakref.WeakKeyDictionary()


def kept_contract(text: str, redactor: Redactor) -> Blob:
    """Return what is kept of the contract that ``text`` is; found out once a redactor."""
    known = _kept.setdefault(redactor, {})
    if text not in known:
        data = _without_secrets(text, redactor).encode()
        known[text] = Blob(digest_bytes(data), "application/json", data)
    return known[text]


def secrets_of_contract(text: str, redactor: Redactor) -> Iterator[Finding]:
    """Yield where secrets stand in a contract that was kept with them.

    Raises:
        ValueError: the text is no contract.
    """
    kept = kept_contract(text, redactor).data.decode()
    for one in differences(parse_json(text), parse_json(kept)):
        walls = find_placeholders(one.right) if isinstance(one.right, str) else []
        yield Finding(one.pointer, walls[0].kind if walls else SECRET)


def _without_secrets(text: str, redactor: Redactor) -> str:
    if redactor.idle:
        return text
    contract, redacting = Contract.model_validate_json(text), _Redacting(redactor)
    changed = redacting.contract(contract)
    if redacting.scope.known:  # what a later part told is looked for in the earlier ones, too
        changed = redacting.contract(changed)
    return text if changed == contract else changed.model_dump_json()


class _Redacting:
    """Redacts the parts of one contract, which tell of each other."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.scope = Scope()

    def contract(self, contract: Contract) -> Contract:
        return contract.model_copy(
            update={
                "purpose": self.text(contract.purpose),
                "parameters": self.defaults(contract.parameters),
                "argument_schema": self.schema(contract.argument_schema),
                "result_schema": self.schema(contract.result_schema),
                "touches": contract.touches and tuple(map(self.text, contract.touches)),
            }
        )

    def text(self, text: str) -> str:
        return self._redactor.redact_text(text, scope=self.scope)

    def defaults(self, parameters: tuple[Parameter, ...] | None) -> tuple[Parameter, ...] | None:
        optional = {p.name: p.default for p in parameters or () if not p.required}
        found = self._redactor.redact(dict(optional), scope=self.scope).value
        # A rule that failed leaves one text in the place of all of them.
        kept = list(found.values()) if isinstance(found, dict) else [found] * len(optional)
        by_name = dict(zip(optional, kept, strict=True))
        return parameters and tuple(
            p.model_copy(update={"default": by_name[p.name]}) if p.name in by_name else p
            for p in parameters
        )

    def schema(self, schema: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        return None if schema is None else self._described(schema, ())

    def _described(self, schema: Mapping[str, JsonValue], place: Place) -> dict[str, JsonValue]:
        return {word: self._said(word, said, place) for word, said in schema.items()}

    def _said(self, word: str, said: JsonValue, place: Place) -> JsonValue:
        if word in _SHAPE:
            return said
        if word in _NAMING and isinstance(said, dict):
            return {name: self._inside(one, (*place, name)) for name, one in said.items()}
        if word in _DEFINING and isinstance(said, dict):
            return {name: self._inside(one, ()) for name, one in said.items()}
        if word in _OF_THE_SAME:
            return self._inside(said, place)
        if word in _OF_ITEMS:
            return self._inside(said, (*place, 0))
        if word == "additionalProperties":
            return self._inside(said, (*place, ""))
        if word in _VALUES:
            return self._value(said, place)
        if word in _LISTS_OF_VALUES and isinstance(said, list):
            return [self._value(one, place) for one in said]
        return self._value(said, (word,))

    def _inside(self, said: JsonValue, place: Place) -> JsonValue:
        """Redact a schema, or each of several."""
        if isinstance(said, list):
            return [self._inside(one, place) for one in said]
        return self._described(said, place) if isinstance(said, dict) else said

    def _value(self, value: JsonValue, place: Place) -> JsonValue:
        """Redact a value as if it stood at ``place`` of the arguments."""
        for step in reversed(place):
            value = [value] if step == 0 else {str(step): value}
        found = self._redactor.redact(value, scope=self.scope).value
        for _ in place:
            if isinstance(found, (dict, list)):  # not where a rule failed
                (found,) = found.values() if isinstance(found, dict) else found
        return found
