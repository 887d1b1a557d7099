"""Looks for what must not stand in a case: what redaction would have removed, as it is set today.

The user's own rules are about values that tools and users exchange: of a case they are asked about
those values, its name and its comments, and not about the fields that every case has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from replay.case import Case, Expected
from replay.case.today import as_of_today
from tracekit.canonical import JsonValue
from tracekit.jsontree import pointer
from tracekit.redact import Finding, Redactor, Rules, UnkeyedTagger, scan
from tracekit.redact.names import parse_path
from tracekit.settings import redaction_rules

Path = tuple[str | int, ...]
_VALUES = frozenset(
    (
        *("input", "turns", "content", "identity", "arguments", "returns", "value", "equals"),
        *("message", "contains", "excludes", "matches", "evidence", "pattern"),
    )
)
"""Fields of a case that hold what was said or exchanged."""
_OURS = ("digest", "redaction_key")
_OUR_DIGEST = re.compile("[0-9a-f]{12}")


def secrets_in(case: Case, *, rules: Rules | None = None) -> list[Finding]:
    """Return the secrets in a case, each place once.

    Args:
        case: The case.
        rules: What is a secret; the user's rules by default.

    Raises:
        UsageError: the user's rules are not understood.
    """
    data = case.as_data()
    found = list(scan({**data, "source": _without_shapes(data.get("source"))}))
    rules = rules or redaction_rules()
    redactor = Redactor(rules, UnkeyedTagger())
    found += _compared(case.expected, redactor)
    if rules != Rules():
        if case.source is not None and case.source.run is not None:
            redactor = Redactor(_wherever(rules), UnkeyedTagger())
        for place, value in exchanged(case):
            inside = redactor.scan(value)
            found += [Finding(f"{pointer(place)}{one.pointer}", one.kind) for one in inside]
    return list({one.pointer: one for one in reversed(found)}.values())[::-1]


def _wherever(rules: Rules) -> Rules:
    """Leave out the paths that count: in lists that were reduced another item is the first.

    What such a path names was taken from the run before it was reduced.
    """
    fields = [one for one in rules.fields if one.startswith("$")]
    counting = {one for one in fields if any(isinstance(step, int) for step in parse_path(one))}
    return replace(rules, fields=tuple(one for one in rules.fields if one not in counting))


def exchanged(case: Case) -> Iterator[tuple[Path, JsonValue]]:
    """Yield what of a case the user's own rules are about, and where it stands."""
    yield ("name",), case.name
    yield from _values(case.as_data(), ())


def secrets_in_name(name: str, *, rules: Rules | None = None) -> list[Finding]:
    """Return the secrets in what a case or its file is called."""
    return scan(name, rules=rules or redaction_rules())


def secrets_in_comments(text: str, *, rules: Rules | None = None) -> list[Finding]:
    """Return the secrets in the comments of a case file."""
    return scan(comments_of(text), rules=rules or redaction_rules())


def comments_of(text: str) -> str:
    """Return the comments of a case file, a line each."""
    return "\n".join(line.partition("#")[2] for line in text.splitlines() if "#" in line)


def _compared(expected: Expected, redactor: Redactor) -> Iterator[Finding]:
    """Find secrets by the names that lead to them in what a planner says."""
    parts = [
        (f"/expected/arguments/{n}", Expected(arguments=(rule,)))
        for n, rule in enumerate(expected.arguments)
    ]
    parts.append(("/expected/answer", Expected(answer=expected.answer)))
    for place, part in parts:
        inside: list[Finding] = []

        def asked(value: JsonValue, inside: list[Finding] = inside) -> JsonValue:
            inside.extend(redactor.scan(value))
            return value

        as_of_today(part, asked)
        yield from (Finding(place, one.kind) for one in inside)


def _without_shapes(source: JsonValue) -> JsonValue:
    """Leave out our digests: a tool may be called ``get_token``, its shape is no secret."""
    if not isinstance(source, dict):
        return source
    source = {name: said for name, said in source.items() if name not in _OURS}
    if not isinstance(tools := source.get("tools"), dict):
        return source
    kept = {
        name: shape
        for name, shape in tools.items()
        if not (isinstance(shape, str) and _OUR_DIGEST.fullmatch(shape))
    }
    return {**source, "tools": kept}


def _values(
    value: Mapping[str, JsonValue] | Sequence[JsonValue], place: Path
) -> Iterator[tuple[Path, JsonValue]]:
    members: Iterable[tuple[str | int, JsonValue]]
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, item in members:
        here = (*place, name)
        if name in _VALUES:
            yield here, item
        elif isinstance(item, (dict, list)):
            yield from _values(item, here)
