"""What stands in a secret's place: made from a tag, valid for its field, known again without a key.

The one idea: each kind has a range that no real secret lies in (a reserved domain, an unassigned
country code, a test range of cards), so a placeholder is recognised by its form alone. That makes
redaction idempotent, also for whoever does not hold the key.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import NamedTuple

from tracekit.redact.issued import ISSUED
from tracekit.redact.places import is_long, pieces_with

GAPS = " \u00a0\u2007\u2009\u202f-"
"""What stands between the groups of a long number."""
GAP = f"[{GAPS}]"
_SPELLING = {"card": GAP, "iban": GAP, "phone": rf"{GAP}|[().]"}
FAILED = "failed"
NUMBER = "number"
SECRET = "secret"

_CARD_PREFIX = "400000"
_NUMBER_PREFIX = 8999
_NUMBER_DIGITS = 12
_JWT_HEAD = "eyJhbGciOiJub25lIn0."
_JWT_SUBJECT = '{"sub":"redacted-jwt-'
_TAIL_LENGTH = 24


class Wall(NamedTuple):
    """A stretch of text that is a placeholder already."""

    start: int
    end: int
    kind: str


def luhn_digit(digits: str) -> str:
    """Return the check digit that makes ``digits`` followed by it pass Luhn."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if index % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def iban_remainder(iban: str) -> int:
    """Return the remainder by 97 of an IBAN without spaces; 1 for a valid one."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97


def number_placeholder(tag: str) -> int:
    """Return the number for ``tag``; exact in JSON, since it is below 2**53."""
    return int(f"{_NUMBER_PREFIX}{_digits(tag, _NUMBER_DIGITS)}")


def is_number_placeholder(value: float) -> bool:
    """Say whether a number is one of ours."""
    low = _NUMBER_PREFIX * 10**_NUMBER_DIGITS
    return value == int(value) and low <= value < low + 10**_NUMBER_DIGITS


def unspelt(kind: str, secret: str) -> str:
    """Return a secret without what its kind may be spelt with: gaps say nothing of a number."""
    spelling = _SPELLING.get(kind)
    return secret if spelling is None else re.sub(spelling, "", secret)


def make_placeholder(kind: str, tag: str, original: str) -> str:
    """Return the placeholder of ``kind`` for ``tag``, spelt the way ``original`` was."""
    make = _FORMS.get(kind)
    return make(tag, original) if make else f"redacted-{kind}-{tag}"


def find_placeholders(text: str, raw: bytes | None = None) -> list[Wall]:
    """Return every placeholder in ``text``, in order.

    Args:
        text: The text.
        raw: The same with a question mark for each character that is none of ASCII, if known.
    """
    walls: list[Wall] = []
    position = 0
    for start in _starts(text.encode("ascii", "replace") if raw is None else raw):
        match = _PLACEHOLDER.match(text, start) if start >= position else None
        if match is not None:
            position = match.end()
            if _genuine(match):
                walls.append(Wall(start, position, _kind_of(match)))
    return walls


def _starts(raw: bytes) -> list[int]:
    """Return where a placeholder may begin, in order: each holds one of a few words."""
    places = pieces_with(_MARK, raw) if is_long(raw) else [(0, len(raw))]
    found: set[int] = set()
    for begin, end in places:
        for word, offsets in _WORDS:
            at = raw.find(word, begin, end + len(word) - 1)
            while at >= 0:
                found.update([at - offset for offset in offsets])
                at = raw.find(word, at + 1, end + len(word) - 1)
    return sorted(start for start in found if start >= 0)


def placeholder_kind(text: str) -> str | None:
    """Return the kind of secret that ``text`` stands for, or None if it is no placeholder."""
    match = _PLACEHOLDER.fullmatch(text)
    return _kind_of(match) if match and _genuine(match) else None


def _digits(tag: str, count: int) -> str:
    return f"{int(tag, 16) % 10**count:0{count}d}"


def _email(tag: str, original: str) -> str:
    # example.com is reserved, takes no mail, and passes the usual validators; .invalid does not.
    return f"redacted-{tag}@example.com"


def _phone(tag: str, original: str) -> str:
    # +999 is assigned to nobody. The national ranges for fiction hold a hundred numbers each:
    # far too few to keep different numbers different.
    return f"+999{_digits(tag, 12)}"


def _card(tag: str, original: str) -> str:
    body = _CARD_PREFIX + _digits(tag, 9)
    digits = body + luhn_digit(body)
    groups = re.split(GAP, original)
    if [len(group) for group in groups] == [4, 4, 4, 4]:
        return original[4].join(digits[i : i + 4] for i in range(0, 16, 4))
    return digits


def _iban(tag: str, original: str) -> str:
    body = "ZZZZ" + _digits(tag, 14)
    check = 98 - iban_remainder(f"GB00{body}")
    iban = f"GB{check:02d}{body}"
    gap = re.search(GAP, original)
    return gap[0].join(iban[i : i + 4] for i in range(0, len(iban), 4)) if gap else iban


def _jwt(tag: str, original: str) -> str:
    payload = base64.urlsafe_b64encode(f'{_JWT_SUBJECT}{tag}"}}'.encode()).decode()
    return f"{_JWT_HEAD}{payload}.REDACTED"


def _aws(tag: str, original: str) -> str:
    letters = base64.b32encode(bytes.fromhex(tag))[:8].decode()
    return f"{original[:4]}REDACTED{letters}"


def _prefixed(length: int, *prefixes: str) -> Callable[[str, str], str]:
    """Return a maker that keeps the prefix, which names the issuer, and pads to ``length``."""

    def make(tag: str, original: str) -> str:
        prefix = next((p for p in prefixes if original.startswith(p)), prefixes[-1])
        return f"{prefix}REDACTED{tag}".ljust(length, "0")

    return make


def _private_key(tag: str, original: str) -> str:
    newline = next((sign for sign in ("\n", "\\n") if sign in original), " ")
    begin = "-----BEGIN PRIVATE KEY-----"
    return f"{begin}{newline}REDACTED{tag}{newline}-----END PRIVATE KEY-----"


_FORMS: dict[str, Callable[[str, str], str]] = {
    "aws_key": _aws,
    "card": _card,
    "email": _email,
    "iban": _iban,
    "jwt": _jwt,
    NUMBER: lambda tag, original: str(number_placeholder(tag)),
    "phone": _phone,
    "private_key": _private_key,
} | {kind: _prefixed(one.length, *one.prefixes) for kind, one in ISSUED.items()}

FORMAT_KINDS = frozenset(_FORMS) - {NUMBER}
"""The kinds whose secret has a form of its own, kept by the placeholder."""

_TAG = "[0-9a-f]{16}"
_JWT_BODY = base64.urlsafe_b64encode(_JWT_SUBJECT.encode()).decode()
_PATTERNS = {
    "aws_key": r"(?:AKIA|ASIA)REDACTED[A-Z2-7]{8}",
    "card": rf"(?<!\d)4000(?P<gap>{GAP}?)00\d\d(?P=gap)\d{{4}}(?P=gap)\d{{4}}(?!\d)",
    "email": rf"redacted-{_TAG}@example\.com",
    "iban": rf"(?<![A-Z0-9])GB\d\d{GAP}?ZZZZ(?:{GAP}?\d{{4}}){{3}}{GAP}?\d\d(?!\d)",
    "jwt": re.escape(_JWT_HEAD + _JWT_BODY) + rf"[\w-]{{{_TAIL_LENGTH}}}\.REDACTED",
    NUMBER: rf"(?<!\d){_NUMBER_PREFIX}\d{{{_NUMBER_DIGITS}}}(?!\d)",
    "phone": r"\+999\d{12}(?!\d)",
    "private_key": (
        rf"-----BEGIN PRIVATE KEY-----(?:\n|\\n| )REDACTED{_TAG}(?:\n|\\n| )"
        r"-----END PRIVATE KEY-----"
    ),
} | {kind: f"(?:{'|'.join(one.prefixes)})REDACTED{_TAG}0*+" for kind, one in ISSUED.items()}
_MARKS: dict[str, tuple[int, ...]] = {
    "redacted-": (0,),
    "REDACTED": tuple({4, *(len(prefix) for one in ISSUED.values() for prefix in one.prefixes)}),
    "-----BEGIN PRIVATE KEY-----": (0,),
    _JWT_HEAD: (0,),
    "+999": (0,),
    _CARD_PREFIX[:4]: (0,),
    str(_NUMBER_PREFIX): (0,),
    "ZZZZ": (4, 5),
}
"""A word that stands in every placeholder of some kinds, and how far from their beginning."""
_WORDS = [(word.encode(), offsets) for word, offsets in _MARKS.items()]
_MARK = "|".join(map(re.escape, _MARKS))
"""Any of them, in the language of the automaton."""
_PLACEHOLDER = re.compile(
    "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items())
    + rf"|redacted-(?P<named>[a-z][a-z0-9_]{{0,39}})-{_TAG}"
)


def _kind_of(match: re.Match[str]) -> str:
    name = match["named"]
    if name is not None:
        return name
    return next(kind for kind in _PATTERNS if match[kind] is not None)


def _genuine(match: re.Match[str]) -> bool:
    """Say whether a number in one of our ranges also has the right check digits."""
    text = match[0]
    if match["card"] is not None:
        digits = re.sub(GAP, "", text)
        return luhn_digit(digits[:-1]) == digits[-1]
    if match["iban"] is not None:
        return iban_remainder(re.sub(GAP, "", text)) == 1
    return True
