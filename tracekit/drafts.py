"""Facts on their way to the journal, as a line and not as a model.

A fact of a step is made of a few texts and numbers that the recorder itself puts together. Checking
their types and writing the line costs a tenth of making a model and having it written; whoever
reads the journal checks it as a model in any case. What is not that simple becomes a model at once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import orjson
from pydantic import BaseModel

from tracekit.events import Fact, Payload, PolicyNoted

_SIMPLE = (str, int, bool, NoneType, Payload)


class Draft:
    """A fact whose fields are all known to be sound."""

    __slots__ = ("_fields", "_kind", "_said")

    def __init__(self, kind: type[Fact], fields: dict[str, Any], said: dict[str, Any]) -> None:
        self._kind = kind
        self._fields = fields
        self._said = said

    @property
    def kind(self) -> type[Fact]:
        """Its class."""
        return self._kind

    @property
    def fields(self) -> Mapping[str, Any]:
        """What it says."""
        return self._fields

    @property
    def timestamp_ns(self) -> int:
        """When it happened."""
        at: int = self._fields["timestamp_ns"]
        return at

    def fact(self) -> Fact:
        """Make the model."""
        return self._kind(**self._fields)

    def line(self) -> bytes:
        """Write it as JSON, without what is None.

        Raises:
            TypeError: a text holds half a character.
        """
        return orjson.dumps(self._said)


def draft(kind: type[Fact], stamp: dict[str, Any], fields: Mapping[str, Any]) -> Draft | None:
    """Give the draft of a fact; None where only a model can tell whether the fields are sound.

    Args:
        kind: Its class.
        stamp: Who wrote it, when, and where it belongs: the recorder's own, and sound.
        fields: What it says.
    """
    if kind is PolicyNoted:  # its decision is the program's
        return None
    tag, types = _shape(kind)
    said = {"fact": tag, **stamp}
    try:
        for name, value in fields.items():
            known = type(value)
            if known not in types[name]:
                return None
            if known is Payload:
                said[name] = said_of(value)
            elif value is not None:
                said[name] = value
    except KeyError:
        return None
    return Draft(kind, {**stamp, **fields}, said)


def said_of(model: Fact | Payload) -> dict[str, Any]:
    """What a model says that does not go without saying, by field.

    Pydantic asks code of its own for the type of each JSON value that it writes, and keeps what
    comes up there to itself, though it may be what a signal handler of the program's raised.
    """
    said: dict[str, Any] = {}
    defaults = _defaults(type(model))
    for name, value in vars(model).items():
        if value != defaults[name]:
            said[name] = said_of(value) if type(value) is Payload else value
    return said


@functools.cache
def _defaults(kind: type[BaseModel]) -> dict[str, Any]:
    fields = kind.model_fields
    return {name: one.get_default(call_default_factory=True) for name, one in fields.items()}


@functools.cache
def _shape(kind: type[Fact]) -> tuple[str, dict[str, tuple[type, ...]]]:
    """The tag of a kind of fact, and the exact types that each of its simple fields may have."""
    found = {}
    for name, field in kind.model_fields.items():
        parts = _parts(field.annotation)
        if name != "fact" and all(part in _SIMPLE for part in parts):
            found[name] = parts
    return kind.model_fields["fact"].default, found


def _parts(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return (str,)  # put there by code of ours, whose types are checked
    inner = get_args(annotation)
    if not inner:
        return (annotation,)
    if get_origin(annotation) in (dict, tuple, list):
        return (object,)  # never simple
    return tuple(part for each in inner for part in _parts(each))
