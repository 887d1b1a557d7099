"""Values of nothing but plain JSON, which most are: their bytes without a walk in Python.

The one idea: the garbage collector's own view of a container gives all that stands in it, so that
one call a *level* of nesting sees every type, and ``orjson`` may then be trusted with the rest. By
itself ``orjson`` would be no test: it takes tuples for lists, enums for their values, NaN for null.
"""

from __future__ import annotations

import re
from gc import get_referents
from types import NoneType
from typing import Any, NamedTuple

import orjson

from tracekit.canonical.encoding import MAX_DEPTH, MAX_ELEMENTS
from tracekit.canonical.text import canonical_bytes, holds_special_floats
from tracekit.interruption import pass_on

_ATOMS = frozenset((str, int, float, bool, NoneType))
_PLAIN = _ATOMS | {dict, list}
_EXACT = orjson.OPT_STRICT_INTEGER | orjson.OPT_PASSTHROUGH_SUBCLASS
_SORTED = _EXACT | orjson.OPT_SORT_KEYS
_WHOLE_FLOAT = re.compile(rb"\.0(?![0-9])")
_FEW = 4
_DIGITS = bytes(48 if 48 <= code <= 57 else code for code in range(256))
"""Makes every digit ``0``."""


class Contents(NamedTuple):
    """What stands in a plain value."""

    kinds: set[type]
    keys: set[str]
    """Every key of every object in it."""
    texts: list[str]
    """Every text in it, keys included."""


class Plain(NamedTuple):
    """What a plain value is written as, and what stands in it."""

    data: bytes
    """As ``json_bytes`` writes it."""
    canonical: bytes
    """As ``canonical_bytes`` writes it."""
    contents: Contents
    shape: bytes
    """``data`` with every digit as ``0``; empty where there is no number in it."""


def read_plain(obj: object, *, collect: bool = True) -> Plain | None:
    """Write a value of nothing but plain JSON; None for any other, and for one that is too large.

    It runs no code of the value's and keeps no reference to it but to its texts.

    Args:
        obj: The value.
        collect: Whether its keys and texts are wanted.
    """
    try:
        found = look_through(obj, collect=collect)
        if found is None:
            return None
        data = orjson.dumps(obj, option=_EXACT)  # refuses long integers and lone surrogates
        kinds, shape = found.kinds, b""
        if float in kinds:
            if b"null" in data and holds_special_floats([obj]):  # type: ignore[list-item]  # plain
                return None
            shape = data.translate(_DIGITS)
            # A float that RFC 8785 writes otherwise has an exponent, or ends in ``.0``.
            if b"0e" in shape or (b".0" in data and _WHOLE_FLOAT.search(data)):
                return Plain(data, canonical_bytes(obj), found, shape)  # type: ignore[arg-type]  # plain
        elif int in kinds:
            shape = data.translate(_DIGITS)
        if dict not in kinds:
            return Plain(data, data, found, shape)
        if not data.isascii():
            keys = found.keys if collect else (look_through(obj) or found).keys
            # Code points below U+D800 sort like UTF-16 code units.
            if any(max(key, default="") >= "\ud800" for key in keys):
                return Plain(data, canonical_bytes(obj), found, shape)  # type: ignore[arg-type]  # plain
        canonical = orjson.dumps(obj, option=_SORTED)
        if len(canonical) != len(data):  # another thread changed it between the two
            return None
        return Plain(data, canonical, found, shape)
    except Exception as error:  # noqa: BLE001  # the careful walk says what becomes of it
        pass_on(error)
        return None


def look_through(obj: object, *, collect: bool = True) -> Contents | None:
    """Collect the types, keys and texts, level by level; None where a type is not plain."""
    level: list[Any] = [obj]
    kinds: set[type] = set()
    keys: set[str] = set()
    texts: list[str] = []
    count, depth = 1, 0
    while True:
        here = set(map(type, level))
        kinds |= here
        if collect and str in here:
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
        if collect and dict in here:
            objects = inner
            if list in here:
                objects = [child for child in inner if type(child) is dict]
            keys.update(*objects)
        level = get_referents(*inner)
        count += len(level)
        depth += 1
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:  # also where it contains itself
            return None
