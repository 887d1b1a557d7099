"""Whether a value can hold a secret at all, asked of all its texts at once.

The one idea: join the texts into one, a line each, and let the detectors look at that. None of them
takes for harmless in a line what it would not as a text of its own, so what is not found there is
in none of the texts: what tells of a digest counts only where it stands in the same line. It errs
to one side only: where nothing is found, the redactor changes nothing; what is not understood here
may hold a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

import orjson

from tracekit.canonical.plain import Contents, Plain, look_through
from tracekit.redact.assignments import names_secret
from tracekit.redact.detectors import DETECTORS, find_forms, find_random
from tracekit.redact.encoded import MOST_LAYERS, layers
from tracekit.redact.look import Look
from tracekit.redact.names import name_class
from tracekit.redact.places import is_long
from tracekit.redact.repeated import repeats_a_key
from tracekit.redact.tokens import find_tokens

_MOST_KEYS = 4096
_LONGEST_KEY = 120
_VALUE_KEYS = frozenset({"value", "Value"})
_MOST_NESTED = 50
_DIGITS = bytes(48 if 48 <= code <= 57 else code for code in range(256))
_LONG_NUMBER = b"0" * 15
"""The number of a payment card has at least so many digits."""
_LONGEST_INT = b"0" * 640
"""Whether ``json`` reads an integer with more digits, a program may say."""
_CARD = re.compile(rb"(?<![0-9.a-fA-F])[2-6][0-9]{14,15}(?![0-9.])")


class Prefilter:
    """Says of values that they hold no secret.

    Args:
        is_clean_key: Whether a key names no secret and holds none.
        texts: Whether the built-in detectors hold for texts.
    """

    def __init__(self, is_clean_key: Callable[[str], bool], *, texts: bool) -> None:
        self._is_clean_key = is_clean_key
        self._texts = texts
        self._clean_keys: set[str] = set()

    def passes(self, plain: Plain, known: Mapping[str, str]) -> bool:
        """Whether there is certainly nothing to redact in ``plain``.

        Args:
            plain: The value, and what stands in it.
            known: Secrets learnt elsewhere.
        """
        contents = plain.contents()
        if contents is None:  # it has changed since it was written
            return False
        if is_long(plain.data) and _is_one_text(contents.texts, len(plain.data)):
            return False
        parts = [contents]
        joined = "\n".join(contents.texts)
        if "{" in joined or "[" in joined:
            nested = _with_nested(contents)
            if nested is None:
                return False
            parts, said = nested
            joined = "\n".join(said)
        for part in parts:
            if not (part.keys <= self._clean_keys or self._are_clean(part.keys)):
                return False
            if self._texts and not _VALUE_KEYS.isdisjoint(part.keys) and _names_one(part.texts):
                return False
        if known:
            keys = "\n".join([key for part in parts for key in part.keys])
            if any(secret in joined or secret in keys for secret in known):
                return False
            if _may_hold_a_secret(keys, known, detectors=False):
                return False
        if _may_hold_a_secret(joined, known, detectors=self._texts):
            return False
        # No generator is left half read: what a handler raises while one is let go of is lost.
        numbers = int in set[type]().union(*[part.kinds for part in parts])
        return not (numbers and _may_hold_a_card(plain))

    def _are_clean(self, keys: Iterable[str]) -> bool:
        for key in keys:
            if key in self._clean_keys:
                continue
            if not self._is_clean_key(key):
                return False
            if len(key) <= _LONGEST_KEY:
                if len(self._clean_keys) >= _MOST_KEYS:
                    self._clean_keys = set()
                self._clean_keys.add(key)
        return True


def _may_hold_a_secret(
    joined: str, known: Mapping[str, str], *, detectors: bool, layer: int = 0
) -> bool:
    look = Look(joined)
    if detectors:
        worth_it = is_long(joined) or look.may_match()
        if worth_it and next(find_forms(look, DETECTORS), None) is not None:
            return True
        if look.long and next(find_tokens(look), None) is not None:
            return True
        if names_secret(look):
            return True
        if look.mixed and next(find_random(look, many=True), None) is not None:
            return True
    if layer and any(secret in joined for secret in known):
        return True
    if layer == MOST_LAYERS or not (look.mixed or look.ids or b"%" in look.raw):
        return False
    return any(
        (one.codec == "binary" and detectors)
        or _may_hold_a_secret(one.text, known, detectors=detectors, layer=layer + 1)
        for one in layers(look)
    )


def _is_one_text(texts: list[str], size: int) -> bool:
    """Whether one long text is most of a value: the redactor reads that just as quickly."""
    longest = max(texts, key=len, default="")
    if not is_long(longest) or 2 * len(longest) < size:
        return False
    stripped = longest.strip()
    return stripped[:1] + stripped[-1:] not in ("{}", "[]")


def _names_one(texts: Iterable[str]) -> bool:
    """Whether a text is the name of a secret, whose value may stand beside it."""
    return any(name_class(text) is not None for text in texts)


def _may_hold_a_card(plain: Plain) -> bool:
    """Whether a number somewhere in the JSON text may be that of a payment card."""
    shape = plain.data.translate(_DIGITS)  # texts may hold JSON with numbers
    return _LONG_NUMBER in shape and _CARD.search(plain.data) is not None


def _with_nested(contents: Contents) -> tuple[list[Contents], list[str]] | None:
    """Return what stands in the value and in the JSON inside its texts; None where in doubt.

    Beside it the texts that are looked at as such: of JSON it is what stands in it.
    """
    parts = [contents]
    said: list[str] = []
    for part in parts:
        for text in part.texts:
            if "{" not in text and "[" not in text:
                said.append(text)
                continue
            stripped = text.strip()
            if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
                said.append(text)
                continue
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                if _is_json(text):
                    return None
                said.append(text)
                continue
            inner = look_through(value)
            if inner is None or len(parts) > _MOST_NESTED or repeats_a_key(text, value):
                return None
            if _LONGEST_INT in text.encode("ascii", "replace").translate(_DIGITS):
                return None
            parts.append(inner)
    return parts, said


def _is_json(text: str) -> bool:
    """Whether the redactor takes for JSON what ``orjson`` does not: NaN, half characters."""
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
