"""Whether the JSON text of a value may hold a secret, seen in one passage over all of it.

The one idea: what every secret must contain is one regular expression, and pydantic's engine, an
automaton, looks for all of it at once, where ``re`` tries one thing after the other at each place.
It says less than the detectors: a word before which they would look closer is enough for a doubt.
Where it sees nothing, neither the detectors nor the rules for names find anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from tracekit.redact.assignments import NAME_PARTS
from tracekit.redact.detectors import DETECTORS
from tracekit.redact.names import TAILS, secret_endings
from tracekit.redact.places import Sees, ascii_form
from tracekit.redact.signs import ANY_WORD, sign_of
from tracekit.redact.starts import CARD_RUN
from tracekit.redact.tokens import LEADS, SHORTEST_TOKEN, TOKEN_PREFIXES

_WORD = r"[A-Za-z0-9_\-]"
_LOW = r"[a-z0-9_\-]"
_BETWEEN = '[^A-Za-z0-9"]*'
"""What may stand between the letters of a name."""
_LONG_RUN = 16
_NO_LETTERS = rf"[0-9_\-]{{{_LONG_RUN}}}"
_CARD = r"(?:\A|[^0-9.]|[A-Za-z]\.)[2-6][0-9]{14}"
"""As in text and number; not behind a point, as so many digits of a fraction are."""
_EACH, _PATIENCE = 300, 300_000
"""What looking at a value costs the detectors, in characters; and what making an automaton does."""
_LARGE = 1 << 12
_SAMPLES, _SAMPLE = 4, 96
_RULES = 8
"""Of so many sets of rules the automata are kept."""
_RANDOM = 144
"""Of 192 pairs of letters so many are different; in words a hundred and twenty are."""
_OPENING = r'\A[^"]*"(?:[^"]*"[^"]*")*'
"""All before a text, its first quote included: there is no escape anywhere."""


class Glance:
    """Looks at JSON texts.

    Args:
        names: The user's field names, as they are compared.
        builtin: Whether the built-in detectors and names hold.
        patience: So much is looked at by others before an automaton is made for it.
    """

    def __init__(self, names: Iterable[str], *, builtin: bool, patience: int = _PATIENCE) -> None:
        self._names = sorted(names)
        self._builtin = builtin
        self._patience = patience
        self._left_out = 0
        self._plain: Sees | None = None
        self._other: Sees | None = None

    def sees_nothing(self, data: bytes, known: Mapping[str, str]) -> bool:
        """Whether there is certainly nothing to redact in a value that is written as ``data``.

        Args:
            data: JSON without blanks.
            known: Secrets learnt elsewhere.
        """
        if known and not self._builtin:  # they may stand there encoded
            return False
        if len(data) > _LARGE and _is_random(data):
            return False
        text = data.decode()
        if "\\" in text:
            if text.count("\\") != text.count("\\n"):
                return False
            text = text.replace("\\n", "\n")
        if text.isascii():
            sees = self._plain or self._made(text, ascii_only=True)
        elif self._names:  # whose letters may be folded into others
            return False
        else:
            sees = self._other or self._made(text, ascii_only=False)
        if sees is None or sees(text):
            return False
        return not known or not any(secret in text for secret in known)

    def make(self) -> None:
        """Make the automaton for usual texts now, since many values will come."""
        if self._plain is None:
            self._compile(ascii_only=True)

    def _made(self, text: str, *, ascii_only: bool) -> Sees | None:
        """Make the automaton; None as long as that would cost more than it has to save."""
        self._left_out += len(text) + _EACH
        return self._compile(ascii_only=ascii_only) if self._left_out > self._patience else None

    def _compile(self, *, ascii_only: bool) -> Sees:
        inside = [*_keys(self._names, builtin=self._builtin)]
        parts = []
        if self._builtin:
            inside += _literals(ascii_only=ascii_only)
            inside += [*_assigned(), *_runs(), "%[0-9A-Fa-f]{2}", LEADS.pattern]
            tokens = rf"(?:{'|'.join(_prefixes())}){ANY_WORD}{{{SHORTEST_TOKEN}}}"
            parts += [tokens, rf'[^"]*[^A-Za-z0-9"](?:{tokens})']
            parts += [_NO_LETTERS, rf'[^"]*[^A-Za-z0-9_\-"]{_NO_LETTERS}']
        if inside:
            parts.append(rf'[^"]*(?:{"|".join(inside)})')
        doubts = [rf"\A(?s:.)*?(?:{_CARD})"]
        if parts:
            doubts.append(rf"{_OPENING}(?:{'|'.join(parts)})")
        pattern = "|".join(doubts)
        if ascii_only:  # a smaller automaton
            pattern = ascii_form(pattern)
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
        try:
            sees: Sees = SchemaValidator(schema).isinstance_python
        except SchemaError:  # so many names that it would be too large
            sees = _doubts
        if ascii_only:
            self._plain = sees
        else:
            self._other = sees
        return sees


@lru_cache(maxsize=_RULES)
def glance_for(names: frozenset[str], *, builtin: bool) -> Glance:
    """Return the one that all redactors with these rules share: each replay has one of its own."""
    return Glance(names, builtin=builtin)


def _is_random(data: bytes) -> bool:
    """Whether a large value seems to be of random letters, which cost an automaton most.

    It remembers what it has seen of a language, and the next random letters are always new to it:
    the detectors are quicker then.
    """
    step = len(data) // _SAMPLES
    places = range(step // 2, step * _SAMPLES, step)
    sample = memoryview(b"".join([data[at : at + _SAMPLE] for at in places]))
    return len(set(sample.cast("H"))) > _RANDOM


def _doubts(_text: str) -> bool:
    return True


def _keys(names: Iterable[str], *, builtin: bool) -> Iterable[str]:
    """Yield what keys contain whose values are secret, or tell of others that are."""
    for name in names:
        yield rf'(?i:{re.escape(name)})":'
    if builtin:
        spelt = sorted({_BETWEEN.join(map(_letter, word)) for word in secret_endings()})
        tails = "|".join("".join(map(_letter, word)) for word in TAILS)
        yield rf'(?:{"|".join(spelt)})(?:[^A-Za-z"]|{tails})*":'
        yield '[vV]alue":'


def _letter(char: str) -> str:
    return f"[{char}{char.upper()}]"


def _literals(*, ascii_only: bool) -> Iterable[str]:
    """Yield what the detectors look for."""
    found = set()
    for detector in DETECTORS:
        for needle in detector.needles:
            if needle == CARD_RUN and ascii_only:
                continue  # digits of other scripts aside, it is a card
            found.add(sign_of(detector.form, needle))
    return sorted(found)


def _assigned() -> Iterable[str]:
    """Yield the name of a secret before a sign of assignment in a text."""
    names = "|".join(part.decode() for part in NAME_PARTS)
    yield rf"(?i:{names}){ANY_WORD}*'?\]?[ \t]*[=:>]"


def _runs() -> Iterable[str]:
    """Yield long runs that are no words: with capitals."""
    last = _LONG_RUN - 1
    for size in range(_LONG_RUN):
        yield rf"{_LOW}{{{size}}}[A-Z]{_WORD}{{{last - size}}}"


def _prefixes() -> Iterable[str]:
    """Yield how tokens begin that may be written without any capital."""
    yield from (re.escape(prefix) for prefix in TOKEN_PREFIXES if prefix == prefix.lower())
