"""Values that a text gives to names of secrets: ``api_key=…``, ``"password": "…"``.

The one idea: find the few words that such names contain, read the whole name around them, and let
the name decide. What is plainly a type, a variable, a count or a sentence is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tracekit.redact.detectors import Span
from tracekit.redact.look import Look
from tracekit.redact.names import name_class
from tracekit.redact.placeholders import SECRET
from tracekit.redact.places import BEHIND, SIGNS, is_long
from tracekit.redact.signs import ANY_WORD

NAME_PARTS: tuple[bytes, ...] = (
    b"pass", b"pwd", b"secret", b"token", b"key", b"authorization", b"cookie", b"credential",
    b"cvv", b"cvc", b"ssn", b"otp", b"jwt",
)  # fmt: skip
_Rest = Literal["bare", "line", "cookie", "scheme"]
_NAME_BEFORE = 40
_LONGEST_NAME = 60
_ASSIGNMENT = re.compile(
    r"""([\w-]{0,40})(?:\\*["'])?(?:\][ \t]{0,3}(?==)|[ \t]{0,3}|(?=>))"""
    r"""(?:=>|:=|[:=]|(?P<element>>))[ \t]{0,3}(?![:=])"""
)
_NAMES = "|".join(part.decode() for part in NAME_PARTS)
_SIGN = SIGNS.add(rf"(?i:{_NAMES}){ANY_WORD}*(?:\\|[\"']?\]?[ \t]*[:=>])")
"""What of that the automaton looks for."""
_NAME_END = re.compile(r"[\w-]*")
_QUOTED = re.compile(
    r"""
    \"{3} (?P<triple> .{0,4000}? ) \"{3}
    | "  (?P<double> [^"\\]*+ (?:\\. [^"\\]*+)* )
    | '  (?P<single> [^'\\]*+ (?:\\. [^'\\]*+)* )
    | (?P<mark> \\+["'])  (?P<inner> [^\n]*? (?= (?P=mark) | \n | \Z) )""",
    re.DOTALL | re.VERBOSE,
)
# No possessive group anywhere in this package: Python 3.11 before 3.11.4 matches them wrongly.
_BARE = re.compile(r"""[^\s"'<>&;,)}\]`\\]++""")
_REST_OF_LINE = re.compile(r"""[^\n"'\\]*+""")
_WORD = re.compile(r"""[^\s"'`\\]++""")
_LINE_BEGINS = re.compile(r"(?:\A|\n)(?:export )?\Z")
_ANY_SCHEME = re.compile(r"[A-Za-z][\w-]{0,30} {1,4}(?=[^\s\"'<>&;,)}\]`\\]{8})")
_SCHEME = re.compile(r"(?ai:bearer|basic|token|digest|apikey) {1,4}")
_NO_VALUE = re.compile(
    r"""(?aix) none|null|nil|undefined|true|false|empty|str|string|int|bytes|any|optional|required
    |secret|password|token|\*+|x+|\.{2,}|__redacted__|redacted"""
)
_TEMPLATE = re.compile(r"<.*>|\$\{.*|\$[A-Z_]{2,}|\{.*\}|\[.*\]|%\(.*|%s")
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[].*|(?:os|process|self|env|config|settings)\.[A-Za-z_].*|\{.*|\[.*"
)
_MEMBER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_HOLDERS = frozenset(
    {"args", "cfg", "client", "config", "context", "ctx", "data", "env", "event", "form", "kwargs"}
    | {"obj", "options", "opts", "params", "payload", "req", "request", "response", "self"}
    | {"session", "settings", "state", "user"}
)
"""Variables whose members code hands over: ``token=request.headers``."""
_PROSE = re.compile(r"[A-Za-z]+[.:!?]?")
_LETTER_AFTER = re.compile(r"[.:,]? +[A-Za-z]")


def find_assignments(look: Look) -> Iterator[Span]:
    """Yield the values that stand behind a name of a secret and a sign of assignment."""
    text, low = look.text, look.low
    if not _assigns(low):
        return
    done = 0
    for start in _starts(look):
        if start < done:
            continue
        match = _ASSIGNMENT.match(text, start)
        if match is None:
            continue
        before = _name_before(text, start)
        kind = name_class(before + text[start : match.end(1)])
        if kind is None:
            continue
        if match["element"] and text[start - len(before) - 1 : start - len(before)] not in "<:":
            continue
        value, done = _value_at(text, match.end(), _rest(text, start, before, match))
        if value is not None and _is_value(text, *value, counted=kind == "token"):
            yield Span(*value, SECRET, crosses=True)


def names_secret(look: Look) -> bool:
    """Whether a name of a secret stands before a sign of assignment, whatever comes after it."""
    text, low = look.text, look.low
    if not _assigns(low):
        return False
    for start in _starts(look):
        match = _ASSIGNMENT.match(text, start)
        if match and name_class(_name_before(text, start) + text[start : match.end(1)]):
            return True
    return False


def _starts(look: Look) -> list[int]:
    """Return where a part of a name of a secret stands; in long texts, with a sign behind it."""
    low = look.low
    places, parts = [(0, len(low))], NAME_PARTS
    if is_long(low):
        places = look.pieces(_SIGN)
        said = b"\n".join([low[begin : end + BEHIND] for begin, end in places])
        parts = tuple(part for part in NAME_PARTS if part in said)
    found = []
    for begin, end in places:
        for part in parts:
            size = len(part)
            position = low.find(part, begin, end + size - 1)
            while position >= 0:
                found.append(position)
                position = low.find(part, position + size, end + size - 1)
    found.sort()
    return found


def _assigns(low: bytes) -> bool:
    """Whether there is any sign of assignment."""
    return b":" in low or b"=" in low or b"</" in low


def _names_variable(value: str) -> bool:
    """Whether code hands over what it holds under that name: ``api_key=api_key``."""
    holder, _, name = value.rpartition(".")
    if holder:
        return holder.partition(".")[0] in _HOLDERS or name_class(name) is not None
    return value.islower() and "_" in value and name_class(value) is not None


def _name_before(text: str, end: int) -> str:
    match = _NAME_END.match(text[max(0, end - _NAME_BEFORE) : end][::-1])
    return text[end - match.end() : end] if match else ""


def _rest(text: str, start: int, before: str, match: re.Match[str]) -> _Rest:
    """Tell how far a value goes that has no quotes."""
    name = (before + text[start : match.end(1)]).lower()
    if name.endswith("cookie"):
        return "cookie"
    if name.endswith("authorization"):
        return "scheme"
    line = text[max(0, start - len(before) - 8) : start - len(before)]
    alone = match[0].endswith("=") and _LINE_BEGINS.search(line)
    return "line" if alone and (before + match[1]).isupper() else "bare"


def _value_at(text: str, start: int, rest_is: _Rest) -> tuple[tuple[int, int] | None, int]:
    """Return where the value at ``start`` stands, and from where to look for the next name."""
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        start, end = quoted.span(quoted.lastgroup or 0)
        scheme = _SCHEME.match(text, start, end)
        return (scheme.end() if scheme else start, end), end
    scheme = _SCHEME.match(text, start)
    if scheme is None and rest_is == "scheme":
        scheme = _ANY_SCHEME.match(text, start)
    if scheme is not None:
        start = scheme.end()
    cookie = rest_is == "cookie"
    rest = (_REST_OF_LINE if cookie else _WORD if rest_is == "line" else _BARE).match(text, start)
    if rest is None or not rest[0] or (cookie and "=" not in rest[0]):
        return None, rest.end() if rest else start
    bare = rest[0]
    if bare[-1] in ":=" and len(bare) <= _LONGEST_NAME and name_class(bare[:-1]) is not None:
        return None, start  # the next name, as in "token: password: ..."
    return (start, start + len(rest[0].rstrip())), rest.end()


def _is_value(text: str, start: int, end: int, *, counted: bool) -> bool:
    """Say whether what stands there is a secret, not a type, a variable, a count or a word."""
    value = text[start:end]
    quoted = start > 0 and text[start - 1] in "\"'"
    if not value or _NO_VALUE.fullmatch(value[:200]) or _TEMPLATE.fullmatch(value[:200]):
        return False
    if counted and value.replace(".", "").isdigit():
        return False
    if quoted:
        return True
    if _CODE.fullmatch(value[:200]):
        return False
    if _MEMBER.fullmatch(value[:200]) and _names_variable(value):
        return False
    if _PROSE.fullmatch(value[:200]) and _LETTER_AFTER.match(text, end):
        return False
    return len(value) >= 4
