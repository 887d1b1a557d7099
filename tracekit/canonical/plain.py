"""Values of nothing but plain JSON, which most are: their bytes without a walk in Python.

The one idea: ``orjson`` takes tuples for lists and enums for their values, and ``ormsgpack`` takes
bytes, but each can be told to refuse what the other does not; so what both write is plain, numbers
that are none aside. Neither runs code of the value's.

Another thread, or a signal handler, may change the value at any time. So all that is said of it is
said of one state: the writers run one after the other inside one step of the interpreter, between
whose parts nothing else can run, and what is asked later is asked of what they wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from gc import get_referents, is_tracked
from itertools import takewhile
from operator import call
from types import NoneType
from typing import Any, NamedTuple

import orjson
import ormsgpack
from orjson import dumps
from ormsgpack import packb
from pydantic_core import SchemaValidator, core_schema

from tracekit.canonical.encoding import MAX_DEPTH, MAX_ELEMENTS
from tracekit.canonical.text import (
    LONG_TEXT,
    canonical_bytes,
    holds_long_text,
    holds_special_floats,
)
from tracekit.interruption import pass_on

_ATOMS = frozenset((str, int, float, bool, NoneType))
_HOLDERS = frozenset((dict, list))
_PLAIN = _ATOMS | _HOLDERS
_EXACT = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_SORTED = _EXACT | orjson.OPT_SORT_KEYS
_REFUSE = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Hand on to a default, of which there is none, so that they are refused."""
_NO_DEFAULT, _OPTIONS = (None, None, None), (_REFUSE, _EXACT, _SORTED)
_is_short = SchemaValidator(core_schema.bytes_schema(max_length=LONG_TEXT)).isinstance_python
_FLOAT, _BRACE = 0xCB, ord("{")
_writes_otherwise = SchemaValidator(
    core_schema.str_schema(pattern=r"[0-9]e|\.0(?:[^0-9]|$)", regex_engine="rust-regex")
).isinstance_python
"""Whether there may be a float that RFC 8785 writes otherwise: with an exponent, or ``.0``.

Unlike ``re`` this engine looks for many literals at once.
"""
_BEYOND_BMP = range(0xF0, 0xF5)
"""How UTF-8 begins characters that UTF-16, and RFC 8785 with it, sorts otherwise."""
_FEW, _SEVERAL, _SHALLOW = 4, 32, 16


class Contents(NamedTuple):
    """What stands in a plain value."""

    kinds: set[type]
    keys: set[str]
    """Every key of every object in it."""
    texts: list[str]
    """Every text in it that is no key; of a ``dict`` that has had other keys, its keys too."""


@dataclass(slots=True)
class Plain:
    """What a plain value is written as."""

    data: bytes
    """As ``json_bytes`` writes it."""
    canonical: bytes
    """As ``canonical_bytes`` writes it."""

    def contents(self) -> Contents | None:
        """Collect what stands in the value; None where that is too much."""
        return look_through(orjson.loads(self.data))


def read_plain(obj: object) -> Plain | None:
    """Write a value of nothing but plain JSON; None for any other, and for one that is too large.

    It runs no code of the value's.
    """
    written = write_plain(obj)
    return None if written is None else Plain(*written)


def write_plain(obj: object) -> tuple[bytes, bytes] | None:
    """Give what ``read_plain`` does as a pair: as it is, and canonical."""
    try:
        if (type(obj) is dict or type(obj) is list) and not _fits(obj):
            return None
        # One step of the interpreter asks all three in turn, in C: nobody's code runs in between.
        writing = map(call, (packb, dumps, dumps), (obj, obj, obj), _NO_DEFAULT, _OPTIONS)
        written = [*takewhile(_is_short, writing)]
        if len(written) < 3:
            if not _fits_exactly(obj) or holds_long_text(obj):
                return None
            written = [*map(call, (packb, dumps, dumps), (obj, obj, obj), _NO_DEFAULT, _OPTIONS)]
        packed, data, canonical = written  # the JSON refuses long integers and half characters
        if len(data) > MAX_ELEMENTS and not _fits_exactly(obj):
            return None
        if _FLOAT in packed and (
            _writes_otherwise(data.decode())
            or ((0x7F in packed or 0xFF in packed) and b"null" in data)  # a NaN, maybe
        ):
            return _with_canonical(packed, data)
        if _BRACE not in data:
            return data, data
        if not data.isascii() and any(lead in data for lead in _BEYOND_BMP) and _mixes(data):
            return _with_canonical(packed, data)
        return data, canonical
    except Exception as error:  # noqa: BLE001  # the careful walk says what becomes of it
        if not _was_refused(error):
            pass_on(error)
        return None


def _was_refused(error: BaseException) -> bool:
    """Whether the writing itself refused: no handler's doing.

    Asked in a function of its own, since a traceback in a variable keeps what it is about alive.
    """
    at = error.__traceback__
    return at is not None and at.tb_next is None


def _with_canonical(packed: bytes, data: bytes) -> tuple[bytes, bytes] | None:
    """Write the canonical form where numbers or keys need a closer look."""
    value = ormsgpack.unpackb(packed)
    return None if holds_special_floats([value]) else (data, canonical_bytes(value))


def _mixes(data: bytes) -> bool:
    """Whether there are keys whose code points may sort otherwise than their UTF-16 units."""
    found = look_through(orjson.loads(data))
    return found is None or any(max(key, default="") >= "\ud800" for key in found.keys)


def _fits(obj: object) -> bool:
    """Whether an object or array may be written: at once where it is small, else by a closer look.

    What the collector of garbage does not track holds nothing that could hold more. So no level of
    a small one has more than a few parts, and its writing cannot grow by what they share.
    """
    level: list[Any] = [obj]
    for _ in range(_SHALLOW):
        inner = get_referents(*level)
        if len(inner) > _SEVERAL:
            break
        level = [*filter(is_tracked, inner)]
        if not level:
            return True
        if len(level) > _FEW and not (
            _HOLDERS.issuperset(map(type, level)) and sum(map(len, level)) <= _SEVERAL
        ):
            break
    return _fits_exactly(obj)


def _fits_exactly(obj: object) -> bool:
    """Whether a value is small enough to be written, and nested no deeper than may be.

    What is in it many times over counts each time. Of types it sees no more than it must.
    """
    level: list[Any] = [obj] if type(obj) is dict or type(obj) is list else []
    count = 1
    for depth in range(1, MAX_DEPTH + 1):
        if len(level) == 1:
            one = level[0]
            count += len(one)
            if not is_tracked(one):  # it holds nothing that could hold more
                break
            inner = one.values() if type(one) is dict else one
        else:
            inner = get_referents(*level)
            count += len(inner)
        if len(inner) > _FEW:
            kinds = set(map(type, inner))
            if kinds <= _ATOMS:
                break
            level = (
                [*inner]
                if kinds <= _HOLDERS
                else [child for child in inner if type(child) is dict or type(child) is list]
            )
            if len(level) > _FEW:
                held = sum(map(len, level))
                if count + held > MAX_ELEMENTS:
                    return False
                if depth < MAX_DEPTH:
                    level = [*filter(is_tracked, level)]
                    count += held - sum(map(len, level))
        else:
            level = [child for child in inner if type(child) is dict or type(child) is list]
        if not level:
            break
    else:
        return False
    return count <= MAX_ELEMENTS


def look_through(obj: object) -> Contents | None:
    """Collect the types, keys and texts, level by level; None where a type is not plain."""
    level: list[Any] = [obj]
    kinds: set[type] = set()
    keys: set[str] = set()
    texts: list[str] = []
    count, depth = 1, 0
    while True:
        here = set(map(type, level))
        kinds |= here
        if str in here:
            texts += level if len(here) == 1 else [child for child in level if type(child) is str]
        if here <= _ATOMS:
            return Contents(kinds, keys, texts)
        if not here <= _PLAIN:
            return None
        inner = level
        if len(here) > 1:
            inner = [child for child in level if type(child) is dict or type(child) is list]
        # One that is there many times over counts each time, before it is looked into.
        if len(inner) > _FEW and count + sum(map(len, inner)) > MAX_ELEMENTS:
            return None
        if dict in here:
            objects = inner
            if list in here:
                objects = [child for child in inner if type(child) is dict]
            keys.update(*objects)
        level = get_referents(*inner)
        count += len(level)
        depth += 1
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:  # also where it contains itself
            return None
