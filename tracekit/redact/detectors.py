"""The built-in detectors: where a text holds something that looks like a secret.

The one idea: look for what a secret must contain, which is nearly free, and run a pattern only
where that stands. A text is looked at in three forms: its bytes, in lower case, and as a shape in
which every digit is ``0`` and every capital ``A``, so that a phone number is a literal as well.
Every pattern is linear: it starts at a boundary that cannot repeat inside its own match, or is
bounded, or is possessive. Entropy only confirms what a word's letters already suggest: by itself it
would take digests, ids and call ids for secrets, and a trace is full of those.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tracekit.redact.entropy import is_random_word, likely_words
from tracekit.redact.look import FLAGS, Form, Look
from tracekit.redact.placeholders import (
    GAP,
    GAPS,
    SECRET,
    iban_remainder,
    luhn_digit,
    placeholder_kind,
)
from tracekit.redact.places import is_long
from tracekit.redact.signs import RARE_LITERALS, RARE_SIGN
from tracekit.redact.starts import (
    CARD_GROUPS,
    CARD_RUN,
    PHONE_BEHIND_AREA,
    PHONE_GROUPS,
    address_starts,
    card_starts,
    iban_starts,
    phone_starts,
    starts_of,
)


class Span(NamedTuple):
    """A secret found in a text."""

    start: int
    end: int
    kind: str
    first: bool = False
    """Wins over longer spans that overlap with it."""
    crosses: bool = False
    """May swallow a placeholder that stands inside it."""
    user: bool = False
    """Found by the user's own rule."""
    codecs: tuple[str, ...] = ()
    """How it is encoded there, the outermost first."""


@dataclass(frozen=True)
class Detector:
    """A pattern that is worth running only where one of its literals stands."""

    kind: str
    form: Form
    """In which form of the text the literals are looked for."""
    needles: tuple[bytes, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    """Whether a match is the real thing; called with the secret itself."""
    first: bool = False
    crosses: bool = False
    size: Callable[[str], int] | None = None
    """How much of what matched is the real thing; none if 0."""
    starts: Callable[[Look], Iterable[int] | None] | None = None
    """Where alone a match may begin, in order, if that is quicker than to try everywhere."""

    def find(self, look: Look) -> Iterator[Span]:
        """Yield what is found: the group ``secret`` of the pattern, or else its whole match."""
        group = self.pattern.groupindex.get("secret", 0)
        for match in self._matches(look):
            if self.check is None or self.check(match[group]):
                start, end = match.span(group)
                if self.size is not None:
                    end = start + self.size(match[group])
                if start < end:
                    yield Span(start, end, self.kind, self.first, self.crosses)

    def _matches(self, look: Look) -> Iterator[re.Match[str]]:
        text = look.text
        starts = None if self.starts is None else self.starts(look)
        if starts is None:
            yield from self.pattern.finditer(text)
            return
        position = 0
        for start in starts:
            match = self.pattern.match(text, start) if start >= position else None
            if match is not None:
                position = match.end()
                yield match


def find_forms(look: Look, detectors: tuple[Detector, ...]) -> Iterator[Span]:
    """Yield what the detectors find, each run only where one of its literals stands."""
    if is_long(look.text):
        look.narrow(RARE_LITERALS, RARE_SIGN)
    for detector in detectors:
        for needle in detector.needles:
            if look.has(detector.form, needle):
                yield from detector.find(look)
                break


def find_random(look: Look, *, many: bool = False) -> Iterator[Span]:
    """Yield the words that are as random as a key, whoever issued it.

    Args:
        look: The text.
        many: Whether it may be many texts, a line each.
    """
    for start, end in likely_words(look):
        if is_random_word(look.text, start, end, many=many):
            yield Span(start, end, SECRET)


def is_card(text: str) -> bool:
    """Say whether ``text`` is the number of a payment card: an issuer's range, and Luhn holds."""
    digits = re.sub(GAP, "", text)
    return bool(_CARD_RANGE.fullmatch(digits)) and luhn_digit(digits[:-1]) == digits[-1]


def _iban_end(text: str) -> int:
    """Return how much of ``text`` is an IBAN by its country's length; 0 if none is."""
    size = _IBAN_LENGTHS.get(text[:2], 0)
    for end, char in enumerate(text, 1):
        size -= char not in GAPS
        if size == 0:
            alone = not text[end : end + 1].isalnum()
            return end if alone and iban_remainder(re.sub(GAP, "", text[:end])) == 1 else 0
    return 0


def _is_phone(text: str) -> bool:
    digits = sum(char.isdigit() for char in text)
    return (8 if re.search(rf"{GAP}|[().]", text) else 10) <= digits <= 15


def _is_basic(text: str) -> bool:
    """Say whether ``text`` is base64 of ``user:password``, not just a word after "Basic"."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return False


def _is_address(text: str) -> bool:
    """Say whether ``text`` is somebody's: ``git@github.com:x/y`` names a host, not a person.

    Nor is a placeholder, of which a text that has been redacted is full.
    """
    if not text.startswith(("git@", "redacted-")):
        return True
    return text.startswith("redacted-") and placeholder_kind(text) is None


def _is_no_word(text: str) -> bool:
    return not text.isalpha()


def _is_bearer(text: str) -> bool:
    return len(text) >= 20 or any(char.isdigit() for char in text)


_IBAN_TABLE = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 "
    "DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 "
    "IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 "
    "MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SD18 SE24 SI19 "
    "SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
)
_IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBAN_TABLE.split()}
_CARD_RANGE = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}"
    r"|35(?:2[89]|[3-8]\d)\d{12}"
)

_AFTER_ESCAPE = (
    r"(?<=\\[nrt].)|(?<=\\u[0-9a-fA-F]{4}.)|(?<=\\x[0-9a-fA-F]{2}.)"
    r"|(?<=\x1b\[\dm.)|(?<=\x1b\[\d\dm.)|(?<=\x1b\[\d;\d\dm.)"
)
_BEFORE_NUMBER = rf"(?:(?<![\w.+-].)|{_AFTER_ESCAPE})"
"""After the first character: what stands before it is no part of a number or word.

The character comes first in the pattern, since the engine then skips all others quickly.
"""
_BEFORE_CARD = rf"(?:(?<![\w.+-].)|(?<=[^0-9][_-].)|(?<=[A-Za-z]\..)|(?<=\A-.)|{_AFTER_ESCAPE})"
"""So many digits, of which the last checks, are a card also behind ``card_`` or ``no.``."""

DETECTORS: tuple[Detector, ...] = (
    Detector(
        "private_key",
        "raw",
        (b"PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?=(?:\\[nr]|[\s\"'+,\\])*(?:[\w-]{1,30}: \S|[A-Za-z0-9+/=_]{8}))"
            r"[\s\S]*?(?=-----|\Z)"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
        first=True,
        crosses=True,
    ),
    Detector(
        SECRET,
        "raw",
        (b"://",),
        re.compile(r"""://[^\s/?#@:"'<>]*+:(?P<secret>[^\s/?#"'<>]+)@"""),
        first=True,
        crosses=True,
    ),
    Detector(
        SECRET,
        "raw",
        (b"hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/[a-z]{1,20}/\w{1,20}/\w{1,20}/(?P<secret>\w++)"),
        first=True,
    ),
    Detector(
        SECRET,
        "low",
        (b"bearer ",),
        re.compile(r"\b(?ai:bearer) {1,4}(?P<secret>[\w.~+/-]{8,}+=*+)"),
        _is_bearer,
        starts=starts_of(b"bearer "),
    ),
    Detector(
        SECRET,
        "low",
        (b"basic ",),
        re.compile(r"\b(?ai:basic) {1,4}(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})"),
        _is_basic,
        starts=starts_of(b"basic "),
    ),
    Detector(
        SECRET,
        "low",
        (b"curl ",),
        re.compile(
            r"\bcurl [^\n]{0,200}?(?<= )(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,80}:"
            r"(?P<secret>[^\s\"']+)"
        ),
        first=True,
        crosses=True,
        starts=starts_of(b"curl "),
    ),
    Detector(
        SECRET,
        "low",
        FLAGS,
        re.compile(
            r"--(?<!\S--)(?:[a-z]{1,20}-){0,3}(?:password|passwd|secret|token|api-key) [\"']?"
            r"(?P<secret>[^\s\"'<>$\[{-][^\s\"']{3,})"
        ),
        _is_no_word,
        crosses=True,
    ),
    Detector(
        SECRET,
        "low",
        (b"identified by ", b"with password "),
        re.compile(r"\b(?ai:identified by|with password) '(?P<secret>[^'\n]{1,200})'"),
        crosses=True,
        starts=starts_of(b"identified by ", b"with password "),
    ),
    Detector(
        "email",
        "raw",
        (b"@",),
        re.compile(
            r"(?:(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=\\x[0-9a-fA-F]{2})"
            r"|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm)"
            r"|(?<![\w.%+\\-])(?<!\x1b\[)(?<!\x1b\[\d;)"
            r"|(?<=\\)(?![nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}))(?P<secret>[\w.%+-]++"
            r"@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24})(?![\w])"
        ),
        _is_address,
        starts=address_starts,
    ),
    Detector(
        "phone",
        "shape",
        (b"+0",),
        re.compile(
            rf"\+{_BEFORE_NUMBER}[1-9]\d{{0,14}}(?:(?:{GAP}|\.)?\(?\d{{1,5}}\)?){{0,5}}(?!\w)"
        ),
        _is_phone,
    ),
    Detector(
        "phone",
        "shape",
        (*PHONE_GROUPS, *PHONE_BEHIND_AREA),
        re.compile(
            rf"[(2-9]{_BEFORE_NUMBER}"
            r"(?:(?<=\()[2-9]\d\d\) ?[2-9]\d\d-|(?<!\()\d\d([.-])[2-9]\d\d\1)\d{4}(?![.-]?\w)"
        ),
        starts=phone_starts,
    ),
    Detector(
        "card",
        "shape",
        (CARD_RUN, *CARD_GROUPS),
        re.compile(
            rf"[2-6]{_BEFORE_CARD}\d{{3}}(?:\d{{11,12}}"
            rf"|({GAP})\d{{4}}\1\d{{4}}\1\d{{4}}|({GAP})\d{{6}}\2\d{{5}})(?![\w-])"
        ),
        is_card,
        starts=card_starts,
    ),
    Detector(
        "iban",
        "shape",
        (b"AA00",),
        re.compile(
            rf"[A-Z](?:(?<![A-Za-z0-9].)|{_AFTER_ESCAPE})[A-Z]\d\d"
            rf"(?:[A-Z0-9]{{11,28}}+|(?:{GAP}[A-Z0-9]{{4}}){{2,7}}(?:{GAP}[A-Z0-9]{{1,3}})?)"
            r"(?![A-Za-z0-9])"
        ),
        size=_iban_end,
        starts=iban_starts,
    ),
)
