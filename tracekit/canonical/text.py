"""JSON text of a value, its canonical form and its digest.

The one idea: a value has exactly one canonical text (RFC 8785), and its identity is the SHA-256 of
that text. Sorted ``orjson`` writes the same bytes about seventy times faster, but only for values
where that is provable, so a typed walk decides which of the two writers may be used.

What RFC 8785 cannot carry is given a form here: integers outside +-(2**53 - 1) become strings, a
not-a-number or infinite float becomes ``{"$float": "nan" | "inf" | "-inf"}`` and a lone surrogate
becomes U+FFFD. The canonical text is for identity only: it sorts keys and writes ``42.0`` as
``42``. What is stored is :func:`json_bytes`, which keeps both.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import orjson
import rfc8785
from pydantic import JsonValue

from tracekit.errors import InvalidJson
from tracekit.interruption import pass_on

SAFE_INT = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
_EXACT = orjson.OPT_PASSTHROUGH_SUBCLASS
_SHORT = frozenset({bool, type(None)})
_LONG_NUMBER = re.compile(r"\d{16}")
_LONG_NUMBER_BYTES = re.compile(rb"\d{16}")
_FAST_DEPTH = 200
LONG_TEXT = 8 << 20
"""Texts of more characters are not given to ``orjson``.

It asks for eight times a text's length of memory, and where that is refused it ends the process.
"""
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Writer(Enum):
    """How a value's canonical bytes may be written."""

    SORTED = auto()
    """Sorted ``orjson`` writes the same bytes."""
    WHOLE_FLOATS = auto()
    """It does, once whole floats (``1.0``) are integers."""
    CAREFUL = auto()
    """Only RFC 8785 itself will do."""


@dataclass(frozen=True, slots=True)
class ParsedJson:
    """A parsed JSON text and what its parsing lost."""

    value: JsonValue
    duplicate_keys: tuple[str, ...]
    """Keys that occurred more than once in one object; the last value won."""


def canonical_bytes(value: JsonValue) -> bytes:
    """Write ``value`` as RFC 8785 text in UTF-8.

    Raises:
        TypeError: ``value`` holds something that is no JSON value, such as a tuple or a set.
    """
    writer = _choose_writer(value)
    if writer is _Writer.CAREFUL:
        return _write_carefully(value)
    try:
        return orjson.dumps(
            value if writer is _Writer.SORTED else _without_whole_floats(value), option=_SORTED
        )
    except TypeError:  # a lone surrogate: the careful writer replaces it
        return _write_carefully(value)


def canonical_text(value: JsonValue) -> str:
    """Write ``value`` as RFC 8785 text."""
    return canonical_bytes(value).decode()


def json_bytes(value: JsonValue) -> bytes:
    """Write ``value`` as compact JSON that keeps key order and the difference of 42 and 42.0.

    This is the form for storage; :func:`parse_json` is its inverse.
    """
    special, long = _look(value, LONG_TEXT)
    if long:
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate
            pass
    elif not special:
        try:
            return orjson.dumps(value, option=_EXACT)
        except TypeError:  # a lone surrogate or an integer beyond 64 bits: json writes both
            pass
    return json.dumps(value, separators=(",", ":")).encode()


def both_bytes(value: JsonValue) -> tuple[bytes, bytes]:
    """Write ``value`` as :func:`json_bytes` and as :func:`canonical_bytes` do, in one go."""
    writer = _choose_writer(value)
    if writer is not _Writer.CAREFUL:  # then there is no special float either
        plain = value if writer is _Writer.SORTED else _without_whole_floats(value)
        try:
            return orjson.dumps(value, option=_EXACT), orjson.dumps(plain, option=_SORTED)
        except TypeError:  # a lone surrogate
            pass
    return json_bytes(value), _write_carefully(value)


def json_text(value: JsonValue) -> str:
    """Write ``value`` as :func:`json_bytes` does, as text."""
    return json_bytes(value).decode()


def digest(value: JsonValue) -> str:
    """Name the identity of ``value``; neither key order nor 42 against 42.0 changes it."""
    return digest_bytes(canonical_bytes(value))


def digest_bytes(data: bytes) -> str:
    """Name the identity of these very bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_raw_text(text: str) -> str:
    """Name the identity of a text that should have been JSON and is not."""
    data = _SURROGATE.sub("\ufffd", text).encode()
    return "sha256-raw:" + hashlib.sha256(data).hexdigest()


def parse_json(text: str | bytes) -> JsonValue:
    """Read JSON text; ``NaN`` and ``Infinity`` are tolerated, of duplicate keys the last one wins.

    Raises:
        InvalidJson: it is no JSON; the error knows line and column.
    """
    # orjson turns integers beyond 64 bits into floats, so long numbers go the exact way.
    pattern = _LONG_NUMBER_BYTES if isinstance(text, bytes) else _LONG_NUMBER
    if pattern.search(text) is None:  # type: ignore[arg-type]  # the pattern was chosen by the type
        try:
            value: JsonValue = orjson.loads(text)
        except orjson.JSONDecodeError:  # the exact reader tolerates more, and explains better
            return parse_json_noting(text).value
        return value
    return parse_json_noting(text).value


def parse_json_noting(text: str | bytes) -> ParsedJson:
    """Read JSON text as :func:`parse_json` does and tell which keys were duplicated.

    Raises:
        InvalidJson: it is no JSON; the error knows line and column.
    """
    duplicates: list[str] = []

    def build(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        made = dict(pairs)
        if len(made) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.extend(key for key, count in counts.items() if count > 1)
        return made

    try:
        value = json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        raise InvalidJson(error.msg, line=error.lineno, column=error.colno) from error
    except UnicodeDecodeError as error:
        raise InvalidJson("it is not UTF-8", line=1, column=error.start + 1) from error
    except RecursionError as error:
        raise InvalidJson("it is nested too deeply", line=1, column=1) from error
    except ValueError as error:  # a number of more digits than Python reads
        raise _too_long(text) from error
    return ParsedJson(value=value, duplicate_keys=tuple(dict.fromkeys(duplicates)))


def _too_long(text: str | bytes) -> InvalidJson:
    said = text if isinstance(text, str) else text.decode("utf-8", "replace")
    number = re.compile(
        rf'"(?:[^"\\]|\\.)*"|(-?[0-9]{{{sys.get_int_max_str_digits() + 1},}})', re.DOTALL
    )
    at = next((found.start() for found in number.finditer(said) if found[1]), 0)
    line, column = said.count("\n", 0, at) + 1, at - said.rfind("\n", 0, at)
    return InvalidJson("a number has too many digits to be read", line=line, column=column)


def _choose_writer(value: JsonValue) -> _Writer:
    """Choose the fastest writer that provably gives the bytes of RFC 8785.

    ``orjson`` and RFC 8785 both write the shortest digits that read back as the same float, and
    both write them without an exponent between 1e-5 and 2**53; there only whole floats differ.
    Code points below U+D800 sort like UTF-16 code units.
    """
    writer = _Writer.SORTED
    stack: list[tuple[Any, int]] = [([value], 0)]
    while stack:
        node, depth = stack.pop()
        if type(node) is dict:
            for key in node:
                if type(key) is not str or not (key.isascii() or max(key) < "\ud800"):
                    return _Writer.CAREFUL
            node = node.values()
        if depth > _FAST_DEPTH:
            return _Writer.CAREFUL
        for child in node:
            kind = type(child)
            if (
                (kind is str and len(child) <= LONG_TEXT)
                or (kind is int and -SAFE_INT <= child <= SAFE_INT)
                or kind in _SHORT
            ):
                continue
            if kind is dict or kind is list:
                stack.append((child, depth + 1))
            elif not _is_plain_number(child):
                return _Writer.CAREFUL
            elif kind is float and child.is_integer():
                writer = _Writer.WHOLE_FLOATS
    return writer


def _is_plain_number(node: object) -> bool:
    """Tell whether ``node`` is a number that all writers write in plain decimal."""
    if type(node) is int:
        return -SAFE_INT <= node <= SAFE_INT
    if type(node) is float:
        return 1e-5 <= abs(node) <= SAFE_INT or node == 0
    return False


def _without_whole_floats(value: JsonValue) -> JsonValue:
    """Copy ``value`` with whole floats as the integers that RFC 8785 writes for them."""
    root = [value]
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        for key, child in list(node.items() if type(node) is dict else enumerate(node)):
            kind = type(child)
            if kind is float and child.is_integer():
                node[key] = int(child)
            elif kind is dict or kind is list:
                node[key] = child.copy()
                stack.append(node[key])
    return root[0]


def holds_special_floats(value: JsonValue) -> bool:
    """Tell whether there is a NaN or an infinity, which ``orjson`` would turn into null."""
    return _look(value, LONG_TEXT)[0]


def holds_long_text(value: object, limit: int = LONG_TEXT) -> bool:
    """Tell whether there is a text of over ``limit`` characters, keys aside; see ``LONG_TEXT``."""
    return _look(value, limit)[1]


def _look(value: object, limit: int) -> tuple[bool, bool]:
    """Tell whether there are special floats, and whether there are texts beyond ``limit``."""
    special = long = False
    stack: list[Any] = [[value]]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            node = node.values()
        for child in node:
            kind = type(child)
            if kind is str:
                if len(child) > limit:
                    long = True
            elif kind is dict or kind is list:
                stack.append(child)
            elif kind is float and child - child != 0:
                special = True
    return special, long


def _write_carefully(value: JsonValue) -> bytes:
    """Write any JSON value as RFC 8785, without recursion.

    Plain text on the stack is already written; a value waits there in a tuple of one.
    """
    parts: list[str] = []
    stack: list[str | tuple[Any]] = [(value,)]
    while stack:
        waiting = stack.pop()
        if isinstance(waiting, str):
            parts.append(waiting)
            continue
        node = waiting[0]
        if type(node) is dict:
            _push_object(node, stack)
        elif type(node) is list:
            stack.append("]")
            for place in range(len(node) - 1, -1, -1):
                stack.append((node[place],))
                stack.append("," if place else "")
            stack.append("[")
        else:
            parts.append(_write_atom(node))
    return "".join(parts).encode()


def _push_object(node: dict[str, JsonValue], stack: list[str | tuple[Any]]) -> None:
    children: dict[str, JsonValue] = {}
    for key, child in node.items():
        if type(key) is not str:
            raise TypeError(f"a JSON key is a string, not {type(key).__name__}")
        children[_SURROGATE.sub("\ufffd", key)] = child
    ordered = sorted(children, key=lambda key: key.encode("utf-16-be"))
    stack.append("}")
    for place in range(len(ordered) - 1, -1, -1):
        key = ordered[place]
        stack.append((children[key],))
        stack.append(("," if place else "") + rfc8785.dumps(key).decode() + ":")
    stack.append("{")


def _write_atom(node: object) -> str:
    if type(node) is str:
        return json.dumps(_SURROGATE.sub("\ufffd", node), ensure_ascii=False)
    if type(node) is int and abs(node) > SAFE_INT:
        return f'"{spell_integer(node)}"'
    if type(node) is float and node - node != 0:
        return f'{{"$float":"{name_special_float(node)}"}}'
    if node is None or type(node) in (bool, int, float):
        return rfc8785.dumps(node).decode()  # type: ignore[arg-type]  # narrowed by the line above
    raise TypeError(f"{type(node).__name__} is no JSON value")


def name_special_float(number: float) -> str:
    """Name a float that JSON has no number for."""
    if number != number:
        return "nan"
    return "inf" if number > 0 else "-inf"


def spell_integer(number: int) -> str:
    """Write an integer of any size, in hexadecimal past the interpreter's limit on digits."""
    try:
        return str(number)
    except ValueError:  # more than 4,300 digits: the limit guards parsers of untrusted text
        return hex(number)


def sound_text(text: str) -> str:
    """Text that can be written: of a lone surrogate (half a character) U+FFFD is left."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def text_of(value: object) -> str:
    """Give the text of an error, or of what is said in the place of a text; it never raises."""
    try:
        return sound_text(str(value))
    except BaseException as broken:  # noqa: BLE001  # a hostile __str__ is the agent's
        pass_on(broken)
        return f"<{type(value).__name__} that cannot be printed>"
