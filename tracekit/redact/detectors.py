"""The built-in detectors: where a text holds something that looks like a secret.

The one idea: a literal that the secret must contain is looked for first (that is nearly free), and
only where it stands does a pattern run. Every pattern is linear: it starts at a boundary that
cannot repeat inside its own match, or is bounded, or is possessive. There is no entropy rule: it
would take digests, ids and call ids for secrets, and a trace is full of those.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tracekit.redact.names import name_class
from tracekit.redact.placeholders import SECRET, iban_remainder, luhn_digit


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


@dataclass(frozen=True)
class Detector:
    """A pattern that is worth running only where one of its literals stands."""

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    """Whether a match is the real thing; called with the secret itself."""
    first: bool = False
    crosses: bool = False

    def find(self, text: str) -> Iterator[Span]:
        """Yield what is found in ``text``: the group ``secret``, or else the whole match."""
        if self.needles and not any(needle in text for needle in self.needles):
            return
        group: int | str = "secret" if "secret" in self.pattern.groupindex else 0
        for match in self.pattern.finditer(text):
            if self.check is None or self.check(match[group]):
                start, end = match.span(group)
                yield Span(start, end, self.kind, self.first, self.crosses)


def is_card(text: str) -> bool:
    """Say whether ``text`` is the number of a payment card: an issuer's range, and Luhn holds."""
    digits = re.sub("[ -]", "", text)
    return bool(_CARD_RANGE.fullmatch(digits)) and luhn_digit(digits[:-1]) == digits[-1]


def _is_iban(text: str) -> bool:
    compact = text.replace(" ", "")
    return _IBAN_LENGTHS.get(compact[:2]) == len(compact) and iban_remainder(compact) == 1


def _is_phone(text: str) -> bool:
    digits = sum(char.isdigit() for char in text)
    return (8 if re.search(r"[ ().-]", text) else 10) <= digits <= 15


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


def _is_basic(text: str) -> bool:
    """Say whether ``text`` is base64 of ``user:password``, not just a word after "Basic"."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return False


def _is_bearer(text: str) -> bool:
    return len(text) >= 20 or _has_digit(text)


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
_EDGE = r"(?<![A-Za-z0-9_-])"

DETECTORS: tuple[Detector, ...] = (
    Detector(
        "private_key",
        ("PRIVATE KEY-----",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----)[\s\S])*+"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
        ),
        first=True,
        crosses=True,
    ),
    Detector(
        SECRET,
        ("://",),
        re.compile(r"""://[^\s/?#@:"'<>]*+:(?P<secret>[^\s/?#"'<>]+)@"""),
        first=True,
        crosses=True,
    ),
    Detector(
        SECRET,
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/[a-z]{1,20}/\w{1,20}/\w{1,20}/(?P<secret>\w++)"),
        first=True,
    ),
    Detector(
        "jwt",
        ("eyJ",),
        re.compile(rf"{_EDGE}eyJ[\w-]{{5,}}+\.eyJ[\w-]{{5,}}+\.[\w-]*+"),
    ),
    Detector(
        SECRET,
        ("Bearer ", "bearer ", "BEARER "),
        re.compile(r"(?i:\bbearer) {1,4}(?P<secret>[\w.~+/-]{8,}+=*+)"),
        _is_bearer,
    ),
    Detector(
        SECRET,
        ("Basic ", "basic ", "BASIC "),
        re.compile(r"(?i:\bbasic) {1,4}(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})"),
        _is_basic,
    ),
    Detector("aws_key", ("AKIA", "ASIA"), re.compile(rf"{_EDGE}(?:AKIA|ASIA)[A-Z0-9]{{16}}\b")),
    Detector(
        "github_token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{30,}}+|github_pat_\w{{22,}}+)"),
    ),
    Detector("gitlab_token", ("glpat-",), re.compile(rf"{_EDGE}glpat-[\w-]{{20,}}+"), None),
    Detector(
        "slack_token",
        ("xox", "xapp-"),
        re.compile(rf"{_EDGE}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{10,}}+"),
        _has_digit,
    ),
    Detector(
        "anthropic_key", ("sk-ant-",), re.compile(rf"{_EDGE}sk-ant-[\w-]{{20,}}+"), _has_digit
    ),
    Detector("openai_key", ("sk-",), re.compile(rf"{_EDGE}sk-(?!ant-)[\w-]{{20,}}+"), _has_digit),
    Detector(
        "stripe_key",
        ("_live_", "_test_"),
        re.compile(rf"{_EDGE}[sr]k_(?:live|test)_[A-Za-z0-9]{{16,}}+"),
    ),
    Detector("google_key", ("AIza",), re.compile(rf"{_EDGE}AIza[\w-]{{35}}(?![\w-])")),
    Detector("huggingface_token", ("hf_",), re.compile(rf"{_EDGE}hf_[A-Za-z0-9]{{30,}}+")),
    Detector("npm_token", ("npm_",), re.compile(rf"{_EDGE}npm_[A-Za-z0-9]{{36}}(?!\w)")),
    Detector(
        "email",
        ("@",),
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]++@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}(?![\w])"
        ),
    ),
    Detector(
        "phone",
        ("+",),
        re.compile(r"(?<![\w+.)-])\+[1-9]\d{0,14}(?:[ .-]?\(?\d{1,5}\)?){0,5}(?![\w])"),
        _is_phone,
    ),
    Detector(
        "phone",
        ("-", ".", ") "),
        re.compile(
            r"(?<![\w.+/-])(?:\+?1[ .-])?"
            r"(?:\([2-9]\d\d\) ?[2-9]\d\d-|[2-9]\d\d([.-])[2-9]\d\d\1)\d{4}(?![.-]?\w)"
        ),
    ),
    Detector(
        "card",
        (),
        re.compile(
            r"(?<![\w.-])[2-6]\d{3}"
            r"(?:\d{11,12}|([ -])\d{4}\1\d{4}\1\d{4}|([ -])\d{6}\2\d{5})(?![\w-])"
        ),
        is_card,
    ),
    Detector(
        "iban",
        (),
        re.compile(
            r"(?<![A-Za-z0-9])[A-Z]{2}\d\d"
            r"(?:[A-Z0-9]{11,28}+|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)(?![A-Za-z0-9])"
        ),
        _is_iban,
    ),
)

_NAME_PARTS = (
    "passw", "passphrase", "passcode", "pwd", "secret", "token", "api_key", "api-key", "apikey",
    "private_key", "private-key", "privatekey", "access_key", "accesskey", "access-key",
    "signing_key", "encryption_key", "master_key", "authorization", "cookie", "credential", "cvv",
    "cvc", "ssn", "otp",
)  # fmt: skip
_NAME_BEFORE = 40
_ASSIGNMENT = re.compile(r"""([\w-]{0,40})(?:\\*["'])?[ \t]{0,3}(?:=>|:=|[:=])[ \t]{0,3}(?![:=])""")
_QUOTED = re.compile(
    r"""(?:(["'])((?:(?!\1)[^\\]|\\.)*+)|(\\+["'])((?:(?!\3)[^\n])*+))""", re.DOTALL
)
_BARE = re.compile(r"""[^\s"'<>&;,)}\]`\\]++""")
_REST_OF_LINE = re.compile(r"""[^\n"'\\]*+""")
_SCHEME = re.compile(r"(?i:bearer|basic|token|digest|apikey) {1,4}")
_NO_VALUE = re.compile(
    r"""(?ix) none|null|nil|undefined|true|false|empty|str|string|int|bytes|any|optional.*|required
    |secret|password|token|\*+|x+|\.{2,}|<.*|\$.*|\{.*|\[.*|%.*|os\.environ.*|os\.getenv.*|getenv.*
    |process\.env.*|env\..*|self\..*|__redacted__|redacted"""
)
_PROSE = re.compile(r"[A-Za-z]+[.:!?]?")
_LETTER_AFTER = re.compile(r"[.:,]? +[A-Za-z]")


def find_assignments(text: str) -> Iterator[Span]:
    """Yield the values a text gives to names of secrets: ``api_key=…``, ``"password": "…"``."""
    low = text.lower()
    if len(low) != len(text):  # a few letters grow in lower case, and offsets must stay
        low = text
    starts = sorted(position for part in _NAME_PARTS for position in _positions(low, part))
    done = 0
    for start in starts:
        if start < done:
            continue
        match = _ASSIGNMENT.match(text, start)
        if match is None:
            continue
        before = _name_before(text, start)
        kind = name_class(before + text[start : match.end(1)])
        if kind is None:
            continue
        value, done = _value_at(text, match.end(), cookie=low.startswith("cookie", start))
        if value is not None and _is_value(text, *value, counted=kind == "token"):
            yield Span(*value, SECRET, crosses=True)


def _positions(text: str, part: str) -> Iterator[int]:
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + len(part))


def _name_before(text: str, end: int) -> str:
    start = end
    while (
        start > 0
        and end - start < _NAME_BEFORE
        and (text[start - 1].isalnum() or text[start - 1] in "_-")
    ):
        start -= 1
    return text[start:end]


def _value_at(text: str, start: int, *, cookie: bool) -> tuple[tuple[int, int] | None, int]:
    """Return where the value at ``start`` stands, and from where to look for the next name."""
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        group = 2 if quoted[1] else 4
        start, end = quoted.span(group)
        scheme = _SCHEME.match(text, start, end)
        return (scheme.end() if scheme else start, end), end
    scheme = _SCHEME.match(text, start)
    if scheme is not None:
        start = scheme.end()
    rest = (_REST_OF_LINE if cookie else _BARE).match(text, start)
    if rest is None or not rest[0] or (cookie and "=" not in rest[0]):
        return None, rest.end() if rest else start
    return (start, start + len(rest[0].rstrip())), rest.end()


def _is_value(text: str, start: int, end: int, *, counted: bool) -> bool:
    """Say whether what stands there is a secret, not a type, a variable, a count or a word."""
    value = text[start:end]
    quoted = start > 0 and text[start - 1] in "\"'"
    if not value or _NO_VALUE.fullmatch(value[:200]):
        return False
    if counted and value.replace(".", "").isdigit():
        return False
    if quoted:
        return True
    if _PROSE.fullmatch(value[:200]) and _LETTER_AFTER.match(text, end):
        return False
    return len(value) >= 4
