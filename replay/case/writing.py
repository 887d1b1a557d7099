"""Writes case files as a person would have: short things on one line, text as text, nothing empty.

What is written is read back before anybody gets it; a form that would not survive is not used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from replay.case.model import Case
from replay.case.reading import RESOLVERS, parse_case
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import CaseError
from tracekit.visible import shown_line

NO_MODEL = "# needs no model"
LIVE_MODEL = "# NEEDS A LIVE MODEL: OPENAI_BASE_URL, OPENAI_API_KEY"
_TAG = "tag:yaml.org,2002:"
_WIDTH = 100
_STRANGE_BREAKS = ("\x85", "\u2028", "\u2029")
"""What YAML takes for the end of a line and no text editor does."""
_NO_YAML = re.compile("[\ufffe\uffff]")
"""What no YAML may hold, in a comment either, beside what no terminal is shown."""


class _Dumper(yaml.SafeDumper):
    """Quotes what any reader of YAML, old or new, might take for something else than text."""


for _tag, _pattern, _first in RESOLVERS:
    _Dumper.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern.pattern})$"), list(_first))


def first_line(case: Case) -> str:
    """Say what a case needs to be run."""
    return LIVE_MODEL if case.needs_live_model else NO_MODEL


def dump_case(case: Case, *, notes: Sequence[str] = ()) -> str:
    """Return the text of a case file.

    Args:
        case: The case.
        notes: Lines to say at the top what the fields do not.

    Raises:
        CaseError: it cannot be written so that it is read as the same.
    """
    head = "".join(
        f"{line}\n" for line in (first_line(case), *(f"# {_one_line(note)}" for note in notes))
    )
    for literal in (True, False):
        body = yaml.serialize(
            _node(case.as_data(), depth=0, literal=literal),
            Dumper=_Dumper,
            allow_unicode=True,
            width=_WIDTH,
        )
        if _same(case, head + body):
            return head + body
    raise CaseError("cannot be written: it would be read as something else", path=case.name)


def _same(case: Case, text: str) -> bool:
    try:
        return parse_case(text).as_data() == case.as_data()
    except CaseError:
        return False


def _one_line(text: str) -> str:
    return _NO_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", shown_line(" ".join(text.split())))


def _node(value: JsonValue, *, depth: int, literal: bool) -> yaml.Node:
    if isinstance(value, dict):
        members: list[Any] = [
            (_text(name, literal=False), _node(item, depth=depth + 1, literal=literal))
            for name, item in value.items()
        ]
        return yaml.MappingNode(_TAG + "map", members, flow_style=_fits(value, depth))
    if isinstance(value, list):
        items = [_node(item, depth=depth + 1, literal=literal) for item in value]
        return yaml.SequenceNode(_TAG + "seq", items, flow_style=_fits(value, depth))
    match value:
        case None:
            return yaml.ScalarNode(_TAG + "null", "null")
        case bool():
            return yaml.ScalarNode(_TAG + "bool", "true" if value else "false")
        case int():
            return yaml.ScalarNode(_TAG + "int", str(value))
        case float():
            return yaml.ScalarNode(_TAG + "float", _number(value))
        case str():
            return _text(value, literal=literal)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _number(value: float) -> str:
    """Write a number so that readers of YAML 1.1, which want a point, take it for one."""
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _text(value: str, *, literal: bool) -> yaml.Node:
    if any(mark in value for mark in _STRANGE_BREAKS):
        return yaml.ScalarNode(_TAG + "str", value, style='"')
    return yaml.ScalarNode(_TAG + "str", value, style="|" if literal and "\n" in value else None)


def _fits(value: JsonValue, depth: int) -> bool:
    """Whether a collection goes on one line: short, and flat where it is a field of a case."""
    if not value:
        return True
    items = list(value.values()) if isinstance(value, dict) else value
    assert isinstance(items, list)
    nested = any(isinstance(item, (dict, list)) and item for item in items)
    text = json_text(value)
    if depth == 0 or (depth == 1 and nested) or "\\n" in text:
        return False
    return len(text) + 2 * depth <= _WIDTH - 16
