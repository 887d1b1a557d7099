"""What a reader sends or throws into a generator tool, as it is kept beside what came out of it.

The one idea: it is asked of the tool as its arguments are, so it is kept and compared as they are:
encoded, without its secrets, with its types. A large value is kept as a digest of what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tracekit.canonical import (
    Encoded,
    JsonValue,
    as_compared,
    canonical_text,
    class_differences,
    described_places,
    digest,
    encode,
    json_bytes,
    numbers_as_compared,
)
from tracekit.jsontree import differences
from tracekit.redact import find_placeholders
from tracekit.trajectory import Observation

Entry = Mapping[str, Any]
"""``behind``: how many items came before; ``value``, with its ``types``, and whether parts of it
are only ``described``, or no more than its digest is left: ``cut``; of an error that was thrown its
class: ``thrown``.
"""
_MOST_BYTES = 10_000
_LONGEST = 120
"""Longer values are named by their digest in a text."""
_LARGE: JsonValue = {"$unreplayable": {"type": "large"}}


def encode_sent(value: object) -> Encoded:
    """Encode what is sent in as it is now; of an error without what is made anew each time."""
    kept = encode(value)
    if not isinstance(value, BaseException):
        return kept
    form = Observation(kept.value, is_error=True).digest_form
    return replace(kept, value=form["value"] if isinstance(form, dict) else form)


def entry_of(position: int, kept: Encoded, thrown: str | None, *, most: int | None) -> Entry:
    """Say what was sent in behind item ``position``.

    Args:
        position: How many items came before.
        kept: The value without its secrets.
        thrown: Of an error that was thrown in, its class.
        most: How many bytes of a value are kept at most, where that is limited.
    """
    entry: dict[str, Any] = {"behind": position}
    if thrown is not None:
        entry["thrown"] = thrown
    entry["value"] = kept.value
    if kept.types:
        entry["types"] = dict(kept.types)
    if not kept.replayable:
        entry["described"] = True
    most = _MOST_BYTES if most is None else min(most, _MOST_BYTES)
    return entry if len(json_bytes(_compared(entry))) <= most else _cut(entry)


def are_equal(one: Entry, two: Entry) -> bool | None:
    """Tell whether two entries say the same; None where that is not known.

    Not known is what is only described, and whether two secrets are one where their tags differ:
    they may have been made with two keys, or of a text and its pieces.
    """
    if one.get("thrown") != two.get("thrown"):
        return False
    if "cut" in one or "cut" in two:  # under other limits, perhaps
        one, two = _cut(one), _cut(two)
    unknown = {*_described(one), *_described(two)}
    types = one.get("types", {}), two.get("types", {})
    found = [
        field for field in differences(_compared(one), _compared(two))
        if not any(f"{field.pointer}/".startswith(f"{place}/") for place in unknown)
    ]  # fmt: skip
    if class_differences(*types):
        return False
    if any(not (_is_secret(field.left) or _is_secret(field.right)) for field in found):
        return False
    return None if found or unknown else True


def told(entry: Entry | None) -> str:
    """Say what was sent in, for a text that people read."""
    if entry is None:
        return "nothing"
    text = canonical_text(entry["value"])
    if "thrown" in entry:
        return f"{entry['thrown']} {digest(entry['value'])}"
    return text if len(text) <= _LONGEST else digest(entry["value"])


def as_argument(entries: list[Entry]) -> tuple[list[JsonValue], dict[str, JsonValue], bool]:
    """Give what was sent in as one argument, its types, and whether some is only described."""
    types: dict[str, JsonValue] = {}
    for place, entry in enumerate(entries):
        types |= {f"/{place}/value{at}": tag for at, tag in entry.get("types", {}).items()}
    shown = [without_types(entry) for entry in entries]
    return shown, types, any("described" in entry for entry in entries)


def without_types(entry: Entry) -> JsonValue:
    """Give the view of an entry."""
    return {name: entry[name] for name in ("behind", "thrown", "value") if name in entry}


def _cut(entry: Entry) -> Entry:
    """Give an entry as it is where its value is too large."""
    if "cut" in entry:
        return entry
    value = _LARGE if "described" in entry else {"digest": digest(_compared(entry))}
    return {**{name: entry[name] for name in entry if name != "types"}, "value": value, "cut": True}


def _compared(entry: Entry) -> JsonValue:
    return numbers_as_compared(as_compared(entry["value"], entry.get("types", {})))


def _described(entry: Entry) -> Iterator[str]:
    if "described" in entry:
        yield from described_places(entry["value"], "truncated")


def _is_secret(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(find_placeholders(value))
