"""Texts of errors as two of them are compared: without what is other in each run.

The one idea: the address in a default ``repr`` is an id of that process. Libraries write it into
their errors (``<HTTPSConnection object at 0x7f12…>: Failed to establish a new connection``), so one
and the same failure would never have the same text twice, nor a prompt that quotes it.
"""

from __future__ import annotations

import re

from tracekit import jsontree
from tracekit.canonical import JsonValue

_REPR = re.compile(r"<[A-Za-z_](?:[^<>\n]|<[^<>\n]{0,300}+>){0,300}+>")
"""An object that is named in angle brackets; ``<lambda>`` or another object may stand within."""
_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-fA-F]+")
_MADE = re.compile(
    r"0[xX][0-9a-fA-F]+|\b[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\b"
    r"|\d{4}-\d\d-\d\d[T ][\d:]+|\d+\.\d+|\d{7,}"
)


def without_addresses(text: str) -> str:
    """Leave the addresses of objects out; another number that is written so is none."""
    if " at 0x" not in text:
        return text
    return _REPR.sub(lambda found: _ADDRESS.sub("…", found[0]), text)


def value_without_addresses(value: JsonValue) -> JsonValue:
    """Leave the addresses of objects out of all texts of ``value``."""
    for place, leaf in jsontree.walk(value):
        if isinstance(leaf, str) and (text := without_addresses(leaf)) != leaf:
            value = jsontree.replace(value, place, text)
    return value


def without_what_is_made(text: str) -> str:
    """Leave out all that may be made anew in each run: any address, ids, times and durations."""
    return _MADE.sub("#", text)
