"""What the finders look for, in the language of the automaton.

The one idea: a sign goes with each find, close to its beginning, and most texts hold none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tracekit.redact.look import FLAGS, Form
from tracekit.redact.places import NOT_ASCII, SIGNS
from tracekit.redact.starts import CARD_GROUPS, PHONE_BEHIND_AREA, PHONE_GROUPS


def _shape(needle: str) -> str:
    classes = {"0": "[0-9]", "A": "[A-Z]", "?": f"[?{NOT_ASCII}]"}
    return "".join(classes.get(char) or re.escape(char) for char in needle)


def _shaped(groups: bytes, rest: int) -> str:
    """Return a card's first groups, and so many digits of any script behind another gap."""
    gap = groups.decode("ascii")[4]
    return _shape(groups.decode("ascii") + gap) + f"[0-9?{NOT_ASCII}]{{{rest}}}"


ANY_WORD = rf"[A-Za-z0-9_\-{NOT_ASCII}]"
"""Also whatever else may count as a letter."""
INSTEAD: Mapping[bytes, str] = {
    b"+0": r"\+[1-9]",  # a country
    b"://": "@",  # without one no password stands in an address
    b"identified by ": r"(?i:identified by ')",
    b"with password ": r"(?i:with password ')",
    **{one: _shaped(one, rest) for one, rest in CARD_GROUPS.items()},
    **dict.fromkeys(FLAGS, r"--[a-z\-]*(?:password|passwd|secret|token|api-key) "),
}
"""Of detectors whose literals say too little: what else each match of theirs holds."""
_RARE: Mapping[Form, tuple[bytes, ...]] = {
    "raw": (b"PRIVATE KEY", b"hooks.slack.com/"),
    "low": (b"bearer ", b"basic ", b"curl ", *FLAGS, b"identified by ", b"with password "),
    "shape": (*PHONE_GROUPS, *PHONE_BEHIND_AREA, *CARD_GROUPS),
}
RARE_LITERALS = frozenset((form, one) for form, literals in _RARE.items() for one in literals)
"""The literals of detectors that most long texts hold nowhere."""


def sign_of(form: Form, literal: bytes) -> str:
    """Return what of a literal stands in the text itself, with all that goes with it."""
    return INSTEAD.get(literal) or _FORMS[form](literal.decode("ascii"))


_FORMS: Mapping[Form, Callable[[str], str]] = {
    "raw": re.escape,
    "low": lambda needle: rf"(?i:{re.escape(needle)})",
    "shape": _shape,
}
RARE_SIGN = SIGNS.add("|".join(sorted({sign_of(form, literal) for form, literal in RARE_LITERALS})))
"""What goes with the rare literals, whichever it is."""
