"""The tokens of issuers: they begin with a prefix, where a run of their characters begins.

The one idea: only the beginnings of long runs are compared, and what stands behind a dash in them,
so that a text is not searched for eighty prefixes.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from itertools import islice

from tracekit.redact.detectors import Span
from tracekit.redact.issued import ISSUED
from tracekit.redact.look import Look
from tracekit.redact.placeholders import SECRET
from tracekit.redact.places import SIGNS, is_long, overlapping
from tracekit.redact.signs import ANY_WORD


def find_tokens(look: Look) -> Iterator[Span]:
    """Yield the tokens that their issuer's prefix gives away.

    They begin where a run of their characters begins, so only beginnings are compared.
    """
    text, raw = look.text, look.raw
    runs = look.long
    if runs and is_long(text):
        runs = overlapping(runs, look.pieces(_SIGN))
    for start, end in runs:
        first = start
        if start and raw[start - 1] in _ESCAPES:
            first += escaped(text, start)
        if text[first : first + 2] in _HEADS and text.startswith(TOKEN_PREFIXES, first):
            match = _TOKEN.match(text, first)
            if match is not None:
                yield Span(match.start(), match.end(), str(match.lastgroup))
                continue
        elif start and text[start - 1] in _LEAD_ENDS:
            yield from _led_token(text, start)
        if _INNER.search(text, first, end):
            yield from _inner_tokens(text, first, end)


def _inner_tokens(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the tokens that stand behind a word of their run, as in ``key-ghp_…``."""
    position = start
    for inner in islice(_INNER.finditer(text, start, end), _MOST_INNER):
        match = _TOKEN.match(text, inner.end()) if inner.end() > position else None
        if match is not None:
            position = match.end()
            yield Span(*match.span(), str(match.lastgroup))


def _led_token(text: str, start: int) -> Iterator[Span]:
    """Yield the token whose run begins at ``start``, if what stands before it says that it is."""
    for lead in LEADS.finditer(text, max(0, start - _LONGEST_LEAD), start):
        match = _LED_TOKEN.match(text, lead.start()) if lead.end() == start else None
        if match is not None:
            kind = next(kind for kind in _LED if match[kind] is not None)
            yield Span(*match.span("tail" if match["tail"] else kind), kind)


def escaped(text: str, start: int) -> int:
    r"""Return how much at ``start`` belongs to an escape as in ``\nname``, or to a colour."""
    match = _ESCAPED.match(text, start)
    if match is None or (match["colour"] and not _COLOUR.search(text[max(0, start - 12) : start])):
        return 0
    return match.end() - start


_ESCAPES = frozenset(b"\\[;")
_ESCAPED = re.compile(
    r"(?<=\\)(?:[nrtbfv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|(?P<colour>(?<=[\[;])[0-9]{1,3}m)"
)
_COLOUR = re.compile(r"(?:\x1b|\\(?:x1b|u001b|033|e))\[[0-9;]{0,8}\Z", re.IGNORECASE)
_TOKENS = {
    "jwt": r"eyJ[\w-]{5,}+\.eyJ[\w-]{5,}+\.[\w-]*+",
    "aws_key": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",
    "discord_token": r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])",
} | {kind: f"(?:{'|'.join(one.prefixes)}){one.rest}" for kind, one in ISSUED.items()}
TOKEN_PREFIXES = (
    "eyJ", "AKIA", "ASIA", "M", "N", "O",
    *(prefix for one in ISSUED.values() for prefix in one.prefixes),
)  # fmt: skip
_LED = {
    "sendgrid_key": r"(?<!\w)SG\.[\w-]{16,32}\.[\w-]{32,64}(?![\w-])",
    "google_token": r"(?<!\w)(?:ya29\.[\w-]{20,}+|1//0[\w-]{30,}+)",
    "vault_token": r"(?<!\w)hv[sbr]\.[\w-]{20,}+",
    "doppler_token": r"(?<!\w)dp\.(?:pt|st|ct|sa|scim|audit)\.[\w-]{30,}+",
    "telegram_token": r"(?<![\w.+-])[0-9]{8,10}:AA[\w-]{33}(?![\w-])",
    SECRET: r"(?:[?&;]sig=|/webhooks/[0-9]{10,20}/)(?P<tail>[\w%+/-]{20,}+=*)",
}
"""Tokens whose sign stands before a run of their characters."""
LEADS = re.compile(
    r"SG\.|ya29\.|1//|hv[sbr]\.|dp\.[a-z]{2,5}\.|[0-9]{8,10}:|[?&;]sig=|/webhooks/[0-9]{10,20}/"
)
_LEAD_ENDS = frozenset(".:/=")
_LONGEST_LEAD = 40
_LED_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _LED.items()))
TOKEN_KINDS = {*_TOKENS, *_LED} - {SECRET}
"""The kinds of tokens that issuers make."""
_HEADS = frozenset(
    prefix + char
    for prefix in TOKEN_PREFIXES
    for char in (string.ascii_letters + string.digits + "_-" if len(prefix) == 1 else "")
) | {prefix[:2] for prefix in TOKEN_PREFIXES if len(prefix) > 1}
"""Two characters, looked up first: most runs begin with none of them."""
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _TOKENS.items()))
_UNTOLD = frozenset({"M", "N", "O", "SK", "AC", "key-", "secret_", "dapi", "r8_"})
"""Prefixes that say too little where a run does not begin with them."""
_INNER = re.compile(f"[_-](?={'|'.join(p for p in TOKEN_PREFIXES if p not in _UNTOLD)})")
_MOST_INNER = 8
SHORTEST_TOKEN = 10
"""Behind its prefix no token is shorter."""
_SAY_LITTLE = {
    "eyJ": f"eyJ{ANY_WORD}{{5}}",
    **dict.fromkeys("MNO", rf"[MNO]{ANY_WORD}{{22,27}}\."),
    **dict.fromkeys(("SK", "AC"), "(?:SK|AC)[0-9a-f]{32}"),
}
"""Prefixes so short that more of the token is looked for."""


def _sign() -> str:
    """Return what stands in a text at the beginning of a token, in the automaton's language."""
    escape = r"\\(?:[nrtbfv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|[\[;][0-9]{1,3}m"
    prefixes = "|".join(re.escape(one) for one in TOKEN_PREFIXES if one not in _SAY_LITTLE)
    tokens = [f"(?:{prefixes}){ANY_WORD}{{{SHORTEST_TOKEN}}}", *sorted(set(_SAY_LITTLE.values()))]
    return rf"(?:\A|[^A-Za-z0-9]|{escape})(?:{'|'.join(tokens)})|{LEADS.pattern}"


_SIGN = SIGNS.add(_sign())
