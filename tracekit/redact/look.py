"""A text in the forms in which a secret's literals are looked for.

The one idea: whether a literal stands in a text is asked once. Where a text has only been changed
in some places since another look found nothing of a literal, only those places are asked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Literal

from tracekit.redact.base64text import starts_readably
from tracekit.redact.places import BEFORE, BEHIND, SIGNS, Pieces, pieces_with

Form = Literal["raw", "low", "shape"]
"""As bytes; in lower case; with every digit as ``0`` and every capital as ``A``."""


def _table(change: Callable[[str], str]) -> bytes:
    """Return the table for `bytes.translate` that does ``change`` to each ASCII character."""
    return bytes(ord(change(chr(code))) if code < 128 else 63 for code in range(256))


FLAGS = (b"password ", b"passwd ", b"-secret ", b"-token ", b"api-key ")
"""The ends of options of commands whose value is a secret."""
_STEMS: dict[tuple[Form, bytes], tuple[Form, bytes]] = {
    ("low", b"password "): ("low", b"pass"),
    ("low", b"passwd "): ("low", b"pass"),
    ("low", b"with password "): ("low", b"pass"),
    ("low", b"-secret "): ("low", b"secret"),
    ("low", b"-token "): ("low", b"token"),
    ("low", b"api-key "): ("low", b"key"),
    ("shape", b"000-000-0000"): ("shape", b"000-0000"),
    ("shape", b") 000-0000"): ("shape", b"000-0000"),
    ("shape", b")000-0000"): ("shape", b"000-0000"),
}
"""Literals, and what they hold that others hold as well, so that it is asked once for all."""
LONGEST_LITERAL = 64
"""No literal is longer."""
_SHAPE = _table(lambda c: "0" if c.isdigit() else "A" if c.isupper() else c)
_RUNS = _table(lambda c: "x" if c.isalnum() or c in "_-" else " ")
_WORDS = _table(lambda c: "x" if c.isalnum() or c in "+/_-=" else " ")
_LONG_RUN = b"x" * 16
_ZEROS = b"AAA"
"""Base64 of two zeros, as in capitals and digits of four bytes each."""
_ID = re.compile(rb"[a-z]{2,14}(?:[_-](?:[a-z]{1,14}|[0-9]{1,20})){0,6}[_-][A-Za-z0-9]{8,64}")
_MANY_DIGITS = b"0" * 8
"""No phone or card has fewer, and between its digits stands nothing but the following."""
_BETWEEN_DIGITS = b" .-()?"


class Look:
    """A text in the forms in which literals are looked for; offsets are the same in all."""

    __slots__ = (
        "_absent", "_before", "_changed", "_starts", "ids", "long", "low", "mixed", "raw", "runs",
        "shape", "text",
    )  # fmt: skip

    def __init__(
        self, text: str, *, before: Look | None = None, changed: str = "", words: bool = True
    ) -> None:
        """Look at ``text``.

        Args:
            text: The text.
            before: A look at the text as it was.
            changed: What has changed in it since, each place with ``LONGEST_LITERAL`` characters
                on both sides; what has not need not be searched for what was not there.
            words: Whether long runs and words are asked for as well as literals.
        """
        self.text = text
        self._absent: set[tuple[Form, bytes]] = set()
        self._before: Set[tuple[Form, bytes]] = before._absent if before else frozenset()
        self._changed = Look(changed, words=False) if before is not None else None
        self._starts: list[int] | None = None
        raw = text.encode("ascii", "replace")
        self.raw = raw
        self.low = raw.lower()
        self.shape = raw.translate(_SHAPE)
        """With every digit as ``0`` and every capital as ``A``."""
        self.runs = raw.translate(_RUNS) if words else b""
        """With every character that tokens are made of as ``x``, and all others as blanks."""
        self.long = _long_runs(self.runs)
        """Where the long runs of such characters begin and end."""
        self.ids: list[tuple[int, int]] = []
        """What stands behind a prefix as ids have it, where it may be base64 of a text."""
        self.mixed = _mixed_words(raw, self.long, self.ids) if self.long else self.long
        """Words of base64 with capitals and small letters, as no digest or name has them."""

    def has(self, form: Form, literal: bytes) -> bool:
        """Whether ``literal`` stands in the text."""
        asked = form, literal
        if asked in self._absent:
            return False
        if self._changed is not None and asked in self._before:
            found = self._changed.has(form, literal)
        else:
            stem = _STEMS.get(asked)
            found = (stem is None or self.has(*stem)) and literal in self._form(form)
        if not found:
            self._absent.add(asked)
        return found

    def narrow(self, asked: Set[tuple[Form, bytes]], sign: str) -> None:
        """Look for the literals ``asked`` only where ``sign`` stands, which goes with each."""
        if self._changed is None:
            pieces = self.pieces(sign)
            said = [self.text[max(0, at - BEFORE) : end + BEHIND] for at, end in pieces]
            self._before, self._changed = asked, Look("\n".join(said), words=False)

    def pieces(self, sign: str) -> Pieces:
        """Return the pieces of a long text outside of which nothing begins that has ``sign``."""
        if self._starts is None:
            self._starts = SIGNS.starts(self.raw)
        return pieces_with(sign, self.raw, self._starts)

    def _form(self, form: Form) -> bytes:
        return self.raw if form == "raw" else self.low if form == "low" else self.shape

    def may_match(self) -> bool:
        """Whether any detector is worth running: what they look for, each for itself or in sum."""
        raw, low = self.raw, self.low
        if b"@" in raw or (b"/" in raw and (b"://" in raw or b"hooks.slack.com/" in raw)):
            return True
        if b"bearer " in low or b"basic " in low or b"PRIVATE KEY" in raw or b"curl " in low:
            return True
        if b" by '" in low or b" password '" in low or (b"--" in raw and _flagged(low)):
            return True
        if b"AA00" in self.shape:
            return True
        if b"?" in raw and b"+0" in self.shape:  # whose other digits may be of any script
            return True
        return _MANY_DIGITS in self.shape.translate(None, _BETWEEN_DIGITS)


def _flagged(low: bytes) -> bool:
    return any(flag in low for flag in FLAGS)


def has_long_run(data: bytes) -> bool:
    """Whether a run of characters that tokens are made of stands in bytes."""
    return _LONG_RUN in data.translate(_RUNS)


def _long_runs(runs: bytes) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start = runs.find(_LONG_RUN)
    while start >= 0:
        end = runs.find(b" ", start)
        end = end if end >= 0 else len(runs)
        found.append((start, end))
        start = runs.find(_LONG_RUN, end)
    return found


def _mixed_words(
    raw: bytes, runs: list[tuple[int, int]], ids: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the words around those of ``runs`` that have capitals and small letters.

    An id with its issuer's prefix is none; it goes to ``ids``.
    """
    found: list[tuple[int, int]] = []
    words = b""
    done = 0
    prefixed = b"_" in raw or b"-" in raw
    for start, end in runs:
        if start < done or (run := raw[start:end]).islower():
            continue
        if run.isupper() and _ZEROS not in run:
            continue
        if prefixed and _ID.fullmatch(run):
            begin = start + max(run.rfind(b"_"), run.rfind(b"-")) + 1
            if starts_readably(raw[begin:end]):
                ids.append((begin, end))
            continue
        if not words:
            words = raw.translate(_WORDS)
        begin = words.rfind(b" ", 0, start) + 1
        done = words.find(b" ", end)
        done = done if done >= 0 else len(raw)
        found.append((begin, done))
    return found
