"""What redaction took of one run of a planner, kept in memory until that run is judged.

A pattern says nothing of a value that is a placeholder now. What the planner said is therefore put
together again, and the check asked about both: where it says two things, neither counts. A number
that was written in several ways is put together in each of them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from math import isfinite
from typing import Self, TypeGuard

from tracekit.canonical import JsonValue
from tracekit.jsontree import walk
from tracekit.redact import (
    KEY_VARIABLE,
    KeyedTagger,
    find_placeholders,
    key_path,
    load_key,
    placeholder_kind,
)
from tracekit.redact.placeholders import is_number_placeholder, make_placeholder, unspelt

_GAPS = re.compile(r"[\s-]")


class RememberingTagger:
    """Give tags, and remember what they are given for.

    Args:
        keyed: Where tags come from; without it secrets are numbered, each kind by itself, so that
            two are told apart though there is no key.
    """

    def __init__(self, keyed: KeyedTagger | None) -> None:
        self._keyed = keyed
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: Counter[str] = Counter()
        self._taken: dict[str, list[str]] = {}
        self._kinds: set[str | None] = set()

    @classmethod
    def of_user(cls) -> Self:
        """Take the user's redaction key where there is one: running a case makes none."""
        there = os.environ.get(KEY_VARIABLE) or key_path().exists()
        return cls(KeyedTagger(load_key()) if there else None)

    @property
    def key_id(self) -> str | None:
        """Name the key: where it made the placeholders of a run, a secret has the same there."""
        return None if self._keyed is None else self._keyed.key_id

    def tag(self, kind: str, secret: str) -> str:
        """Return the tag of ``secret``."""
        tag = self._number(kind, secret) if self._keyed is None else self._keyed.tag(kind, secret)
        placeholder = make_placeholder(kind, tag, secret)
        self._kinds.add(placeholder_kind(placeholder))
        taken = self._taken.setdefault(_bare(placeholder), [])
        if secret not in taken:
            taken.append(secret)
        return tag

    def _number(self, kind: str, secret: str) -> str:
        secret = unspelt(kind, secret)
        if (kind, secret) not in self._numbers:
            self._numbers[kind, secret] = self._counts[kind]
            self._counts[kind] += 1
        half = f"{self._numbers[kind, secret]:08x}"  # some placeholders hold a half of it
        return half + half

    def forget(self) -> None:
        """Forget what was taken so far."""
        self._taken.clear()
        self._kinds.clear()

    def has_made(self, placeholder: str) -> bool:
        """Whether a placeholder stands for something that was taken: it is of this key."""
        return _bare(placeholder) in self._taken

    def has_taken_like(self, placeholder: str) -> bool:
        """Whether something was taken that another key may have made this placeholder of."""
        return placeholder_kind(placeholder) in self._kinds

    @property
    def spellings(self) -> int:
        """In how many ways what was taken was written, at most; 1 where nothing was."""
        return max(map(len, self._taken.values()), default=1)

    def as_said(self, value: JsonValue, spelling: int = 0) -> JsonValue:
        """Return a value with what was taken in its place, in one of the ways it was written."""
        if isinstance(value, dict):
            return {
                self._text(name, spelling): self.as_said(item, spelling)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.as_said(item, spelling) for item in value]
        if isinstance(value, str):
            return self._text(value, spelling)
        if isinstance(value, int) and not isinstance(value, bool) and str(value) in self._taken:
            taken = unspelt(placeholder_kind(str(value)) or "", self._taken[str(value)][0])
            return int(taken) if taken.lstrip("-").isdecimal() else float(taken)
        return value

    def _text(self, text: str, spelling: int) -> str:
        for wall in reversed(find_placeholders(text)):
            taken = self._taken.get(_bare(text[wall.start : wall.end]))
            if taken is not None:
                said = self._text(taken[min(spelling, len(taken) - 1)], spelling)
                text = f"{text[: wall.start]}{said}{text[wall.end :]}"
        return text


def placeholders_in(value: JsonValue) -> set[str]:
    """List the placeholders that stand anywhere in a value."""
    found: set[str] = set()
    for place, leaf in walk(value):
        if _is_number(leaf) and is_number_placeholder(leaf):
            found.add(str(leaf))
        for text in (place, _text_of(leaf)):
            found.update(text[wall.start : wall.end] for wall in find_placeholders(text))
    return found


def _text_of(leaf: JsonValue) -> str:
    return leaf if isinstance(leaf, str) else str(leaf) if _is_number(leaf) else ""


def _is_number(leaf: JsonValue) -> TypeGuard[int | float]:
    return isinstance(leaf, int | float) and not isinstance(leaf, bool) and isfinite(leaf)


def _bare(placeholder: str) -> str:
    """Card and phone numbers are spelt in many ways, and their tags are made of the digits."""
    return _GAPS.sub("", placeholder)
