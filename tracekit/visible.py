"""Text from a trace, made fit for a terminal and for a list of lines.

The one idea: whatever a trace holds is shown, never obeyed. A control character, a mark of
direction and a sign without width stand there as an escape, and a line stays one line: what a tool
is named can neither end it nor begin another that looks like ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_JOINER = "\u200d"
"""It makes one sign of several, and does nothing else."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str) -> str:
    """Make control and direction characters visible; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in "\n\t" else _shown(sign) for sign in text)


def shown_line(text: str) -> str:
    """Make all that a terminal would obey visible, line breaks too, so that it is one line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign == "\t" else _shown(sign) for sign in text)


def text_of(lines: Iterable[str]) -> str:
    """Join the lines of a report, each of which stays one line."""
    return "\n".join(map(shown_line, lines))


def _shown(sign: str) -> str:
    if sign == _JOINER or unicodedata.category(sign) not in _HIDDEN:
        return sign
    named = {"\n": "\\n", "\r": "\\r"}.get(sign)
    if named is not None:
        return named
    return f"\\x{ord(sign):02x}" if ord(sign) < 256 else f"\\u{ord(sign):04x}"
