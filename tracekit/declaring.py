"""A contract as it is kept: without the secrets in its defaults, its schemas and what it says.

Code may hold a secret where it declares a tool. The one idea: what stands there is redacted as if a
call had given it, by the same rules under the same names, so that a default is kept as the argument
is that was left out, and a replay finds the two equal. The shape of a schema stays.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from tracekit.canonical import JsonValue, digest_bytes, parse_json
from tracekit.contract import Contract, Parameter
from tracekit.events import Blob
from tracekit.jsontree import differences
from tracekit.redact import Finding, Redactor, Scope, find_placeholders
from tracekit.redact.placeholders import SECRET
from tracekit.redact.references import WHOLE, References, Slot, slot
from tracekit.redact.rules import Place
from tracekit.redact.schemas import (
    DEFINING,
    FOR_READERS,
    NAMING,
    OF_ITEMS,
    OF_OTHERS,
    OF_THE_SAME,
    VALUES,
    WORDS,
    has_known_words,
    is_said,
)

Places = tuple[Place, ...]
"""All those of one schema: a definition describes each field that refers to it."""

_ANY_ITEM, _ANY_NAME = -1, ""
_FURTHEST = 10_000
"""An item of a path that stands behind so many is not looked for where a schema is of any item."""
_STEPS: Mapping[str, Place] = {
    **dict.fromkeys(OF_ITEMS, (_ANY_ITEM,)),
    **dict.fromkeys(OF_OTHERS, (_ANY_NAME,)),
    **dict.fromkeys(OF_THE_SAME, ()),
}
"""Word → from a field to what the schema behind that describes."""
_LISTS_OF_VALUES = frozenset(("enum", "examples"))

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
        return None if schema is None else _Describing(schema, self._redactor, self.scope).kept()


class _Describing:
    """Redacts one schema, and each definition in it under all names that refer to it."""

    def __init__(self, schema: dict[str, JsonValue], redactor: Redactor, scope: Scope) -> None:
        self._schema, self._redactor, self._scope = schema, redactor, scope
        self._referring = self._places_of_definitions()

    def kept(self) -> dict[str, JsonValue]:
        return self._described(self._schema, self._and_referring(((),), WHOLE))

    def _places_of_definitions(self) -> dict[Slot, dict[Place, None]]:
        """Return from where each place in the schema is referred to."""
        found: dict[Slot, dict[Place, None]] = defaultdict(dict)
        references = References(self._schema)
        pending: list[tuple[JsonValue, Place]] = [(self._schema, ())]
        while pending:
            said, place = pending.pop()
            if isinstance(said, list):
                pending += [(one, place) for one in said]
            if not isinstance(said, dict):
                continue
            for spot in references.of(said):
                if place not in found[spot.slot]:
                    found[spot.slot][place] = None
                    pending.append((spot.said, place))
            for word, behind in said.items():
                for one, steps in _schemas_behind(word, behind):
                    pending += [(one, there) for there in self._further((place,), steps)]
        return found

    def _described(self, schema: dict[str, JsonValue], places: Places) -> dict[str, JsonValue]:
        said = {word: self._said(schema, word, places) for word in schema}
        return self._named(said, WORDS)

    def _said(self, schema: dict[str, JsonValue], word: str, places: Places) -> JsonValue:
        said = schema[word]
        places = self._and_referring(places, slot(schema, word))
        if isinstance(said, dict) and word in NAMING | DEFINING:
            inside = {
                name: self._inside(said, name, self._further(places, *_steps_to(word, name)))
                for name in said
            }
            return self._named(inside)
        if word in OF_ITEMS and isinstance(said, list):
            return [self._inside(said, at, self._further(places, (at,))) for at in range(len(said))]
        if word in _STEPS:
            return self._inside(schema, word, self._further(places, _STEPS[word]))
        if word in VALUES:
            return self._values(said, places, several=word in _LISTS_OF_VALUES)
        if is_said(word, said) and (word not in FOR_READERS or has_known_words(schema)):
            return said if word == "type" else self._value(said, ((),))
        under = self._further(places, (word,))
        return self._value(self._loose(schema, word), (*places, *under))

    def _values(self, said: JsonValue, places: Places, *, several: bool) -> JsonValue:
        if several and isinstance(said, list):
            return [
                self._value(one, self._and_referring(places, slot(said, at)))
                for at, one in enumerate(said)
            ]
        if several and isinstance(said, dict):
            said = self._named({name: self._value(one, places) for name, one in said.items()})
        return self._value(said, places)

    def _inside(self, around: Any, key: str | int, places: Places) -> JsonValue:
        """Redact a schema, each of several, or what stands in the place of one."""
        said = around[key]
        places = self._and_referring(places, slot(around, key))
        if isinstance(said, list):
            return [self._inside(said, at, places) for at in range(len(said))]
        return (
            self._described(said, places) if isinstance(said, dict) else self._value(said, places)
        )

    def _loose(self, around: Any, key: str | int) -> JsonValue:
        """Redact no more than the definitions where none should be."""
        said = around[key]
        if places := self._and_referring((), slot(around, key)):
            return self._inside(around, key, places)
        if isinstance(said, list):
            return [self._loose(said, at) for at in range(len(said))]
        return {name: self._loose(said, name) for name in said} if isinstance(said, dict) else said

    def _and_referring(self, places: Places, here: Slot) -> Places:
        more = self._referring.get(here)
        return places if more is None else tuple(dict.fromkeys((*more, *places)))

    def _further(self, places: Places, *ways: Place) -> Places:
        shortest = self._redactor.rules.shortest
        reached = (self._reached(place, steps) for place in places for steps in ways)
        return tuple(dict.fromkeys(shortest(one) for several in reached for one in several))

    def _reached(self, place: Place, steps: Place) -> list[Place]:
        """Return where steps lead to: any item or name could be each that a path names."""
        if steps == (_ANY_NAME,):
            named = self._redactor.rules.steps_behind(place)
            return [(*place, n) for n in (_ANY_NAME, *named) if isinstance(n, str)]
        if not steps or not isinstance(at := steps[0], int):
            return [(*place, *steps)]
        numbers = {n for n in self._redactor.rules.steps_behind(place) if isinstance(n, int)}
        other = next(n for n in count() if n not in numbers)
        if at != _ANY_ITEM:
            return [(*place, at if at in numbers else other)]
        return [(*place, n) for n in (other, *sorted(numbers)) if n <= _FURTHEST]

    def _named(
        self, said: dict[str, JsonValue], known: frozenset[str] = frozenset()
    ) -> dict[str, JsonValue]:
        """Redact the names as the texts that they are."""
        names = {name: None for name in said if name not in known}
        found = self._redactor.redact({**names}, scope=self._scope).value
        if not isinstance(found, dict):  # a rule failed
            return {"$comment": found}
        clean = dict(zip(names, found, strict=True))
        return {clean.get(name, name): one for name, one in said.items()}

    def _value(self, value: JsonValue, places: Places) -> JsonValue:
        """Redact a value as if it stood at each of ``places`` of the arguments."""
        for place in places:
            value = self._value_at(value, place)
        return value

    def _value_at(self, value: JsonValue, place: Place) -> JsonValue:
        for step in reversed(place):
            value = [*[""] * step, value] if isinstance(step, int) else {step: value}
        found = self._redactor.redact(value, scope=self._scope).value
        for _ in place:
            if isinstance(found, (dict, list)):  # not where a rule failed
                *_, found = found.values() if isinstance(found, dict) else found
        return found


def _schemas_behind(word: str, said: JsonValue) -> Iterator[tuple[JsonValue, Place]]:
    """Yield the schemas behind a word, and the steps to what they describe."""
    if isinstance(said, dict) and word in NAMING | DEFINING:
        for name, one in said.items():
            yield from ((one, steps) for steps in _steps_to(word, name))
    elif word in OF_ITEMS and isinstance(said, list):
        for at, one in enumerate(said):
            yield one, (at,)
    elif word in _STEPS:
        yield said, _STEPS[word]


def _steps_to(word: str, name: str) -> tuple[Place, ...]:
    """Return the steps to what a schema of a name describes: a definition is nowhere by itself."""
    if word == "patternProperties":
        return (name,), (_ANY_NAME,)
    if word in NAMING:
        return ((name,),)
    return ((),) if word == "dependentSchemas" else ((word, name),)
